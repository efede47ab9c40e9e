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


def find_hidden_name(ended: ProcessResult) -> str:
    """Return the name of the hidden file at which a program may have failed, by its last output, or ""."""
    stderr = _read_errors(ended)
    if not _was_denied(stderr):
        return ""
    names = (
        name for name in ended.hidden if re.search(rf"(?<![\w.]){re.escape(name.lower())}(?![\w.])", stderr)
    )
    return next(names, "")


def explain_hidden(ended: ProcessResult, access: Access) -> str:
    """Return a hint if a program may have failed at a file that is hidden from it, by its last output, or ""."""
    if name := find_hidden_name(ended):
        return _HIDDEN.format(name=name, pattern=shlex.quote(name))
    beside = ended.sandbox.tier == "landlock" and access == "workspace-write"
    if not ended.hidden or not beside or not _was_denied(_read_errors(ended)):
        return ""
    return _BESIDE_HIDDEN.format(name=ended.hidden[0])


def _read_errors(ended: ProcessResult) -> str:
    return (ended.stderr.head + ended.stderr.tail).lower()


def _was_denied(stderr: str) -> bool:
    return any(words in stderr for words in _NO_ACCESS)
