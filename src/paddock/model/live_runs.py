"""What processes of Paddock tell each other about what they run now: one question, one answer, each a line of JSON.

Answers come from another process and are checked like any input. Unknown members are ignored, because the two may have
different versions.
"""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from paddock.model.base import Value, WholeNumber

MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""Maximum size of one answer, in bytes."""
MAX_RUNS = 1000
"""Maximum number of runs, of sessions and of files in one answer."""
MAX_TAIL_CHARS = 64 * 1024
"""Maximum size of each stream in an answer, in characters."""
MAX_FILE_BYTES = 1024 * 1024
"""Maximum size of a session's file that is shown, in bytes."""

Name = Annotated[str, Field(max_length=1000)]
Size = Annotated[WholeNumber, Field(ge=0)]
Ask = Literal["list", "tail", "stop", "close", "files", "file"]
State = Literal["queued", "asking", "running"]
"""Whether a run waits for a slot, waits for a person, or runs."""
STATE_NAMES: dict[State, str] = {
    "queued": "waits for a slot",
    "asking": "waits for a person",
    "running": "running",
}
"""What people call these states."""


class _Told(Value):
    """A part of an answer. Each answer has a member that it requires, so that a refusal is none."""

    model_config = ConfigDict(extra="ignore")


class LiveQuestion(_Told):
    """What one process asks another one."""

    ask: Ask
    id: Name = ""
    """The id of a run, or the name of a session."""
    path: Annotated[str, Field(max_length=8192)] = ""
    """A file of a session."""
    output_chars: Annotated[WholeNumber, Field(ge=0, le=MAX_TAIL_CHARS)] = 0
    """How much of the output of each run to list, in characters."""
    by: Name = ""
    """Who ends a run, for its record."""
    user: Name | None = None
    """The user of a server for whom it is asked, who sees only their own; None for the owner."""


class OutputNow(_Told):
    """The tail of a run's output so far. The answer to `tail`."""

    stdout: Annotated[str, Field(max_length=MAX_TAIL_CHARS)]
    """Standard output, or the console of a JavaScript program."""
    stderr: Annotated[str, Field(max_length=MAX_TAIL_CHARS)] = ""
    omitted: bool = False
    """Whether the beginning is left out."""


class RunNow(_Told):
    """One run."""

    id: Annotated[str, Field(pattern=r"^[0-9A-Za-z_-]{1,64}$")]
    actor: Name
    surface: Name
    kind: Name
    name: Name
    """What runs: a script, a file, a tool."""
    language: Name = ""
    state: State
    since: float
    """When it began, in seconds since the epoch."""
    calls: Size = 0
    """Number of calls so far."""
    memory_bytes: Size | None = None
    cpu_ms: Annotated[float, Field(ge=0)] | None = None
    session: Name = ""
    """The name of its session; empty without one."""
    output: OutputNow | None = None
    """The tail of its output; None if it was not asked for."""


class SessionNow(_Told):
    """One open session."""

    name: Annotated[str, Field(pattern=r"^[0-9a-f]{1,64}$")]
    """What records call it. Its handle stays with its caller."""
    actor: Name
    language: Name
    executions: Size
    running: bool
    background: bool
    memory_bytes: Size
    expires_in_s: float
    has_files: bool
    """Whether it has a working directory."""


class PaddockNow(_Told):
    """One opened Paddock."""

    user: Name = ""
    """The user of a server that it was opened for; empty for the owner's own."""
    workspace: Name
    workers: Size
    """Number of living JavaScript workers, including spares."""
    waiting: Size
    """Number of programs that wait for a slot."""
    servers: Size
    """Number of running MCP servers."""
    tier: Name = ""
    """The tier of confinement that was proved; empty before the first program in another language than JavaScript."""
    runs: Annotated[tuple[RunNow, ...], Field(max_length=MAX_RUNS)] = ()
    sessions: Annotated[tuple[SessionNow, ...], Field(max_length=MAX_RUNS)] = ()


class ProcessNow(_Told):
    """One process, and all that it has opened. The answer to `list`."""

    pid: WholeNumber
    program: Name
    since: float
    paddocks: Annotated[tuple[PaddockNow, ...], Field(max_length=MAX_RUNS)] = ()


class FileNow(_Told):
    """One file of a session."""

    path: Annotated[str, Field(max_length=8192)]
    size: Size


class FilesNow(_Told):
    """The files of a session. The answer to `files`."""

    files: Annotated[tuple[FileNow, ...], Field(max_length=MAX_RUNS)]
    omitted: bool = False
    """Whether there are more."""


class ContentNow(_Told):
    """The content of a file. The answer to `file`."""

    text: Annotated[str, Field(max_length=MAX_FILE_BYTES)] | None
    """Without secrets; None for a file that is no text."""
    data: Annotated[str, Field(max_length=2 * MAX_FILE_BYTES)] = ""
    """The bytes of a file that is no text, in base64 (RFC 4648)."""


class Done(_Told):
    """The answer to `stop` and `close`."""

    found: bool
    """Whether there was such a run or session."""


class Refused(_Told):
    """Why a question has no answer."""

    error: Annotated[str, Field(max_length=4000)]
