"""Paddock's exceptions. Denials, timeouts and failing programs are outcomes, never exceptions.

PaddockError
├── OutcomeError          an outcome that is not ok, raised by `outcome.check()`
├── ConfigurationError    a settings or server file says something Paddock does not understand
│   └── FlagError         a flag of the command line does, or an override of the library
├── LedgerError           the audit record cannot be written or read
│   └── LedgerUnusable
├── ArtifactError         stored output cannot be written or read
│   ├── InvalidHandle
│   ├── UnknownArtifact
│   └── ArtifactTooLarge
├── ScriptNotFound        a script that was named is not there
├── SdkError              a program's call of the SDK makes no sense
├── SdkFailed             what a program called through the SDK did not end well; has a status
├── VaultError            a secret cannot be read or kept
│   └── NotASecret
├── SignalError           a signal cannot be read or kept
├── ToolNotFound          no script tool of that id
├── ToolError             raised by a function that is a tool, to say why it failed
├── ApprovalError         what waits for a person cannot be kept, read or answered
├── EngineError           a worker, the fork server or the transpiler broke a rule: our fault
└── ServerError           an upstream MCP server failed; says whether it may have acted
    ├── UnknownServer
    ├── ServerUnavailable
    ├── ServerUnauthorized
    ├── ServerTimeout
    ├── ServerRejected
    ├── UnknownTool
    ├── ToolChanged
    └── InvalidArguments
"""

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from paddock.texts import find_nearest

if TYPE_CHECKING:
    from paddock.model.base import Json
    from paddock.model.status import Status


_MAX_QUOTED_CHARS = 500
NO_MORE_PROCESSES = (
    "no further process or thread can be started: this user, or this group of processes, has as many as it may have; "
    "end some of them, or raise the limit (ulimit -u; in a container, pids.max)"
)
"""What to say of EAGAIN from fork(2) and of a thread that did not start."""

NO_MORE_FILES = (
    "no further file can be opened: this process, or this machine, has as many open as it may have; close some, or "
    "raise the limit (ulimit -n)"
)
"""What to say of EMFILE and ENFILE, which pipes and sockets meet, too."""


def explain_start_failure(why: str) -> str:
    """Return why something did not start: what is behind it and what to do, where the system's words tell little."""
    if os.strerror(errno.EAGAIN) in why or "can't start new thread" in why:
        return NO_MORE_PROCESSES
    return NO_MORE_FILES if os.strerror(errno.EMFILE) in why else why


class PaddockError(Exception):
    """Base of every exception Paddock raises on purpose."""


class ConfigurationError(PaddockError):
    """A configuration file or variable is not understood; the text names the file, the key and the fix."""


class FlagError(ConfigurationError):
    """What a flag of the command line or an override sets is not understood."""


class LedgerError(PaddockError):
    """The audit ledger cannot be written or read; nothing may run without its record."""


class ApprovalError(PaddockError):
    """What waits for a person cannot be kept, read or answered; then nothing is allowed."""


class ToolNotFound(PaddockError):
    """No script tool of that id; the text says where was looked."""

    def __init__(self, name: str, searched: Sequence[str]) -> None:
        super().__init__("\n    ".join([f"Tool not found: {name}\n  searched:", *searched]))


class ToolError(PaddockError):
    """Raise it in a function that is a tool: the program that called it sees the text, without secrets."""


class LedgerUnusable(LedgerError):
    """The files of the ledger cannot be written or read: the directory, the disk or its rights are to blame."""


class EngineError(PaddockError):
    """A part of Paddock's own machinery failed; the program is not to blame."""


class ServerError(PaddockError):
    """An upstream server failed. Catch this class when the reason does not matter.

    `retryable`: a later try can succeed. `sent`: the request may have been executed, so only a caller
    who knows that the tool is idempotent may repeat it.
    """

    def __init__(self, message: str, *, retryable: bool = False, sent: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.sent = sent


class UnknownServer(ServerError):
    """No server of that name is configured. `absent` says by name why one of the servers file is not.

    `hint` lists the servers that there are, where the text names none of them.
    """

    def __init__(self, name: str, known: Iterable[str] = (), absent: Mapping[str, str] | None = None) -> None:
        self.hint = ""
        if absent and name in absent:
            super().__init__(f"Unknown server: {name}; {absent[name]}")
            return
        spelled = {each.lower(): each for each in known}
        near = find_nearest(name.lower(), spelled)
        if not near:
            self.hint = f"those there are: {', '.join(spelled.values())[:_MAX_QUOTED_CHARS] or 'none'}"
        hint = f"; did you mean `{spelled[near[0]]}`?" if near else ""
        super().__init__(f"Unknown server: {name}{hint}")


class ServerUnavailable(ServerError):
    """The server could not be started or reached, was refused a place, or died without an answer."""


class ServerUnauthorized(ServerError):
    """The server wants credentials that it did not get (HTTP 401 and 403)."""


class ServerTimeout(ServerError):
    """The server took the request and did not answer in time; whether it acted is unknown."""


class ServerRejected(ServerError):
    """The server answered with a protocol error instead of a result.

    `code` is its JSON-RPC code, or 0 if Paddock itself rejected the answer; `data` is the data of the error.
    """

    def __init__(self, message: str, *, code: int, data: "Json" = None, retryable: bool = False) -> None:
        super().__init__(message, retryable=retryable, sent=True)
        self.code = code
        self.data = data


class ArtifactError(PaddockError):
    """Stored output cannot be written or read; the text says why."""


class InvalidHandle(ArtifactError):
    """A text is not the handle of an artifact."""


class UnknownArtifact(ArtifactError):
    """The caller has no such artifact: it was never written, has expired, or is another workspace's."""


class ArtifactTooLarge(ArtifactError):
    """An artifact holds more than may be read of one."""


class ScriptNotFound(PaddockError):
    """A script that was named is not there, or is no text; the message tells where was searched."""


class SdkError(PaddockError):
    """A call of the SDK, or the sequence that it names, makes no sense; the text teaches the right way."""


class SdkFailed(PaddockError):
    """What a program called through the SDK did not end well; `status` says how, `name` what programs catch."""

    def __init__(self, message: str, status: "Status", name: str) -> None:
        super().__init__(message)
        self.status = status
        self.name = name


class VaultError(PaddockError):
    """A secret cannot be read or kept; the text never holds one."""


class NotASecret(VaultError):
    """A name that cannot name a secret, or a value that cannot be one."""


class SignalError(PaddockError):
    """A signal cannot be read or kept."""


class UnknownTool(ServerError):
    """The server lists no tool of that name; nothing was sent."""


class ToolChanged(ServerError):
    """The tool's definition is not the pinned one, and no person approved the change; nothing was sent."""


class InvalidArguments(ServerError):
    """The arguments are not what the tool's schema asks for; nothing was sent."""


for _kind in [
    each for each in globals().values() if isinstance(each, type) and issubclass(each, PaddockError)
]:
    _kind.__module__ = "paddock"  # the name that tracebacks show can be imported
