"""What the guest engine is given and what it may ask for: the seam between engine and gate."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from paddock.javascript.clock import Clock
from paddock.model.base import Json
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import ConsoleLine, Status
from paddock.model.request import GuestRun, Places

OnConsole = Callable[[ConsoleLine], None]


class HostReply(NamedTuple):
    """What the host answers to a call: a value, or the fields of the error that the program may catch."""

    status: Status
    value: Json = None
    error: dict[str, Json] | None = None
    warning: str = ""
    """What the console says beside it."""


OnReply = Callable[[HostReply], None]


class Host(Protocol):
    """What the engine may ask of the gate on behalf of a program.

    Each method calls `on_reply` once, as soon as the program may go on, and returns when all that goes with the call is
    done. Neither raises for what the program did.
    """

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Json],
        on_reply: OnReply,
        *,
        raw: bool,
        encoded: Places = (),
    ) -> None:
        """Call `tool` on `server`; bytes stand as base64 at the places `encoded` of the arguments."""
        ...

    async def sdk(self, name: str, arguments: list[Json], on_reply: OnReply) -> None:
        """Call the SDK's method `name`."""
        ...


class ResultSink(Protocol):
    """Keeps a result that is over its limit."""

    limit: int
    """Maximum length of a result that it takes, in characters."""

    def take(self, text: str) -> None:
        """Take the next piece."""
        ...


@dataclass(frozen=True, slots=True)
class GuestJob:
    """One program with the limits and grants that policy decided."""

    work: GuestRun
    limits: GuestLimits
    grants: Grants
    workspace: Path
    commands: tuple[str, ...] = ()
    """Methods of the SDK that the settings add, as `namespace.function`."""
    depth: int = 0
    """How many programs wait for this one, each for the next."""
    clock: Clock = field(default_factory=Clock)
    """What its wall time is counted by."""
    sink: ResultSink | None = None
    """What takes a result over its limit."""
