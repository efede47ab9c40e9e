"""Paddock runs unreviewed code and gives it exactly the powers its policy grants."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.model.approval import Answer, Question
    from paddock.model.artifact import OutputQuery
    from paddock.model.errors import PaddockError
    from paddock.model.outcome import CallRecord, ConsoleLine, Outcome, Status
    from paddock.model.settings import Settings
    from paddock.store.audit import AuditRecord
    from paddock.surfaces.library.blocking import BlockingPaddock
    from paddock.surfaces.library.paddock import Paddock
    from paddock.tools.prompting import PromptReply

if sys.platform != "linux":  # every module passes this door, so that no other one has to look
    raise ImportError(
        f"Paddock runs on Linux, and this is {sys.platform}. On Windows, install it in WSL 2. On macOS, and on Windows "
        "without WSL, run it in a container: docs/docker.md."
    )

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AuditRecord",
    "BlockingPaddock",
    "CallRecord",
    "ConsoleLine",
    "Outcome",
    "OutputQuery",
    "Paddock",
    "PaddockError",
    "PromptReply",
    "Question",
    "Settings",
    "Status",
    "__version__",
]

_ROOMS = {
    "Answer": "paddock.model.approval",
    "AuditRecord": "paddock.store.audit",
    "BlockingPaddock": "paddock.surfaces.library.blocking",
    "CallRecord": "paddock.model.outcome",
    "ConsoleLine": "paddock.model.outcome",
    "Outcome": "paddock.model.outcome",
    "OutputQuery": "paddock.model.artifact",
    "Paddock": "paddock.surfaces.library.paddock",
    "PaddockError": "paddock.model.errors",
    "PromptReply": "paddock.tools.prompting",
    "Question": "paddock.model.approval",
    "Settings": "paddock.model.settings",
    "Status": "paddock.model.outcome",
}
"""Where the public names live; each is imported at its first use, so that `import paddock` costs little."""


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)
