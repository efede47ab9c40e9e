"""Explain a failure at a file that is hidden from programs (`child.hiding`)."""

import re
import shlex

from paddock.model.process import ProcessResult
from paddock.model.program import Access

_NO_ACCESS = (
    *("permission denied", "eacces", "accessdenied", "permissionerror", "busy", "ebusy"),
    *("operation not permitted", "read-only file system", "cross-device link"),
)
_HIDDEN = (
    "{name} is hidden from programs, because it holds secrets (workspace.hide); a person can show it with `paddock "
    "exec --show {pattern}`, or for agents with `show` under [workspace] in the user's paddock.toml"
)
_BESIDE_HIDDEN = (
    "the workspace holds files that are hidden from programs, such as {name} (workspace.hide); in the tier landlock a "
    "program can therefore neither make, rename nor remove a name in their folders, and only change what is there"
)


def explain_hidden(ended: ProcessResult, access: Access) -> str:
    """Return a hint if a program may have failed at a file that is hidden from it, by its last output, or ""."""
    stderr = (ended.stderr.head + ended.stderr.tail).lower()
    if not ended.hidden or not any(words in stderr for words in _NO_ACCESS):
        return ""
    for name in ended.hidden:
        if re.search(rf"(?<![\w.]){re.escape(name.lower())}(?![\w.])", stderr):
            return _HIDDEN.format(name=name, pattern=shlex.quote(name))
    beside = ended.sandbox.tier == "landlock" and access == "workspace-write"
    return _BESIDE_HIDDEN.format(name=ended.hidden[0]) if beside else ""
