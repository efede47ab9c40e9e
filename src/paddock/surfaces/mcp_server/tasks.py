"""Calls as tasks: the server's side of the extension `io.modelcontextprotocol/tasks` of revision 2026-07-28.

A client declares the extension with each request. Its calls are answered as usual if they end, or ask, within some
seconds. Otherwise the answer is a task, and the call continues without a connection:

    tools/call --> working <--> input_required      tasks/get polls, tasks/update answers questions
                      |
                      v
    completed | failed | cancelled                  tasks/cancel ends the call and its processes

A task is in the memory of this process. Its id starts with the mark of this replica, to which others pass requests on.
Specification: https://github.com/modelcontextprotocol/ext-tasks
"""

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from mcp.server.extension import Extension, MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ErrorData,
    RequestParams,
)
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from paddock.foundation.cancellation import cancel_all
from paddock.model.base import Json
from paddock.model.status import Status
from paddock.surfaces.mcp_server.client_questions import (
    Context,
    ElicitationRounds,
    Round,
    TaskOffer,
    read_actor,
)
from paddock.surfaces.mcp_server.requests import LISTEN_METHOD
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, build_refusal

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult
    from mcp.server.lowlevel.server import Server

_log = logging.getLogger("paddock.mcp")

EXTENSION = "io.modelcontextprotocol/tasks"
TASK_METHODS = ("tasks/get", "tasks/update", "tasks/cancel")
RETENTION_S = 600.0
"""Time for which the result of a task is kept after its end, in seconds."""
POLL_INTERVAL_MS = 1000
"""How often a client should poll, in milliseconds."""
MAX_TASKS = 64
"""Maximum number of tasks, running and kept. Beyond it calls are answered as without the extension."""
MAX_RESULT_BYTES = 32 * 1024 * 1024
"""Size of kept results beyond which calls are answered as without the extension, in bytes. Of the tasks that run at
that time, only small results are kept."""
SMALL_RESULT_BYTES = MAX_RESULT_BYTES // MAX_TASKS
"""Maximum size of a result that is kept in any case, in bytes."""
_UNKNOWN_TASK = (
    f"Unknown task. A task is known to the caller that made it, until {RETENTION_S / 60:.0f} minutes after its end, "
    "and is lost when the server ends. If the call must not run twice, send it again with the same `paddock/key`."
)
_RESULT_REFUSAL = (
    "the call has ended and may have had effects, but its result is not kept: it has {size} bytes, and the results of "
    "tasks have at most {limit} bytes together; return less, or fetch the results of ended tasks and wait ten minutes"
)

AfterS = Callable[[str], float | None]
"""Returns after how many seconds a call of a tool becomes a task; None: never."""
Finish = Callable[[ToolAnswer], Awaitable[dict[str, Json]]]
"""Returns the result of `tools/call` for an answer."""
InFlight = Callable[[Hashable], AbstractContextManager[None]]
"""Marks the context as work that a server that ends waits for."""


class _TaskParams(RequestParams):
    """The parameters of requests about a task."""

    task_id: str


class _UpdateParams(_TaskParams):
    """The parameters of `tasks/update`. Answers are checked against the requests that they belong to."""

    input_responses: dict[str, Any]


class Tasks(Extension):
    """The tasks of the clients of one server."""

    identifier = EXTENSION

    def __init__(
        self,
        rounds: ElicitationRounds,
        after_s: AfterS,
        mark: str = "",
        *,
        kept_s: float = RETENTION_S,
        in_flight: InFlight = nullcontext,
    ) -> None:
        """Make tasks of the calls of `rounds` that last longer than `after_s`. `mark` names this replica.

        `in_flight` counts the tasks that run, and are not waiting for a person, as requests.
        """
        self._in_flight = in_flight
        self._rounds = rounds
        self._after_s = after_s
        self._mark = mark
        self._kept_s = kept_s
        self._tasks: dict[str, _Task] = {}

    def methods(self) -> Sequence[MethodBinding]:
        """Return the methods of the extension."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        get, update, cancel = TASK_METHODS
        return (
            MethodBinding(get, _TaskParams, self._on_get, versions),
            MethodBinding(update, _UpdateParams, self._on_update, versions),
            MethodBinding(cancel, _TaskParams, self._on_cancel, versions),
        )

    def attach(self, server: "Server[Any]") -> None:
        """Offer the extension to the clients of a server."""
        for binding in self.methods():
            server.add_request_handler(binding.method, binding.params_type, _gate_version(binding))
        server.extensions[self.identifier] = self.settings()
        server.middleware.append(_check_listener)

    def offer(self, context: Context, tool: str, finish: Finish) -> TaskOffer | None:
        """Return how a call may become a task; None if it may not."""
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS or not _is_declared(context):
            return None
        after_s = self._after_s(tool)
        return None if after_s is None else TaskOffer(after_s, partial(self._add_call, finish))

    def _add_call(self, finish: Finish, call: Round[ToolAnswer]) -> dict[str, Json] | None:
        """Let a call continue as a task, and return the result that names it; None if there are too many."""
        if len(self._tasks) >= MAX_TASKS or self._count_kept_bytes() >= MAX_RESULT_BYTES:
            return None
        task = _Task(f"{self._mark}{secrets.token_urlsafe(24)}", call, self._kept_s)
        self._tasks[task.id] = task
        task.following = asyncio.create_task(self._follow(task, finish))
        return {**task.describe(), "resultType": "task"}

    async def close(self) -> None:
        """Forget all tasks. Their calls are ended with `rounds`."""
        following = [task.following for task in self._tasks.values() if task.following is not None]
        self._tasks.clear()
        await cancel_all(following)

    def _count_kept_bytes(self) -> int:
        return sum(task.size for task in self._tasks.values())

    async def _follow(self, task: "_Task", finish: Finish) -> None:
        """Note what happens to a task, and forget it some time after its end."""
        await task.wait_for_end(self._in_flight)
        await task.note_end(self._rounds, finish, MAX_RESULT_BYTES - self._count_kept_bytes())
        asyncio.get_running_loop().call_later(self._kept_s, self._tasks.pop, task.id, None)

    def _find(self, context: Context, params: _TaskParams) -> "_Task":
        """Return a task of the caller. Raises MCPError."""
        require_extension(context)
        if context.request is not None:
            named = decode_header_value(context.request.headers.get(MCP_NAME_HEADER))
            if named != params.task_id:
                text = f"The header {MCP_NAME_HEADER} must have the value of params.taskId."
                raise MCPError(code=HEADER_MISMATCH, message=text)
        task = self._tasks.get(params.task_id)
        if task is None or task.call.actor != read_actor(context):
            raise MCPError(code=INVALID_PARAMS, message=_UNKNOWN_TASK)
        return task

    async def _on_get(self, context: Context, params: _TaskParams) -> dict[str, Json]:
        return self._find(context, params).describe_in_full()

    async def _on_update(self, context: Context, params: _UpdateParams) -> dict[str, Json]:
        self._find(context, params).call.answer_requests(params.input_responses)
        return {}

    async def _on_cancel(self, context: Context, params: _TaskParams) -> dict[str, Json]:
        self._find(context, params).cancel()
        return {}


class _Task:
    """One call that continues without its request."""

    def __init__(self, id_: str, call: Round[ToolAnswer], kept_s: float) -> None:
        self.id = id_
        self.call = call
        self.following: asyncio.Task[None] | None = None
        self.size = 0
        """Size of the result, in bytes."""
        self._kept_s = kept_s
        self._created = self._updated = datetime.now(UTC)
        self._begun_s = time.monotonic()
        self._lasted_s = 0.0
        self._cancelled = False
        self._end: tuple[str, dict[str, Json]] | None = None
        """The final status, and the members that it adds."""

    def describe(self) -> dict[str, Json]:
        """Return what every message about the task has."""
        status, _ = self._read_state()
        lasted_s = time.monotonic() - self._begun_s if self._end is None else self._lasted_s
        return {
            "taskId": self.id,
            "status": status,
            "createdAt": _format_time(self._created),
            "lastUpdatedAt": _format_time(self._updated),
            # While the call runs, this grows: its result will be kept for that long from now on at least.
            "ttlMs": int((lasted_s + self._kept_s) * 1000),
            "pollIntervalMs": POLL_INTERVAL_MS,
        }

    def describe_in_full(self) -> dict[str, Json]:
        """Return the task with its result, its error, or its questions."""
        return {**self.describe(), **self._read_state()[1]}

    def cancel(self) -> None:
        """End the call early. Does nothing after its end."""
        if self._end is None:
            self._cancelled = True
            self.call.end()

    async def wait_for_end(self, in_flight: InFlight) -> None:
        """Wait until the call has ended, or waits for a person who is asked elsewhere."""
        call = self.call
        while not call.task.done() and call.question is None:
            with in_flight(self.id):
                await call.wait_until_paused(None, ends=False)
            self._updated = datetime.now(UTC)
            if call.question is None and not call.task.done():
                await call.answered.wait()

    async def note_end(self, rounds: ElicitationRounds, finish: Finish, room: int) -> None:
        """Keep the result of the call, if it is small or has at most `room` bytes."""
        end = await self._read_end(rounds, finish)
        self.size = len(json.dumps(end[1], default=str))
        if self.size > max(room, SMALL_RESULT_BYTES):
            text = _RESULT_REFUSAL.format(size=self.size, limit=MAX_RESULT_BYTES)
            refusal = build_refusal(Status.OUTPUT_LIMIT, "ResultNotKept", text)
            end = end[0], {"result": await finish(refusal)}
            self.size = len(json.dumps(end[1], default=str))
        self._end = end
        self._updated = datetime.now(UTC)
        self._lasted_s = time.monotonic() - self._begun_s

    async def _read_end(self, rounds: ElicitationRounds, finish: Finish) -> tuple[str, dict[str, Json]]:
        if self.call.task.cancelled():
            return "cancelled", {}
        try:
            answer = rounds.report_end(self.call)
            if self._cancelled and answer.is_error:
                return "cancelled", {}
            return "completed", {"result": await finish(answer)}
        except MCPError as error:
            return _describe_failure(error.error)
        except Exception:  # noqa: BLE001 - the client must not see its text, which may hold anything
            _log.exception("a task failed")
            return _describe_failure(ErrorData(code=INTERNAL_ERROR, message="Paddock failed; see its log"))

    def _read_state(self) -> tuple[str, dict[str, Json]]:
        """Return the status, and the members that it adds."""
        if self._end is not None:
            return self._end
        if requests := self.call.list_requests():
            return "input_required", {"inputRequests": requests}
        return "working", {}


def require_extension(context: Context) -> None:
    """Raise MCPError unless the client declares the extension with this request."""
    if not _is_declared(context):
        needed: Mapping[str, Json] = {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        text = f"This needs a client that declares the extension {EXTENSION}."
        raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message=text, data=needed)


async def _check_listener(ctx: Context, call_next: "CallNext") -> "HandlerResult":
    """Refuse a stream of notifications about tasks without the extension. With it, the stream has none of them."""
    if ctx.method == LISTEN_METHOD and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        wanted = (ctx.params or {}).get("notifications")
        if isinstance(wanted, Mapping) and "taskIds" in wanted:
            require_extension(ctx)
    return await call_next(ctx)


def _is_declared(context: Context) -> bool:
    capabilities = context.session.client_capabilities
    return capabilities is not None and EXTENSION in (capabilities.extensions or {})


def _gate_version(binding: MethodBinding) -> Callable[[Context, Any], Awaitable[Any]]:
    """Return the handler of a method, which other revisions of the protocol do not have."""

    async def handle(context: Context, params: Any) -> Any:  # noqa: ANN401 - as the library declares handlers
        if context.protocol_version not in (binding.protocol_versions or ()):
            raise MCPError(code=METHOD_NOT_FOUND, message="Method not found", data=binding.method)
        return await binding.handler(context, params)

    return handle


def _describe_failure(error: ErrorData) -> tuple[str, dict[str, Json]]:
    body = error.model_dump(mode="json", exclude_none=True)
    return "failed", {"statusMessage": error.message, "error": body}


def _format_time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
