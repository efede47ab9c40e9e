"""The interface between the guest engine and the gate: a task, and the calls that the engine makes to the host."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from paddock.engines.live_run import LiveRun
from paddock.engines.run_clock import RunClock
from paddock.foundation.fair_slots import Slot
from paddock.model.base import Json
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import ErrorInfo, Status
from paddock.model.request import GuestRun, JsonPaths

if TYPE_CHECKING:
    from paddock.engines.javascript.parse import ParsedProgram
    from paddock.engines.javascript.tape import RecordedReplies, Tape


class HostReply(NamedTuple):
    """The host's reply to a call: a value, or the fields of the error that the program may catch."""

    status: Status
    value: Json = None
    error: dict[str, Json] | None = None
    warning: str = ""
    """A warning for the console."""


OnReply = Callable[[HostReply], None]


class Host(Protocol):
    """The gate, as the engine calls it for a program.

    Each method calls `on_reply` once, as soon as the program may continue, and returns when the call has been completed
    and recorded. Neither raises because of the program's behaviour.
    """

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Json],
        on_reply: OnReply,
        *,
        raw: bool,
        encoded: JsonPaths = (),
        is_method: bool = False,
    ) -> None:
        """Call `tool` on `server`, or a method of the protocol.

        The arguments contain byte arrays as base64 at the paths `encoded`.
        """
        ...

    async def sdk(self, name: str, arguments: list[Json], on_reply: OnReply) -> None:
        """Call the SDK's method `name`."""
        ...


class ResultSink(Protocol):
    """Stores a result that is over its limit."""

    limit: int
    """Maximum length of a result that it stores, in characters."""

    def take(self, text: str) -> None:
        """Store the next part."""
        ...


@dataclass(frozen=True, slots=True)
class GuestTask:
    """One program with the limits and grants that policy decided."""

    work: GuestRun
    limits: GuestLimits
    grants: Grants
    workspace: Path
    commands: tuple[str, ...] = ()
    """Methods of the SDK that the settings add, as `namespace.function`."""
    actor: str = ""
    """Whose turn it takes where programs wait."""
    depth: int = 0
    """Number of programs that wait for this one, each for the next."""
    clock: RunClock = field(default_factory=RunClock)
    """The clock of its wall time."""
    sink: ResultSink | None = None
    """Stores a result over its limit."""
    waits: dict[str, float] | None = None
    """Receives how long it waited for its turn, `queue_ms`, in milliseconds."""
    slot: Slot | None = None
    """A slot that its caller took for it."""
    live: LiveRun | None = None
    """Shows whether it waits, and what its worker uses, while it runs."""
    tape: "Tape | None" = None
    """Gets what the program does, whose clock is that of the tape; None for a program that is not recorded."""
    replies: "RecordedReplies | None" = None
    """The replies that the program gets in place of those of the host; needs a tape."""
    check: "Callable[[ParsedProgram], Awaitable[ErrorInfo | None]] | None" = None
    """Returns why the parsed program does not start; None if it may."""
