"""A server within this process: functions of the caller, called like tools of any other server.

    thread or task -> the function's value as JSON text -> bounded, and decoded again

A call waits for its function no longer than its time limit. A function that blocks keeps its thread; the thread is a
daemon, so the process can still end. Exceptions do not reach the program: it learns only that the tool failed, and the
log names the exception and its place.
"""

import asyncio
import contextlib
import contextvars
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from paddock.engines.servers.calls.call_errors import CallFailed
from paddock.engines.servers.calls.lifecycle import CallHealth
from paddock.engines.servers.local_server import LocalServer, LocalTool, NoJsonError
from paddock.engines.servers.methods import name_method
from paddock.engines.servers.output import MAX_DEPTH, MAX_LINE_BYTES
from paddock.foundation.large_json import JsonLimitError, read_json
from paddock.model.base import Json
from paddock.model.errors import InvalidArguments, ServerTimeout, ServerUnavailable, ToolError, UnknownTool
from paddock.model.json_meter import MAX_VALUES
from paddock.model.outcome import OnProgress

MAX_RUNNING = 64
"""Maximum number of running functions, including those whose caller has left."""
_MAX_ERROR_CHARS = 2_000
_SILENT = "the tool failed and did not say why"

_log = logging.getLogger("paddock.tools")


class LocalConnection:
    """The connection to a server in this process."""

    protocol = "local"
    capabilities: frozenset[str] = frozenset()

    def __init__(self, server: LocalServer, max_values: int = MAX_VALUES) -> None:
        """Return at most `max_values` JSON values of one call."""
        self.lost = asyncio.Event()
        self.listing = asyncio.Lock()
        self._server = server
        self._max_values = max_values
        self.listed = False
        """Whether its tools were listed since they last changed."""
        self._tasks: set[asyncio.Future[Any]] = set()
        """Calls of asynchronous functions: the event loop keeps only weak references to tasks."""

    async def wait_until_lost(self) -> None:
        """Wait until the session ends."""
        await self.lost.wait()

    async def list_tools(self, timeout_ms: float) -> tuple[list[object], str]:
        """Return the definitions of the functions."""
        del timeout_ms
        return [dict(tool.definition) for tool in self._server.tools.values()], ""

    async def request(self, method: str, params: Mapping[str, Json], timeout_ms: float) -> tuple[object, str]:
        """Raise CallFailed: functions are tools, and nothing else."""
        del params, timeout_ms
        text = (
            f"{name_method(self._server.name, method)} was not called: the functions of a program are tools."
        )
        raise CallFailed(InvalidArguments(text), CallHealth.NEUTRAL)

    def check_call(self, tool: str, arguments: Mapping[str, Json]) -> None:
        """Raise CallFailed for a function that does not exist, or arguments that its types do not accept."""
        self._make_call(tool, dict(arguments))

    def _make_call(self, tool: str, arguments: dict[str, Json]) -> tuple[LocalTool, Callable[[], Any]]:
        """Return a function, and its call with the arguments, which is not made yet. Raises CallFailed."""
        server = self._server
        found = server.tools.get(tool)
        if found is None:
            raise CallFailed(UnknownTool(f"Server {server.name} has no tool {tool!r}"), CallHealth.NEUTRAL)
        try:
            return found, found.start(arguments)
        except InvalidArguments as error:
            text = f"{server.name}.{tool} was not called: {server.hide(str(error))}"
            raise CallFailed(InvalidArguments(text), CallHealth.NEUTRAL) from None

    async def call_tool(
        self,
        tool: str,
        arguments: dict[str, Json],
        timeout_ms: float,
        on_progress: OnProgress | None = None,
    ) -> object:
        """Return what a function returned, as a result of `tools/call`. It reports no progress. Raises CallFailed."""
        del on_progress
        server = self._server
        found, call = self._make_call(tool, arguments)
        if server.running >= MAX_RUNNING:
            text = (
                f"{MAX_RUNNING} functions of {server.name} still run; call {tool} again when one has ended."
            )
            raise CallFailed(ServerUnavailable(text, retryable=True), CallHealth.NEUTRAL)
        limit_ms = timeout_ms if found.timeout_ms is None else min(timeout_ms, found.timeout_ms)
        try:
            async with asyncio.timeout(limit_ms / 1000):
                text = await self._run_call(found, call)
                return await self._read_text(tool, text)
        except TimeoutError:
            text = f"{server.name}.{tool} did not finish within {limit_ms:g} ms. Ask for less at once."
            raise CallFailed(ServerTimeout(text, sent=True), CallHealth.NEUTRAL) from None
        except ToolError as error:
            return _make_error(server.hide(str(error))[:_MAX_ERROR_CHARS] or _SILENT)
        except NoJsonError:
            _log.warning("the tool %s.%s returned a value that has no form in JSON", server.name, tool)
            return _make_error("the tool returned a value that has no form in JSON")
        except _FunctionFailed as failed:
            _log.warning("the tool %s.%s raised %s", server.name, tool, failed)
            return _make_error(_SILENT)

    async def _run_call(self, tool: LocalTool, call: Callable[[], Any]) -> str:
        """Return the value of a call as JSON text. A cancelled call does not wait for the function."""
        self._server.running += 1
        if not tool.is_async:
            return await self._run_in_thread(lambda: tool.write(call()))
        task = asyncio.ensure_future(_await_call(call))
        self._tasks.add(task)
        task.add_done_callback(self._on_task_end)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            raise
        value, error = task.result()
        if error is not None:
            raise _explain(error)
        self._server.running += 1
        return await self._run_in_thread(partial(tool.write, value))

    def _on_task_end(self, task: "asyncio.Future[Any]") -> None:
        self._tasks.discard(task)
        self._server.running -= 1
        if not task.cancelled():
            task.exception()  # asyncio would report the task's exception, which no caller retrieves

    async def _run_in_thread(self, work: Callable[[], str]) -> str:
        """Return the result of work that runs in a separate thread. A cancelled caller leaves the thread running."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[tuple[str, BaseException | None]] = loop.create_future()

        def settle(text: str, error: BaseException | None) -> None:
            self._server.running -= 1
            if not ended.done():
                ended.set_result((text, error))

        def run() -> None:
            try:
                text, error = work(), None
            except BaseException as raised:  # noqa: BLE001 - `sys.exit` would end the thread without a word
                text, error = "", raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(settle, text, error)

        context = contextvars.copy_context()
        try:
            threading.Thread(target=context.run, args=(run,), name="paddock tool", daemon=True).start()
        except RuntimeError as error:
            self._server.running -= 1
            text = f"Server {self._server.name} cannot start a thread for the call."
            raise CallFailed(ServerUnavailable(text, retryable=True), CallHealth.NEUTRAL) from error
        text, error = await ended
        if error is not None:
            raise _explain(error)
        return text

    async def _read_text(self, tool: str, text: str) -> object:
        """Return a result with the value of a JSON text, which shares no object with the function."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > MAX_LINE_BYTES:
            why = f"it has {len(data)} bytes, and at most {MAX_LINE_BYTES} are read"
            raise self._explain_overflow(tool, why)
        value: Json
        try:
            value, _ = await read_json(data, self._max_values, MAX_DEPTH, errors="surrogatepass")
        except JsonLimitError as fault:
            if fault.too_deep:
                raise NoJsonError from None
            why = f"it has more than {self._max_values} values (servers.answer_values)"
            raise self._explain_overflow(tool, why) from None
        except ValueError:
            raise NoJsonError from None
        shown = value if isinstance(value, str) else text
        result: dict[str, Json] = {"content": [{"type": "text", "text": shown}]}
        return result if value is None else {**result, "structuredContent": value}

    def _explain_overflow(self, tool: str, why: str) -> CallFailed:
        text = f"{self._server.name}.{tool} gave no whole answer: {why}; ask for less at once."
        return CallFailed(ServerUnavailable(text, sent=True), CallHealth.NEUTRAL)


class _FunctionFailed(Exception):
    """A function raised an exception; the text has its type and position."""


async def _await_call(call: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    """Return a coroutine's value or its exception: a `sys.exit` that is raised in a task would end the event loop."""
    try:
        return await call(), None
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return None, error
    except BaseException as error:  # noqa: BLE001 - it belongs to the caller
        return None, error


def _explain(error: BaseException) -> Exception:
    """Return the error to raise for a function's exception, whose text may contain secrets."""
    if isinstance(error, ToolError | NoJsonError):
        return error
    frames = traceback.extract_tb(error.__traceback__)
    where = f" in {frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
    return _FunctionFailed(f"{type(error).__name__}{where}")


def _make_error(message: str) -> dict[str, Json]:
    return {"content": [{"type": "text", "text": message}], "isError": True}
