"""The table of tools: each tool of the server is one entry."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson
from mcp.shared.exceptions import MCPError

from paddock.foundation.cancellation import Stop, unless_stopped
from paddock.foundation.large_json import run_in_slices
from paddock.foundation.schema.check import Problem, Schema
from paddock.gate.approvals import Asker, ClientAsker
from paddock.model.base import Json
from paddock.model.canonical import in_order
from paddock.model.errors import PaddockError
from paddock.model.json_check import check_json
from paddock.model.numbers import MARK, mark_numbers, unmark_numbers
from paddock.model.outcome import ConsoleLine, OnConsole, OnProgress, Status
from paddock.model.texts import find_nearest
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import RedactionSettings
from paddock.surfaces.mcp_server.arguments import NamedTwiceError, read_arguments
from paddock.surfaces.rendering.terminal import make_encodable
from paddock.surfaces.tenants import TenantBusy
from paddock.surfaces.tenants.tenant import SlotNeeds

if TYPE_CHECKING:
    from mcp_types import InputRequests

    from paddock.gate.gate import Gate
    from paddock.model.outcome import Outcome
    from paddock.model.request import ExecutionRequest, RequestKey
    from paddock.record.output.recording import OnOutput
    from paddock.surfaces.tenants.tenant import Admission

_SHAPES = {
    "execute_code": "M2 1l6 3-6 3z",
    "call_tool": "M1 4h4V2l3 3-3 3V6H1z",
    "search_tools": "M1 1h4v4l3 3H6L4 6H1z",
    "describe_tools": "M2 1h5v7H2z",
    "provision_server": "M4 1h1v3h3v1H5v3H4V5H1V4h3z",
    "run_program": "M1 1l3 3-3 3zM5 7h3v1H5z",
    "query_output": "M1 2h7v1H1zM1 4h5v1H1zM1 6h3v1H1z",
    "compute": "M1 1h7L5 4l3 4H1l3-4z",
}
_DEFAULT_SHAPE = "M1 1h7v7H1z"


def list_icons(tool: str) -> list[Json]:
    """Return the icons of a tool; tools without their own icon share one."""
    path = _SHAPES.get(tool, _DEFAULT_SHAPE)
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><path d='{path}'/></svg>"
    return [{"src": "data:image/svg+xml," + quote(svg, safe="='/:")}]


Admit = Callable[..., AbstractAsyncContextManager["Admission"]]
"""See `Tenant.admit`."""
Arguments = Mapping[str, Json]
Inquire = Callable[["InputRequests"], Awaitable[Mapping[str, object]]]
"""Asks a client, once or repeatedly, and returns the answers under the same keys.

An unanswered key is missing. Raises MCPError if the client lacks the capability, and TimeoutError if it does not come
back.
"""

_MARK = MARK.encode()
_SURROGATE_ESCAPE = "\\ud"
"""The beginning of an escaped surrogate in `json.dumps`."""

_STOP_GRACE_S = 3.0
"""Seconds in which stopped calls can return their own outcome; later they are cancelled."""

_log = logging.getLogger("paddock.mcp")


class CallEnd:
    """Ends one call early: its request in the gate by an event, so that it has an outcome, all else by cancelling."""

    def __init__(self) -> None:
        self.stop = Stop()
        self._is_in_gate = False

    @contextmanager
    def stops_gate(self) -> Generator[None]:
        """Mark the context as a request in the gate, which ends in order when `stop` is set."""
        self._is_in_gate = True
        try:
            yield
        finally:
            self._is_in_gate = False

    def end(self, task: "asyncio.Task[Any]") -> None:
        """End the call that runs in a task. The task may continue to clean up."""
        if self._is_in_gate:
            self.stop.set()
        else:
            task.cancel()


@dataclass(frozen=True, slots=True)
class McpCaller:
    """The caller of a tool, and the ways to reach it during the call."""

    actor: str
    on_console: OnConsole | None = None
    asker: Asker | None = None
    """Asks its person about calls that a rule holds back."""
    inquire: Inquire | None = None
    """Asks its client."""
    present: bool = False
    """Whether the client itself asks its person during the call."""
    ending: CallEnd = field(default_factory=CallEnd)
    """Ends the call."""
    admit: "Admit | None" = None
    """Waits for a slot among the users of a server; None where there is one user."""
    key: "RequestKey | None" = None
    """What the client calls the request of this call."""
    conversation: str = ""
    """What shares the results that the client gets, for flow rules."""
    reports: bool = False
    """Whether the client asked for progress."""

    @property
    def _progress_listener(self) -> OnProgress | None:
        """A listener that sends reports of servers to the client as lines; None if it asked for none."""
        on_console = self.on_console
        if on_console is None or not self.reports:
            return None
        return lambda progress: on_console(ConsoleLine(level="log", text=progress.text))

    async def execute(
        self,
        gate: "Gate",
        request: "ExecutionRequest",
        *,
        on_console: OnConsole | None = None,
        on_output: "OnOutput | None" = None,
    ) -> "Outcome":
        """Run a request of the caller and return its outcome; listeners as in `Gate.execute`.

        When the call is ended early, the request ends in order, as `cancelled`.
        """
        if self.key is not None:
            request = request.model_copy(update={"key": self.key})
        stop = self.ending.stop
        with self.ending.stops_gate():
            if self.admit is None:
                return await gate.execute(
                    request,
                    on_console=on_console,
                    on_output=on_output,
                    on_progress=self._progress_listener,
                    asker=self.asker,
                    client=self.conversation,
                    stop=stop,
                )
            async with AsyncExitStack() as admitted:
                admitting = self.admit(asker=self.asker, needs=SlotNeeds.from_work(request.work))
                admission = await unless_stopped(admitted.enter_async_context(admitting), stop)
                if admission is None:
                    raise TenantBusy("The call was cancelled while it waited for a slot. Nothing started.")
                client = self.asker.client if isinstance(self.asker, ClientAsker) else ""
                asker = ClientAsker(client, admission.ask)
                return await gate.execute(
                    request,
                    on_console=on_console,
                    on_output=on_output,
                    on_progress=self._progress_listener,
                    asker=asker,
                    client=self.conversation,
                    stop=stop,
                    slot=admission.slot,
                )


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """The result of a tool: content blocks, structured data if the tool declares it, and whether it failed."""

    content: list[dict[str, Json]]
    structured: Json = None
    is_error: bool = False
    meta: dict[str, Json] = field(default_factory=dict)
    """`_meta` of an upstream server's result, for the client and not for a model."""

    def to_result(self) -> dict[str, Json]:
        """Return the answer as a CallToolResult."""
        structured = {} if self.structured is None else {"structuredContent": self.structured}
        meta = {"_meta": self.meta} if self.meta else {}
        return {"content": self.content, **structured, "isError": self.is_error, **meta}


def text_block(text: str) -> dict[str, Json]:
    """Return a text as a content block."""
    return {"type": "text", "text": text}


def object_schema(required: list[str], **properties: dict[str, Json]) -> dict[str, Json]:
    """Return the schema of an object with exactly these members."""
    needed: dict[str, Json] = {"required": required} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


def build_refusal(status: Status, name: str, text: str) -> ToolAnswer:
    """Return the answer to a call that did not run: its status, then what to do."""
    error = {"name": name, "message": text}
    return ToolAnswer(
        [text_block(f"{status.value}\n{text}")], {"status": status.value, "error": error}, is_error=True
    )


_SERVER_STOPPED = build_refusal(
    Status.CANCELLED, "Cancelled", "this server is ending; the record shows what the call did"
)
_NOT_TAKEN = build_refusal(
    Status.CANCELLED, "Cancelled", "this server is ending; nothing of the call has run"
)


def reject_invalid_arguments(tool: "McpTool", _arguments: Json, problems: tuple[Problem, ...]) -> ToolAnswer:
    """Return the error for arguments that break a tool's schema."""
    text = "\n".join(f"{tool.name}: {problem.text}" for problem in problems)
    return build_refusal(Status.INVALID, "InvalidArguments", text)


@dataclass(frozen=True)
class McpTool:
    """One tool. The first sentence of its description says when to use it (60 words in all)."""

    name: str
    title: str
    description: str
    input_schema: dict[str, Json]
    """Argument names are in snake case, and avoid names that a client library reserves."""
    run: Callable[[Arguments, McpCaller], Coroutine[Any, Any, ToolAnswer]]
    """Runs a call with valid arguments."""
    output_schema: dict[str, Json] | None = None
    annotations: dict[str, bool] = field(default_factory=dict[str, bool])
    """`readOnlyHint`, `destructiveHint`, `idempotentHint`, `openWorldHint`, if they differ from the default."""
    explain: Callable[["McpTool", Json, tuple[Problem, ...]], ToolAnswer] = reject_invalid_arguments
    """Answers a call with invalid arguments."""
    checks: bool = True
    """Whether arguments are checked against the schema here; otherwise the tool's own code checks them."""
    exact: bool = False
    """Whether arguments are checked as they arrived, without `read_arguments`."""
    aliases: dict[str, str] = field(default_factory=dict[str, str])
    """Former names of arguments, which are still accepted, and their present names."""
    phrases: frozenset[str] = frozenset()
    """Lists of strings whose items are phrases: one string, even with spaces, is one item."""
    unlisted: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """Full schemas of arguments whose listed schema is shorter, and of arguments that are not listed."""

    wider: dict[str, dict[str, Json]] = field(default_factory=dict[str, dict[str, Json]])
    """Schemas of arguments that accept more than the listed schema, which every client must be able to read."""

    @cached_property
    def reading_schema(self) -> dict[str, Json]:
        """The schema that decides how arguments are read."""
        return {
            **self.input_schema,
            "properties": {**self.input_schema.get("properties", {}), **self.unlisted, **self.wider},
        }

    @cached_property
    def schema(self) -> Schema:
        """The schema that checks arguments: the listed one, with the arguments that are not listed."""
        properties = {**self.unlisted, **self.input_schema.get("properties", {}), **self.wider}
        return Schema({**self.input_schema, "properties": properties})

    @cached_property
    def entry(self) -> dict[str, Json]:
        """The tool's entry in `tools/list`."""
        shown: dict[str, Json] = {"name": self.name, "title": self.title, "description": self.description}
        shown["inputSchema"] = self.input_schema
        if self.output_schema is not None:
            shown["outputSchema"] = self.output_schema
        if self.annotations:
            shown["annotations"] = self.annotations
        shown["icons"] = list_icons(self.name)
        return shown


class Toolbox:
    """The listed tools, and further ones that are accepted without being listed.

    `further` returns tools that may be added and removed. They follow the others and cannot replace one of them. They
    are listed, too, unless `shows_further` is false.
    """

    def __init__(
        self,
        listed: Iterable[McpTool],
        understood: Iterable[McpTool] = (),
        *,
        suggests: bool = True,
        further: Callable[[], Awaitable[Iterable[McpTool]]] | None = None,
        shows_further: bool = True,
        outgoing: OutgoingRedaction | None = None,
        admit: "Admit | None" = None,
    ) -> None:
        """Redact answers with `outgoing`; None means the default settings. Let `admit` bound what runs."""
        self._admit = admit
        self._outgoing = outgoing or OutgoingRedaction(RedactionSettings(), KnownSecrets())
        self._suggests = suggests
        self._listed = tuple(listed)
        self._known = {tool.name: tool for tool in (*understood, *self._listed)}
        self._further = further
        self._shows_further = shows_further
        self._running: dict[asyncio.Task[Any], CallEnd] = {}
        self._stopped = False

    async def list_tools(self) -> tuple[McpTool, ...]:
        """Return the listed tools as they are now."""
        further = await self._list_changing_tools() if self._shows_further else {}
        return (*self._listed, *further.values())

    def input_schema(self, name: str) -> dict[str, Json] | None:
        """Return the schema of a tool's arguments; None for an unknown tool, or one of `further`."""
        return self._known[name].input_schema if name in self._known else None

    async def call_tool(
        self,
        name: str,
        arguments: Json,
        caller: McpCaller,
        *,
        key: "RequestKey | None" = None,
        reports: bool = False,
    ) -> ToolAnswer:
        """Call a tool and return its answer. The current task runs the call alone: see `CallEnd`.

        The request of the tool has `key`; with `reports` its client gets progress of servers. Raises MCPError if the
        tool wants to answer with an error of the protocol.
        """
        if key is not None or reports or self._admit is not None:
            caller = replace(caller, key=key, admit=self._admit, reports=reports)
        answer = await self._answer_call(name, arguments, caller)
        # The answer leaves without secrets and without characters that UTF-8 cannot encode, with marked numbers.
        parts: Any = [answer.content, answer.structured, answer.meta]
        try:
            text = orjson.dumps(parts).decode()
        except TypeError:
            text = json.dumps(parts)
            parts = mark_numbers(parts)
        if not self._outgoing.leaves_alone([text]):
            parts = await run_in_slices(self._outgoing.json_in_slices(parts, numbers=False))
        if _SURROGATE_ESCAPE in text:
            parts = json.loads(make_encodable(json.dumps(parts, ensure_ascii=False)))
        return ToolAnswer(parts[0], parts[1], is_error=answer.is_error, meta=parts[2])

    async def stop(self) -> None:
        """End all calls, also later ones: programs end with an outcome, the others with a refusal."""
        self._stopped = True
        for ending in self._running.values():
            ending.stop.set()
        if self._running:
            await asyncio.wait([*self._running], timeout=_STOP_GRACE_S)
        for task in [*self._running]:
            task.cancel()

    async def _answer_call(self, name: str, arguments: Json, caller: McpCaller) -> ToolAnswer:
        known = self._known if name in self._known else {**await self._list_changing_tools(), **self._known}
        tool = known.get(name)
        if tool is None:
            visible = [each.name for each in await self.list_tools()] if self._suggests else []
            near = find_nearest(name, visible)
            hint = f"; did you mean {near[0]}?" if near else ""
            return ToolAnswer([text_block(f"Unknown tool: {name[:200]}{hint}")], is_error=True)
        given: Json = {} if arguments is None else arguments
        given = unmark_numbers(given) if _MARK in in_order(given) else given
        if tool.checks and not tool.exact:
            try:
                given = read_arguments(tool.reading_schema, given, tool.aliases, tool.phrases)
            except NamedTwiceError as problem:
                return tool.explain(tool, given, (Problem(str(problem)),))
        try:
            check_json(given)
        except ValueError:  # the library parses NaN, and 1e999 as infinity
            message = f"{tool.name}: a number is NaN, infinite, or larger than 1.8e308"
            return build_refusal(Status.INVALID, "InvalidArguments", message)
        if tool.checks and (problems := tool.schema.locate_problems(given)):
            return tool.explain(tool, given, problems)
        try:
            return await self._run_tool(tool, given, caller)
        except MCPError:
            raise
        except TenantBusy as error:
            return build_refusal(Status.UNAVAILABLE, "Busy", str(error))
        except PaddockError as error:
            return build_refusal(Status.ERROR, type(error).__name__, str(error))
        except Exception:  # noqa: BLE001 - the library would tell the client its text, which may hold anything
            _log.exception("tool %s failed", tool.name)
            return build_refusal(Status.ERROR, "InternalError", "Paddock failed; see its log on stderr")

    async def _run_tool(self, tool: McpTool, given: Arguments, caller: McpCaller) -> ToolAnswer:
        if self._stopped:
            return _NOT_TAKEN
        task = asyncio.current_task()
        assert task is not None
        self._running[task] = caller.ending
        try:
            return await tool.run(given, caller)
        except asyncio.CancelledError:
            if self._stopped:
                return _SERVER_STOPPED
            raise
        finally:
            del self._running[task]

    async def _list_changing_tools(self) -> dict[str, McpTool]:
        """Return the changing tools, except those with the name of another tool."""
        found = await self._further() if self._further else ()
        return {tool.name: tool for tool in found if tool.name not in self._known}
