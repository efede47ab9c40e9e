"""Paddock runs code that nobody has reviewed and gives it exactly the powers its policy grants."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paddock.model.settings import Settings
    from paddock.surfaces.compute import compute
    from paddock.wiring import open_session

__version__ = "0.1.0"

__all__ = ["Settings", "__version__", "compute", "open_session"]

_ROOMS = {
    "Settings": "paddock.model.settings",
    "compute": "paddock.surfaces.compute",
    "open_session": "paddock.wiring",
}
"""Where the public names live; each is imported at its first use, so that `import paddock` costs little."""


def __getattr__(name: str) -> object:
    if name not in _ROOMS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ROOMS[name]), name)
