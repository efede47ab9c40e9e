"""Paddock's exceptions. Denials, timeouts and failing programs are outcomes, never exceptions.

PaddockError
├── OutcomeError          an outcome is not ok; raised by `outcome.check()`
├── RequestError          a request is not valid; also a ValueError
├── ConfigurationError    a settings file, servers file or variable is not valid
│   └── FlagError         a flag of the command line or an override is not valid
├── LedgerError           the audit record cannot be written or read
│   ├── AlreadyClaimed    a request was claimed before, and runs at most once
│   └── LedgerUnusable
├── ArtifactError         stored output cannot be written or read
│   ├── InvalidHandle
│   ├── UnknownArtifact
│   ├── ArtifactStoreError  the store of output cannot be used now
│   └── ArtifactTooLarge
├── ChangesError          a change set cannot be stored, read or accepted
│   ├── ChangesNotFound   there is no such change set
│   ├── ChangesCorrupted  it is not what its ID says
│   └── ChangesTooLarge
├── RecordingError        a recording cannot be read, or is not what the ledger says
├── ScriptNotFound        a named script does not exist
├── SdkError              a program's call of the SDK is not valid
├── SdkFailed             work that a program started through the SDK failed; has a status
├── VaultError            a secret cannot be read or stored
│   └── NotASecret
├── SignalError           a signal cannot be read or stored
├── ToolNotFound          no script tool has that id
├── ToolError             raised by a function that is a tool, to say why it failed
├── ApprovalError         a question to a person cannot be stored, read or answered
│   └── AskerEnded        the answer reaches no process: the replica that asked has ended
├── EngineError           a worker, the fork server or the transpiler failed: a fault of Paddock
└── ServerError           an upstream MCP server failed; `sent` says whether it may have acted
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

from paddock.model.texts import find_nearest

if TYPE_CHECKING:
    from paddock.model.base import Json
    from paddock.model.status import Status


NO_SERVERS = "no servers are configured here; name one in .paddock/servers.json of the workspace"
_MAX_QUOTED_CHARS = 500
NO_MORE_PROCESSES = (
    "no further process or thread can be started: this user, or this control group, has reached its limit; "
    "end some of them, or raise the limit (ulimit -u; in a container, pids.max)"
)
"""Error text for EAGAIN of fork(2) and for a thread that did not start."""

NO_MORE_FILES = (
    "no further file can be opened: this process, or this machine, has reached its limit of open files; close some, or "
    "raise the limit (ulimit -n)"
)
"""Error text for EMFILE and ENFILE, which pipes and sockets get, too."""


def explain_start_failure(why: str) -> str:
    """Return why a process did not start, with cause and remedy if the system's own text is unclear."""
    if os.strerror(errno.EAGAIN) in why or "can't start new thread" in why:
        return NO_MORE_PROCESSES
    return NO_MORE_FILES if os.strerror(errno.EMFILE) in why else why


class PaddockError(Exception):
    """Base of every exception that Paddock raises on purpose."""


class RequestError(PaddockError, ValueError):
    """A request is not valid, and nothing ran; the text names the argument, what is wrong, and what is valid."""


class ConfigurationError(PaddockError):
    """A configuration file or variable is not valid; the text names the file, the key and the remedy."""


class FlagError(ConfigurationError):
    """A flag of the command line or an override is not valid."""


class LedgerError(PaddockError):
    """The audit ledger cannot be written or read; nothing may run without its record."""


class ApprovalError(PaddockError):
    """A question to a person cannot be stored, read or answered; then nothing is allowed."""


class AskerEnded(ApprovalError):
    """An answer reaches no process: the one that asked has ended, and with it what it would have run."""


class ToolNotFound(PaddockError):
    """No script tool has that id; the text lists where Paddock searched."""

    def __init__(self, name: str, searched: Sequence[str]) -> None:
        super().__init__("\n    ".join([f"Tool not found: {name}\n  searched:", *searched]))


class ToolError(PaddockError):
    """Raise it in a function that is a tool: the program that called it sees the text, without secrets."""


class AlreadyClaimed(LedgerError):
    """A request was claimed before, by this or another process. It runs at most once."""


class LedgerUnusable(LedgerError):
    """The ledger cannot be used: its directory, the disk or the permissions are at fault."""


class EngineError(PaddockError):
    """Paddock's own machinery failed; the program is not at fault."""


class ServerError(PaddockError):
    """An upstream server failed. Catch this class when the reason does not matter.

    `retryable`: a later attempt can succeed. `sent`: the request may have been executed, so that only a caller who
    knows that the tool is idempotent may repeat it.
    """

    def __init__(self, message: str, *, retryable: bool = False, sent: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.sent = sent


class UnknownServer(ServerError):
    """No server with that name is configured. `absent` says by name why an entry of the servers file is not used.

    `hint` lists the existing servers, if the text names none of them.
    """

    def __init__(self, name: str, known: Iterable[str] = (), absent: Mapping[str, str] | None = None) -> None:
        self.hint = ""
        if absent and name in absent:
            super().__init__(f"Unknown server: {name}; {absent[name]}")
            return
        spelled = {each.lower(): each for each in known}
        near = find_nearest(name.lower(), spelled)
        if not near:
            names = ", ".join(spelled.values())[:_MAX_QUOTED_CHARS]
            self.hint = f"those there are: {names}" if names else NO_SERVERS
        hint = f"; did you mean `{spelled[near[0]]}`?" if near else ""
        super().__init__(f"Unknown server: {name}{hint}")


class ServerUnavailable(ServerError):
    """The server could not be started or reached, got no slot, or died without an answer."""


class ServerUnauthorized(ServerError):
    """The server requires credentials that it did not get (HTTP 401 and 403)."""


class ServerTimeout(ServerError):
    """The server received the request and did not answer in time; it may have acted."""


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
    """The caller has no such artifact: it was never written, has expired, or belongs to another workspace."""


class ArtifactStoreError(ArtifactError):
    """The store of output cannot be used now: its bucket, its directory or the disk is at fault."""


class ArtifactTooLarge(ArtifactError):
    """An artifact exceeds the size that may be read."""


class ChangesError(PaddockError):
    """A change set cannot be stored, read or accepted; the text says why, and nothing was written."""


class ChangesNotFound(ChangesError):
    """The caller has no such change set: it was never made, was deleted, or belongs to another workspace."""


class ChangesCorrupted(ChangesError):
    """A change set in the store is not what its ID says."""


class ChangesTooLarge(ChangesError):
    """A program changed more than a change set may hold."""


class RecordingError(PaddockError):
    """A recording cannot be read or stored, or is not the one that the ledger names."""


class ScriptNotFound(PaddockError):
    """A named script does not exist, or is not text; the message lists where Paddock searched."""


class SdkError(PaddockError):
    """A call of the SDK, or its sequence, is not valid; the text shows the right way."""


class SdkFailed(PaddockError):
    """Work that a program started through the SDK failed; `status` says how, `name` is for programs that catch it."""

    def __init__(self, message: str, status: "Status", name: str) -> None:
        super().__init__(message)
        self.status = status
        self.name = name


class VaultError(PaddockError):
    """A secret cannot be read or stored; the text never contains one."""


class NotASecret(VaultError):
    """A string cannot be the name of a secret, or a value cannot be one."""


class StoreUnavailable(PaddockError):
    """The database that the machines of a cluster share cannot be used now; nothing was claimed."""


class DatabaseRestored(StoreUnavailable):
    """That database was restored from a backup, and no operator has accepted it. The text is for callers, too."""


class SignalError(PaddockError):
    """A signal cannot be read or stored."""


class UnknownTool(ServerError):
    """The server lists no tool with that name; nothing was sent."""


class ToolChanged(ServerError):
    """The tool's definition differs from its pin, and no person approved the change; nothing was sent."""


class InvalidArguments(ServerError):
    """The arguments do not match the tool's schema; nothing was sent."""


for _kind in [
    each for each in globals().values() if isinstance(each, type) and issubclass(each, PaddockError)
]:
    _kind.__module__ = "paddock"  # tracebacks show an importable name
