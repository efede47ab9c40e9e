"""What the gate knows of a kind of work, and what a kind needs of the gate to run it.

Each kind is one file beside this one. `paddock.app.work.KINDS` lists them; a further kind is a further file and a line
there, and a request of its own in `paddock.model.request`.
"""

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from paddock.app import visible_tools
from paddock.audit.sink import Field
from paddock.model.base import Json, Value
from paddock.model.outcome import Decision, PlannedCall, RawResult
from paddock.model.request import ExecutionRequest, Places, SdkCall
from paddock.policy.decision import Policy
from paddock.policy.kinds import WorkPolicy
from paddock.policy.questions import Subject

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from paddock.app.host_calls import OnResult
    from paddock.app.runtime_service import Programs
    from paddock.app.script_tool_service import Scripts
    from paddock.hub.person import Person
    from paddock.hub.result import ToolResult
    from paddock.javascript.clock import Clock
    from paddock.javascript.engine import GuestEngine
    from paddock.javascript.job import OnConsole
    from paddock.output.large_results import Results
    from paddock.output.recorder import OnOutput
    from paddock.redaction.outgoing import OnCall, OutgoingRedaction
    from paddock.sdk.requests import FindTool

W = TypeVar("W", bound=Value)
_MAX_NAME_CHARS = 200


class Servers(visible_tools.Servers, Protocol):
    """What is needed of the hub."""

    async def call_tool(
        self, server: str, tool: str, arguments: Mapping[str, Json], *, limit_ms: int
    ) -> "ToolResult":
        """Return the result of a tool, within the server's own time and `limit_ms`. Raises ServerError."""
        ...

    async def is_read_only(self, server: str, tool: str) -> bool:
        """Return whether the server says that a tool only reads. Raises ServerError."""
        ...

    def resolve_alias(self, server: str, tool: str) -> str:
        """Return the tool that a name means, as far as its server is known: a tool may have an alias."""
        ...

    def may_be_alias(self, server: str, tool: str) -> bool:
        """Tell whether a name may turn out to be an alias once its server has listed its tools."""
        ...

    async def admit_bytes(self, server: str, tool: str, places: Places) -> None:
        """Raise ServerError where a tool does not say that it reads base64 at all of these places."""
        ...


class Sdk(Protocol):
    """What is needed of the SDK's services."""

    async def call(self, request: ExecutionRequest, work: SdkCall) -> Json:
        """Return the value of a call. Raises SdkError for misuse, other PaddockErrors for what failed."""
        ...


class Engines(NamedTuple):
    """What runs the kinds of work."""

    guest: "GuestEngine"
    servers: Servers
    programs: "Programs"
    scripts: "Scripts"
    sdk: Sdk
    results: "Results"


class Watchers(NamedTuple):
    """Who listens to a request while it runs, and what stops it."""

    on_console: "OnConsole | None" = None
    on_output: "OnOutput | None" = None
    stop: asyncio.Event | None = None
    on_call: "OnCall | None" = None
    on_result: "OnResult | None" = None


class Context(NamedTuple):
    """What a kind needs to run a request: the parts of the gate."""

    engines: Engines
    policy: Policy
    outgoing: "OutgoingRedaction"
    visible_tools: "visible_tools.VisibleTools"
    commands: tuple[str, ...]
    """Names of the commands that the settings add to the SDK."""
    find_tool: "FindTool"
    clock_of: "Callable[[ExecutionRequest], Clock]"
    """Returns the clock of a request, which stands still while a person is asked."""
    person_of: "Callable[[ExecutionRequest, str], Person]"
    """Returns who answers what a server asks during a call."""
    carry_out_child: "Callable[[ExecutionRequest, OnResult], Awaitable[RawResult]]"
    """The gate's one path, for calls of programs."""


class Kind(WorkPolicy[W]):
    """One kind of work: how it is decided on, named, shown to a person, recorded and run.

    `admit`, `refine` and `run` act, and `resolve` reads what a server has told; the rest is pure.
    """

    @abstractmethod
    def describe(self, request: ExecutionRequest, work: W) -> tuple[str, dict[str, Json]]:
        """Return what would be done, in words, and with what: for a person who is asked."""

    def hash_fields(self, work: W) -> dict[str, Json]:
        """Return all that decides what is done: an answer of a person holds for exactly that."""
        return {name: getattr(work, name) for name in type(work).model_fields}

    def repeatable_name(self, work: W) -> tuple[str, ...] | None:
        """Return the name under which a yes may hold for the rest of a run; None where each is another matter."""
        del work

    def stub_result(self, work: W) -> Json:
        """Return what a rehearsal gives instead of doing it; None where nothing can stand for it."""
        del work

    def is_rehearsed(self, work: W) -> bool:
        """Tell whether a rehearsal does not run the work although policy allows it."""
        del work
        return False

    def make_planned_call(self, request: ExecutionRequest, work: W, decision: Decision) -> PlannedCall:
        """Return a request as the list of a rehearsal has it."""
        method = request.caller.method if request.caller else request.work.kind
        arguments = self.describe(request, work)[1]
        return PlannedCall(server="paddock", tool=method, arguments=arguments, asks=decision.asks)

    def make_subject(self, request: ExecutionRequest, work: W) -> Subject:
        """Return what a person is asked about the work."""
        is_repeatable = self.repeatable_name(work) is not None
        return Subject(*self.describe(request, work), self.hash_fields(work), is_repeatable)

    @abstractmethod
    def list_facts(self, work: W, decision: Decision) -> dict[str, Field]:
        """Return what the record keeps of the work: names, sizes and hashes, never a payload."""

    def list_end_facts(self, work: W, result: RawResult) -> dict[str, Field]:
        """Return what the record keeps of its end besides what every kind has."""
        del work, result
        return {}

    def is_computation(self, work: W) -> bool:
        """Tell whether the work is a pure computation, which `audit.required` may let run without a record."""
        del work
        return False

    def prepare(self, engines: Engines, decision: Decision) -> None:
        """Let an engine get ready while the record of the start is written."""

    def resolve(self, engines: Engines, request: ExecutionRequest, work: W) -> ExecutionRequest:
        """Return the request by the names that rules, questions and the record know."""
        del engines, work
        return request

    async def refine(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision
    ) -> ExecutionRequest | RawResult:
        """Return the request with what only the outside knows and the decision depends on, or why it fails."""
        del context, work, decision
        return request

    def admit(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision, watchers: Watchers
    ) -> "AbstractAsyncContextManager[Decision | RawResult] | None":
        """Return what is entered to run work that was allowed; None where it need not wait for its turn.

        Entering gives the decision that holds now, or the result of work that did not get its turn.
        """
        del context, request, work, decision, watchers

    @abstractmethod
    def run(
        self, context: Context, request: ExecutionRequest, work: W, decision: Decision, watchers: Watchers
    ) -> Coroutine[Any, Any, RawResult]:
        """Return what became of the work. Raises EngineError when nothing ran, other PaddockErrors for faults."""


def shorten_name(text: str) -> str:
    """Return a name fit for a record: no lone surrogates, bounded."""
    return (text if text.isascii() else text.encode("utf-8", "replace").decode())[:_MAX_NAME_CHARS]
