"""The gate as a program sees it: its calls of servers and of the SDK go through as child requests."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from time import perf_counter

from paddock.approvals import CODES
from paddock.guest.job import HostReply
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, LedgerError, ScriptNotFound, SdkError, ToolNotFound
from paddock.model.limits import Calls
from paddock.model.outcome import CallRecord, Outcome, Status
from paddock.model.places import in_workspace, without_places
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.outgoing import OnCall
from paddock.policy.rehearsal import Plan
from paddock.sdk.requests import ENDED, FindTool, child, shown

# Without its record nothing may run; the program's own end will tell the person.
_UNRECORDED = HostReply(
    Status.ERROR, error={"name": "Error", "message": "the call cannot be recorded, so it was not made"}
)


@dataclass(frozen=True, slots=True)
class HostCalls:
    """What a program may ask for: each call is a child of its own request `parent`."""

    carry_out: Callable[[ExecutionRequest], Awaitable[Outcome]]
    """The gate's one path."""
    find_tool: FindTool
    parent: ExecutionRequest
    calls: Calls
    on_call: OnCall | None = None
    """Hears of each call that has ended."""
    plan: Plan = field(default_factory=Plan)

    async def call(self, server: str, tool: str, arguments: dict[str, Json], *, raw: bool) -> HostReply:
        """Return the reply to a call of a server's tool."""
        return await self._heard(server, tool, self._call(server, tool, arguments, raw=raw))

    async def sdk(self, name: str, arguments: list[Json]) -> HostReply:
        """Return the reply to a call of the SDK. What is wrong with the call is told, never raised."""
        return await self._heard("paddock", name, self._sdk(name, arguments))

    async def _heard(self, server: str, tool: str, call: Coroutine[None, None, HostReply]) -> HostReply:
        if self.on_call is None:
            return await call
        started = perf_counter()
        reply = await call
        ms = round((perf_counter() - started) * 1000, 3)
        self.on_call(CallRecord(server=server, tool=tool, status=reply.status, ms=ms))
        return reply

    async def _call(self, server: str, tool: str, arguments: dict[str, Json], *, raw: bool) -> HostReply:
        request = ExecutionRequest(
            parent=self.parent.id,
            root=self.parent.root or self.parent.id,
            actor=self.parent.actor,
            surface="guest",
            workspace=self.parent.workspace,
            work=ServerCall(server=server, tool=tool, arguments=arguments, raw=raw),
            calls=self.calls,
        )
        try:
            outcome = await self.carry_out(request)
        except LedgerError:
            return _UNRECORDED
        for planned in outcome.planned:
            self.plan.add(planned)
        if outcome.status is Status.OK:
            return HostReply(Status.OK, value=outcome.value)
        error = _told(outcome, "Error" if raw else "ToolError") | {"server": server, "tool": tool}
        if outcome.has_value:
            error["content"] = outcome.value
        return HostReply(outcome.status, error=error)

    async def _sdk(self, name: str, arguments: list[Json]) -> HostReply:
        try:
            request = child(name, arguments, self.parent, self.calls, self.find_tool)
            outcome = await self.carry_out(request)
        except LedgerError:
            return _UNRECORDED
        except (ScriptNotFound, ToolNotFound) as problem:
            # Where was searched is for people: it names directories of the host.
            return _misused(str(problem).partition("\n")[0])
        except SdkError as problem:
            return _misused(in_workspace(str(problem), self.parent.workspace))
        except ConfigurationError as problem:
            return _misused(without_places(str(problem), self.parent.workspace))
        for planned in outcome.planned:
            self.plan.add(planned)
        if outcome.status in ENDED and (outcome.program or outcome.tool or outcome.ok):
            return HostReply(Status.OK, value=shown(request.work, outcome))
        name = outcome.error.name if outcome.error else "Error"
        error = _told(outcome, name) | {"status": outcome.status.value}
        if outcome.has_value:  # what a computation has emitted
            error["partial"] = outcome.value
        return HostReply(outcome.status, error=error)


def _misused(message: str) -> HostReply:
    status = Status.INVALID
    error = {"name": "TypeError", "message": message, "status": status.value, "retryable": False}
    return HostReply(status, error=error)


def _told(outcome: Outcome, name: str) -> dict[str, Json]:
    """Return the error that a program sees of a call that brought no result."""
    message = outcome.error.message if outcome.error else outcome.status.value
    told: dict[str, Json] = {
        "name": name,
        "message": message,
        "retryable": outcome.status is Status.UNAVAILABLE,
    }
    if outcome.error is not None and outcome.error.name in CODES:
        told["code"] = CODES[outcome.error.name]
    return told
