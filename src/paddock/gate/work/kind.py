"""What the gate needs to know about a kind of work, and what a kind needs from the gate to run it.

Each kind is one file beside this one. A new kind needs a file, a line in the table of `paddock.gate.work`, and a type
of request in `paddock.model.request`.
"""

import itertools
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from paddock.gate.watchers import Watchers
from paddock.model.base import Json, Value
from paddock.model.outcome import Decision, OnProgress, PlannedCall, RawResult
from paddock.model.request import ExecutionRequest, RuntimeRun, ToolRun
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.kinds import WorkPolicy
from paddock.policy.decisions.question_texts import Subject
from paddock.record.ledger.sink import MAX_ITEM_CHARS, MAX_LIST_ITEMS, Field

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from paddock.engines.javascript.engine import GuestEngine
    from paddock.engines.run_clock import RunClock
    from paddock.engines.sdk.requests import MakeToolRun
    from paddock.engines.sdk.service import Services
    from paddock.engines.servers.person import Person
    from paddock.foundation.fair_slots import Slot
    from paddock.gate.change_sets import ChangeSets
    from paddock.gate.guest_service import GuestService
    from paddock.gate.host_access import ConnectionWatch
    from paddock.gate.program_calls import OnResult
    from paddock.gate.program_service import ProgramService
    from paddock.gate.replay.recordings import Recordings
    from paddock.gate.script_tool_service import Scripts
    from paddock.gate.servers import ServerService
    from paddock.gate.visible_tools import VisibleTools
    from paddock.policy.redaction.outgoing import OutgoingRedaction
    from paddock.record.output.large_results import Results

W = TypeVar("W", bound=Value)
_MAX_NAME_CHARS = 200
_CUT = "..."
"""Stands for the middle of a name."""


class Engines(NamedTuple):
    """The engines that run work."""

    guests: "GuestService"
    servers: "ServerService"
    programs: "ProgramService"
    scripts: "Scripts"
    sdk: "Services"
    results: "Results"
    changes: "ChangeSets"

    @property
    def guest(self) -> "GuestEngine":
        """The engine of JavaScript programs."""
        return self.guests.engine


class Admitted(NamedTuple):
    """Work that may run."""

    decision: Decision
    """The current decision; it may refuse."""
    slot: "Slot | None" = None
    """The slot that it has."""


class CarryOutChild(Protocol):
    """Runs a request of a program. `on_result` receives its result before its end is recorded."""

    def __call__(
        self, request: ExecutionRequest, on_result: "OnResult", on_progress: OnProgress | None = None
    ) -> Awaitable[RawResult]: ...


class Context(NamedTuple):
    """The parts of the gate that a kind needs to run a request."""

    engines: Engines
    policy: Policy
    outgoing: "OutgoingRedaction"
    visible_tools: "VisibleTools"
    commands: tuple[str, ...]
    """Names of the commands that the settings add to the SDK."""
    make_tool_run: "MakeToolRun"
    clock_of: "Callable[[ExecutionRequest], RunClock]"
    """Returns the clock of a request. It stops while a person is asked."""
    person_of: "Callable[[ExecutionRequest, str], Person]"
    """Returns what answers the questions that a server asks during a call."""
    watch_connections: "Callable[[ExecutionRequest], ConnectionWatch]"
    """Returns what asks about and records the connections of a program to hosts."""
    recordings: "Recordings"
    """Keeps and finds recordings of programs."""
    carry_out_child: "CarryOutChild"
    """Runs a child request through the gate, for calls of programs."""


class Kind(WorkPolicy[W]):
    """One kind of work: decides, names, describes, records and runs it.

    `add_shown`, `admit`, `check`, `prepare`, `refine` and `run` have effects, and `resolve` reads what a server has
    reported. All other methods are pure.
    """

    @abstractmethod
    def describe(self, request: ExecutionRequest, work: W) -> tuple[str, dict[str, Json]]:
        """Return a description of the work and its arguments, for the person who is asked."""

    def hash_fields(self, work: W) -> dict[str, Json]:
        """Return all fields that determine what is done. A person's answer holds for exactly these."""
        return {name: getattr(work, name) for name in type(work).model_fields}

    def repeatable_name(self, work: W) -> tuple[str, ...] | None:
        """Return the name under which an answer may hold for the rest of a run; None if each call is asked about."""
        del work

    def stub_result(self, work: W) -> Json:
        """Return what a rehearsal returns in place of the result; None if there is no stub."""
        del work

    def is_rehearsed(self, work: W) -> bool:
        """Return whether a rehearsal leaves out the work although policy allows it."""
        del work
        return False

    def make_planned_call(self, request: ExecutionRequest, work: W, decision: Decision) -> PlannedCall:
        """Return the entry of a request in the list of a rehearsal."""
        method = request.caller.method if request.caller else request.work.kind
        arguments = self.describe(request, work)[1]
        return PlannedCall(server="paddock", tool=method, arguments=arguments, asks=decision.asks)

    def make_subject(self, request: ExecutionRequest, work: W) -> Subject:
        """Return the subject of a question about the work."""
        is_repeatable = self.repeatable_name(work) is not None
        return Subject(*self.describe(request, work), self.hash_fields(work), is_repeatable)

    @abstractmethod
    def list_facts(self, work: W, decision: Decision) -> dict[str, Field]:
        """Return the facts of the work for the record: names, sizes and hashes, never a payload."""

    def list_end_facts(self, work: W, result: RawResult) -> dict[str, Field]:
        """Return further facts of its end for the record."""
        del work, result
        return {}

    def is_computation(self, work: W) -> bool:
        """Return whether the work is a pure computation. `audit.required` may allow it without a record."""
        del work
        return False

    def prepare(self, engines: Engines, decision: Decision) -> None:
        """Let an engine prepare while the record of the start is written."""

    def resolve(self, engines: Engines, request: ExecutionRequest, work: W) -> ExecutionRequest:
        """Return the request with the names that rules, questions and the record use."""
        del engines, work
        return request

    async def refine(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision
    ) -> ExecutionRequest | RawResult:
        """Return the request with the facts from outside that the decision needs, or the error of getting them."""
        del context, work, decision
        return request

    async def check(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision
    ) -> Decision | RawResult:
        """Check work before a person is asked about it, so that nobody is asked about work that cannot run.

        Return the current decision, or the result of work that is invalid.
        """
        del context, request, work
        return decision

    async def add_shown(
        self, context: Context, request: ExecutionRequest, work: W
    ) -> ExecutionRequest | RawResult:
        """Return the request with what its question shows besides its arguments, or the error of reading that.

        Called just before a person is asked, whatever rule asks.
        """
        del context, work
        return request

    def admit(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision, watchers: Watchers
    ) -> "AbstractAsyncContextManager[Admitted | RawResult] | None":
        """Return a context that waits until allowed work may run; None if it need not wait.

        Entering it gives the admitted work, or the result of work that did not get a slot.
        """
        del context, request, work, decision, watchers

    @abstractmethod
    def run(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision, watchers: Watchers
    ) -> Coroutine[Any, Any, RawResult]:
        """Run the work and return its result. Raises EngineError when nothing ran, other PaddockErrors for faults."""


def shorten_name(text: str) -> str:
    """Return a name for the record: without lone surrogates, cut to a maximum length."""
    return (text if text.isascii() else text.encode("utf-8", "replace").decode())[:_MAX_NAME_CHARS]


def shorten_names(texts: Iterable[object]) -> list[str]:
    """Return names for a list in the record: the first ones, without the middle of those that are too long."""
    names = [str(text) for text in itertools.islice(texts, MAX_LIST_ITEMS)]
    valid = [name if name.isascii() else name.encode("utf-8", "replace").decode() for name in names]
    half = (MAX_ITEM_CHARS - len(_CUT)) // 2
    return [
        name if len(name) <= MAX_ITEM_CHARS else f"{name[:half]}{_CUT}{name[len(name) - half :]}"
        for name in valid
    ]


def list_host_facts(work: RuntimeRun | ToolRun) -> dict[str, Field]:
    """Return the hosts that a program or script tool asks for, for the record."""
    return {"hosts": shorten_names(work.hosts)} if work.hosts else {}


def name_network(work: RuntimeRun | ToolRun) -> str:
    """Return the network that a program or script tool asks for, as a person sees it."""
    return ", ".join(work.hosts) if work.hosts else work.network
