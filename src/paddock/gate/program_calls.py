"""Calls that a program makes: of servers and of the SDK. Each goes through the gate as a child request."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from time import perf_counter

from paddock.engines.javascript.result_hints import ResultShape
from paddock.engines.javascript.task import HostReply, OnReply
from paddock.engines.sdk.requests import ENDED_STATUSES, MakeToolRun, make_child_request, render_ended
from paddock.engines.servers.result import find_culprit
from paddock.gate.visible_tools import METHODS, NotVisible, VisibleTools, suggest_call
from paddock.model.approval import ERROR_CODES
from paddock.model.base import Json
from paddock.model.errors import (
    NO_SERVERS,
    ConfigurationError,
    LedgerError,
    ScriptNotFound,
    SdkError,
    ServerError,
    ToolNotFound,
)
from paddock.model.limits import Calls
from paddock.model.outcome import CallRecord, PlannedCall, RawResult, Status
from paddock.model.path_privacy import hide_paths, shorten_paths
from paddock.model.request import ExecutionRequest, GuestRun, JsonPaths, ServerCall
from paddock.model.texts import ellipsis
from paddock.policy.redaction.outgoing import OnCall

# A call whose record cannot be written is not made; the program's own outcome reports why.
_UNRECORDED = HostReply(
    Status.ERROR, error={"name": "Error", "message": "the call cannot be recorded, so it was not made"}
)

OnResult = Callable[[RawResult], None]
"""Called with a request's result, before its end is recorded."""


_HINT_TIMEOUT_S = 5.0
"""Maximum time to ask a server for its tools, for a hint, in seconds."""
_MAX_SHAPES = 100
"""Maximum number of tools whose results are described in hints."""
_MAX_SERVER_LIST_CHARS = 300
"""Maximum length of the list of servers in an error, in characters."""
_MAX_NAME_CHARS = 256
"""Maximum length of a server's name: the search for similar names takes long for a longer one."""
MAX_KEPT_CHARS = 1024 * 1024
"""Maximum size of the arguments in one plan, as JSON; further calls are listed without arguments."""


class Plan:
    """The calls that one program did not make, because it is a rehearsal (`dry_run`)."""

    def __init__(self) -> None:
        self._calls: list[PlannedCall] = []
        self._room = MAX_KEPT_CHARS

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls, in order."""
        return tuple(self._calls)

    def add_call(self, call: PlannedCall) -> None:
        """List a call."""
        self._room -= len(json.dumps(call.arguments))
        self._calls.append(call if self._room >= 0 else call.model_copy(update={"arguments": None}))


@dataclass(frozen=True, slots=True)
class ProgramCalls:
    """The calls of one program. Each becomes a child of its request `parent`."""

    carry_out: Callable[[ExecutionRequest, OnResult], Awaitable[RawResult]]
    """Runs a child request through the gate."""
    make_tool_run: MakeToolRun
    parent: ExecutionRequest
    call_mode: Calls
    """Which calls the program may make."""
    on_call: OnCall | None = None
    """Called with each call that has ended."""
    plan: Plan = field(default_factory=Plan)
    offered: VisibleTools | None = None
    """The tools that the program may list; None to refuse listing."""
    resolve_alias: Callable[[str, str], str] = lambda _server, tool: tool
    """Returns the tool's own name for an alias, if the server has listed its tools. Calls are reported by that name."""
    shapes: dict[tuple[str, str], ResultShape] = field(default_factory=dict[tuple[str, str], ResultShape])
    """The shapes of the last results, by server and tool as the program wrote them, for hints."""
    warned: set[str] = field(default_factory=set[str])
    """Warnings about tools that the program has received; each is sent once."""

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
        """Call a server's tool or method. The program gets the result before the end is recorded."""
        request = self.make_child(
            ServerCall(
                server=server,
                tool=tool,
                arguments=arguments,
                raw=raw,
                encoded=encoded,
                is_method=is_method,
            )
        )
        started = perf_counter()
        replied = False

        def reply(result: RawResult) -> None:
            nonlocal replied
            replied = True
            # By now the server has listed its tools.
            called = tool if is_method else self.resolve_alias(server, tool)
            shown = result if self._compat else self._with_servers(result, request)
            answer = self._add_warning(result, _reply_to_call(shown, server, called, compat=self._compat))
            seconds = perf_counter() - started
            on_reply(answer)
            if answer.status is Status.OK and not raw and not is_method and len(self.shapes) < _MAX_SHAPES:
                self.shapes[server, tool] = ResultShape.of(answer.value)
            self._report_call(server, called, answer.status, seconds)

        try:
            result = await self.carry_out(request, reply)
        except LedgerError:
            if not replied:
                on_reply(_UNRECORDED)
                self._report_call(server, tool, _UNRECORDED.status, perf_counter() - started)
            return
        for planned in result.planned:
            self.plan.add_call(planned)
        if not replied:  # nothing has run
            reply(result)

    @property
    def _compat(self) -> bool:
        """Whether the program gets only the warnings and errors of the compat profile."""
        work = self.parent.work
        return isinstance(work, GuestRun) and work.raw_results

    def _with_servers(self, result: RawResult, request: ExecutionRequest) -> RawResult:
        """Return the result of a call. For an unknown server, add the servers that the program may call.

        Without any server, add how to configure one. The hint, which only the caller sees, lists all servers.
        """
        error = result.error
        if self.offered is None or error is None or result.status is not Status.INVALID or not error.hint:
            return result
        if names := ", ".join(self.offered.list_servers(request))[:_MAX_SERVER_LIST_CHARS]:
            return result.replace(error=error.replace(message=f"{error.message}; known: {names}."))
        if self._compat or self.offered.servers.list_configured()[0]:
            return result
        return result.replace(error=error.replace(message=f"{error.message}; {NO_SERVERS}"))

    def _add_warning(self, result: RawResult, reply: HostReply) -> HostReply:
        """Return the reply with the warnings about the tool, unless the program has received them."""
        if not result.console:
            return reply
        text = "\n".join(line.text for line in result.console)
        if text in self.warned or self._compat:
            return reply
        self.warned.add(text)
        return reply._replace(warning=text)

    async def sdk(self, name: str, arguments: list[Json], on_reply: OnReply) -> None:
        """Call a method of the SDK. A wrong call gets an error as its reply; this method does not raise."""
        if self.offered is not None and name in METHODS:
            on_reply(await self._list_names(self.offered, name, arguments))
            return
        started = perf_counter()
        answer = await self._run_sdk_call(name, arguments)
        seconds = perf_counter() - started
        on_reply(answer)
        self._report_call("paddock", name, answer.status, seconds)

    async def suggest_call(self, names: list[str]) -> str:
        """Return how to call the tool that a program tried to reach by `names`, such as `["g", "search"]`.

        Empty if the program may call no such tool. Starts a server that is not running to list its tools, for some
        seconds.
        """
        if self.offered is None or not names:
            return ""
        request = self.make_child(ServerCall(server="", tool="*"))
        try:
            async with asyncio.timeout(_HINT_TIMEOUT_S):
                return await suggest_call(self.offered, names, request)
        except (TimeoutError, SdkError, ServerError, ConfigurationError, LedgerError):
            return ""

    def list_servers(self) -> str:
        """Return the names of the servers whose tools the program may call, or how to add one."""
        if self.offered is None:
            return ""
        try:
            names = self.offered.list_servers(self.make_child(ServerCall(server="", tool="*")))
        except ConfigurationError:
            return ""
        if not names:
            return f"tools are in `servers`, which is empty: {NO_SERVERS}"
        found = ellipsis(", ".join(names), _MAX_SERVER_LIST_CHARS)
        return f"tools are in `servers`, as await servers.<name>.<tool>(...); those there are: {found}"

    def make_child(self, work: ServerCall) -> ExecutionRequest:
        """Return the request of a call of the program."""
        return ExecutionRequest(
            parent=self.parent.id,
            root=self.parent.root or self.parent.id,
            actor=self.parent.actor,
            surface="guest",
            workspace=self.parent.workspace,
            work=work,
            calls=self.call_mode,
        )

    async def _list_names(self, offered: VisibleTools, method: str, arguments: list[Json]) -> HostReply:
        """Return the names of the servers, or of a server's tools, that the program may call."""
        server = arguments[0] if arguments else ""
        if not isinstance(server, str) or len(server) > _MAX_NAME_CHARS:  # the same limit as for a call
            return _reply_misuse(
                f"The name of a server has at most {_MAX_NAME_CHARS} characters; see `Object.keys(servers)`"
            )
        try:
            names = await offered.list_names(
                method, server, self.make_child(ServerCall(server=server, tool="*"))
            )
        except NotVisible as refusal:
            status, text = Status.DENIED, str(refusal)
        except ServerError as error:
            status, text = find_culprit(error), str(error)
        except ConfigurationError as error:
            status, text = Status.ERROR, hide_paths(str(error), self.parent.workspace)
        except LedgerError:
            return _UNRECORDED
        else:
            return HostReply(Status.OK, value=names)
        error = {"name": "ToolError", "message": text, "retryable": status is Status.UNAVAILABLE}
        return HostReply(status, error=error | {"server": server})

    def _report_call(self, server: str, tool: str, status: Status, seconds: float) -> None:
        """Report a call that has ended to `on_call`."""
        if self.on_call is not None:
            ms = round(seconds * 1000, 3)
            self.on_call(CallRecord(server=server, tool=tool, status=status, ms=ms))

    async def _run_sdk_call(self, name: str, arguments: list[Json]) -> HostReply:
        try:
            request = make_child_request(name, arguments, self.parent, self.call_mode, self.make_tool_run)
            outcome = await self.carry_out(request, lambda _: None)  # the outcome that it returns is used
        except LedgerError:
            return _UNRECORDED
        except (ScriptNotFound, ToolNotFound) as problem:
            # Only people see where Paddock searched: the rest of the text names directories of the host.
            return _reply_misuse(str(problem).partition("\n")[0])
        except SdkError as problem:
            return _reply_misuse(shorten_paths(str(problem), self.parent.workspace))
        except ConfigurationError as problem:
            return _reply_misuse(hide_paths(str(problem), self.parent.workspace))
        for planned in outcome.planned:
            self.plan.add_call(planned)
        if outcome.status in ENDED_STATUSES and (outcome.program or outcome.tool or outcome.ok):
            return HostReply(Status.OK, value=render_ended(request.work, outcome))
        name = outcome.error.name if outcome.error else "Error"
        error = _error_fields(outcome, name) | {"status": outcome.status.value}
        if outcome.has_value:  # output of a computation before it failed
            error["partial"] = outcome.value
        if outcome.artifact is not None:
            error["artifact"] = outcome.artifact
        return HostReply(outcome.status, error=error)


def _reply_to_call(result: RawResult, server: str, tool: str, *, compat: bool) -> HostReply:
    if result.status is Status.OK:
        return HostReply(Status.OK, value=result.value)
    error = _error_fields(result, "Error" if compat else "ToolError") | {"server": server, "tool": tool}
    of_server = None if compat else result.error
    if of_server is not None and of_server.code is not None:
        error["code"] = of_server.code
        if of_server.data is not None:
            error["data"] = of_server.data
    if result.has_value:
        error["content"] = result.value
    return HostReply(result.status, error=error)


def _reply_misuse(message: str) -> HostReply:
    status = Status.INVALID
    error = {"name": "TypeError", "message": message, "status": status.value, "retryable": False}
    return HostReply(status, error=error)


def _error_fields(outcome: RawResult, name: str) -> dict[str, Json]:
    """Return the error that a program sees for a call without a result."""
    message = outcome.error.message if outcome.error else outcome.status.value
    fields: dict[str, Json] = {
        "name": name,
        "message": message,
        "retryable": outcome.status is Status.UNAVAILABLE,
    }
    if outcome.error is not None and outcome.error.name in ERROR_CODES:
        fields["code"] = ERROR_CODES[outcome.error.name]
    return fields
