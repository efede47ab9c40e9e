"""One connection to an upstream server: the MCP library on Paddock's transports, and an error for each way to fail.

This module (with `session`, `stdio` and `http`) imports `mcp`, which takes most of a second. The pool imports it in a
thread while the server's process is starting.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx2
import orjson
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    Implementation,
    ToolListChangedNotification,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError, to_json

from paddock.engines.servers.calls.call_errors import MAX_ERROR_CODE, TRACE, CallFailed, Trace, bound_data
from paddock.engines.servers.calls.elicitation import ServerQuestions, asks_back
from paddock.engines.servers.calls.http import find_request_error, http_client
from paddock.engines.servers.calls.lifecycle import CallHealth
from paddock.engines.servers.calls.process import ServerChild, suggest_remedy
from paddock.engines.servers.calls.progress import ProgressReports
from paddock.engines.servers.calls.session import (
    AUTH_STATUS,
    LISTING_CHARS,
    MAX_PAGES,
    METHOD_LIST_CHARS,
    RawSession,
)
from paddock.engines.servers.calls.sse import EventReader, PostWriter, open_stream
from paddock.engines.servers.calls.stdio import PipeReader, PipeWriter
from paddock.engines.servers.calls.stdio_rpc import OversizedAnswerError, StdioRpc
from paddock.engines.servers.calls.unsolicited import (
    STDERR_BYTES,
    STDERR_BYTES_PER_SECOND,
    CountedReader,
    CountedWriter,
    RateAllowance,
    UnsolicitedBudget,
)
from paddock.engines.servers.config import HttpServer, Server, StdioServer, may_download
from paddock.engines.servers.methods import METHODS, name_method
from paddock.engines.servers.output import MAX_LINE_BYTES
from paddock.engines.servers.person import UnanswerableQuestion
from paddock.model.errors import (
    InvalidArguments,
    ServerRejected,
    ServerTimeout,
    ServerUnauthorized,
    ServerUnavailable,
)
from paddock.model.invisible import spell_invisible
from paddock.model.json_meter import MAX_VALUES
from paddock.model.numbers import MARK, mark_numbers, unmark_numbers
from paddock.model.outcome import OnProgress
from paddock.policy.redaction.known import NO_SECRETS, ServerSecrets

if TYPE_CHECKING:
    from paddock.engines.servers.auth.bearer import BearerAuth

T = TypeVar("T")

_CLIENT = Implementation(name="paddock", version="1")
_LAST_ANSWERS_S = 5.0
"""Seconds to wait for the answers to calls in flight when a session is forgotten."""
_AUTH_WORDS = ("unauthorized", "invalid_token", "forbidden")
_SLOW_S = 15.0
"""Seconds after which a slow start is logged."""

_log = logging.getLogger("paddock.engines.servers")

for _name in ("client", "mcp.client", "httpx2", "httpcore2"):
    # These loggers print addresses, headers and messages, including secrets. Paddock's errors contain what is safe.
    logging.getLogger(_name).setLevel(logging.CRITICAL)


class ServerConnection:
    """A connection to one server. Calls may run concurrently."""

    def __init__(
        self,
        server: Server,
        process: ServerChild | None,
        on_lost: Callable[[], None],
        auth: "BearerAuth | None" = None,
    ) -> None:
        self.lost = asyncio.Event()
        """Set once the connection can no longer be used."""
        self.session: RawSession | None = None
        self.listed = False
        """Whether the server's tools were listed since they last changed."""
        self.listing = asyncio.Lock()
        self.rpc = None if process is None else StdioRpc(process.stdin)
        self._server = server
        self._process = process
        self._on_lost = on_lost
        self._broken_rule = ""
        self._ended_by_us = False
        self._auth = auth
        self.progress = ProgressReports(server.name, self._hide_secrets, asyncio.get_running_loop().time)
        self.questions = ServerQuestions() if server.questions else None
        """Answers questions of the server; None if it may ask none."""
        self._under_way = 0
        self._forgotten = False
        self._quiet = asyncio.Event()

    @property
    def protocol(self) -> str:
        """The agreed protocol version; empty before the handshake."""
        return (self.session and self.session.protocol_version) or ""

    @property
    def legacy(self) -> bool:
        """Whether the server speaks the older era, with a handshake."""
        return self.protocol in HANDSHAKE_PROTOCOL_VERSIONS

    @property
    def capabilities(self) -> frozenset[str]:
        """What the server declares, such as `resources`."""
        return frozenset() if self.session is None else self.session.capabilities

    @property
    def silent(self) -> bool:
        """Whether the server did not answer `server/discover`."""
        return self.session is not None and self.session.silent

    def declare_lost(self, broken_rule: str = "", *, by_us: bool = False) -> None:
        """Mark the connection as lost. `by_us`: Paddock ended it. `broken_rule`: why the server was cut off."""
        if not self.lost.is_set():
            self._broken_rule = broken_rule
            if broken_rule:
                _log.warning("server %r was cut off: %s", self._server.name, broken_rule)
            self._ended_by_us = by_us
            self.lost.set()
            self._on_lost()
            if self.rpc is not None:
                self.rpc.end_waits()

    async def wait_until_lost(self) -> None:
        """Wait until the connection is lost, then some seconds for answers that may still arrive."""
        await self.lost.wait()
        if self._forgotten and self._under_way:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_ANSWERS_S):
                    await self._quiet.wait()

    async def negotiate_version(self, *, probe: bool, quiet: bool = False) -> None:
        """Agree on a protocol version; `probe` asks for the stateless era first. Raises CallFailed.

        A slow answer is logged, unless `quiet`.
        """
        assert self.session is not None
        server, limit = self._server, self._server.timeout_ms
        if isinstance(server, StdioServer):
            limit = max(limit, server.start_ms)
        message = (
            f"server {server.name!r} has not answered for {_SLOW_S:g} s; it has {limit / 1000:g} s to start"
        )
        report = _log.debug if quiet else _log.warning
        notice = asyncio.get_running_loop().call_later(_SLOW_S, report, message)
        try:
            await self._wait_for_answer(self.session.agree_on_version(probe=probe), "the handshake", limit)
        finally:
            notice.cancel()

    async def open_stream(
        self, client: httpx2.AsyncClient, stack: contextlib.AsyncExitStack, unasked: UnsolicitedBudget
    ) -> tuple[EventReader, PostWriter]:
        """Connect to a server of the transport HTTP+SSE, until `stack` ends. Raises CallFailed."""
        assert isinstance(self._server, HttpServer)
        opening = open_stream(
            client, self._server, self._on_stream_end, unasked.count_unasked, self.lost.is_set
        )
        stream = await self._wait_for_answer(opening, "the handshake", self._server.timeout_ms)
        stack.push_async_callback(stream.response.aclose)
        return stream.reader, stream.writer

    def _on_stream_end(self, why: str) -> None:
        self.declare_lost(self._hide_secrets(why))

    def check_call(self, tool: str, arguments: Mapping[str, Any]) -> None:
        """Raise CallFailed for a call that the transport cannot carry."""
        if self._process is not None:  # a pipe carries any string, if necessary with escapes
            return
        try:
            to_json([tool, arguments])
        except PydanticSerializationError:
            text = (
                f"Tool {tool!r} of server {self._server.name} was not called: its name or an argument holds half of a "
                "character (a lone surrogate), which HTTP cannot carry; repair it with `text.toWellFormed()`."
            )
            raise CallFailed(InvalidArguments(text), CallHealth.NEUTRAL) from None

    async def call_tool(
        self,
        tool: str,
        arguments: dict[str, Any],
        timeout_ms: float,
        on_progress: OnProgress | None = None,
    ) -> object:
        """Send `tools/call` and return the raw answer; with `on_progress`, ask for progress. Raises CallFailed."""
        if self._process is None and not _is_plain(tool, arguments):
            arguments = mark_numbers(arguments)
        self.check_call(tool, arguments)
        asking = self._request_call if self.questions is None else self._call_with_questions
        try:
            if on_progress is None:
                answer = await self._wait_for_answer(asking(tool, arguments), f"tool {tool!r}", timeout_ms)
            else:
                with self.progress.listen(tool, on_progress) as meta:
                    asked = asking(tool, arguments, {"_meta": meta})
                    answer = await self._wait_for_answer(asked, f"tool {tool!r}", timeout_ms)
        except UnanswerableQuestion as why:
            text = f"Tool {tool!r} asks its user for more input: {why}."
            raise CallFailed(ServerRejected(text, code=0), CallHealth.SUCCESS) from None
        if asks_back(answer):
            text = (
                f"Tool {tool!r} asks its user for more input, which a program cannot give; pass all it needs, or let a "
                f"person be asked: `servers.questions` names the servers that may."
            )
            raise CallFailed(ServerRejected(text, code=0), CallHealth.SUCCESS)
        return self._clean_answer(answer)

    async def request(self, method: str, params: Mapping[str, Any], timeout_ms: float) -> tuple[object, str]:
        """Send another method and return the raw answer, and a note about missing pages. Raises CallFailed."""
        found, name = METHODS[method], self._server.name
        if found.capability not in self.capabilities:
            text = f"{name_method(name, method)} was not called: the server declares no {found.capability}."
            raise CallFailed(InvalidArguments(text), CallHealth.NEUTRAL)
        # A question of the server must not reach the person of a call that runs at the same time.
        tracking = contextlib.nullcontext() if self.questions is None else self.questions.track_call()
        with tracking:
            answer, note = await self._request_method(method, params, timeout_ms)
        return self._clean_answer(answer), note

    async def _request_method(
        self, method: str, params: Mapping[str, Any], timeout_ms: float
    ) -> tuple[object, str]:
        assert self.session is not None
        found, note = METHODS[method], ""
        if found.key:
            pages = self._request_pages(
                method, found.member, f"list of {found.capability}", METHOD_LIST_CHARS
            )
            entries, note = await self._wait_for_answer(pages, method, timeout_ms)
            answer: object = {found.member: entries}
        else:
            asking = self.session.send_raw_request(method, dict(params))
            answer = await self._wait_for_answer(asking, method, timeout_ms)
            if asks_back(answer):
                called = name_method(self._server.name, method)
                text = f"{called} asks its user for more input, which a program cannot give."
                raise CallFailed(ServerRejected(text, code=0), CallHealth.SUCCESS)
        return answer, note

    def _clean_answer(self, answer: object) -> object:
        """Return an answer without credentials, with its numbers as they were sent."""
        answer = (self._server.credentials | self._login_secrets).hide_in(answer)
        return answer if self._process is not None or _is_plain(answer) else unmark_numbers(answer)

    async def list_tools(self, timeout_ms: float) -> tuple[list[object], str]:
        """Return the raw entries of all pages of `tools/list`, and a note about missing ones. Raises CallFailed."""
        try:
            return await self._wait_for_answer(self._request_tools(), "the tool listing", timeout_ms)
        except CallFailed as failed:
            if isinstance(error := failed.error, ServerRejected):
                text = f"Server {self._server.name} cannot list its tools: {error}"
                rejected = ServerRejected(text, code=error.code, data=error.data)
                raise CallFailed(rejected, failed.verdict) from None
            raise

    async def _call_with_questions(
        self, tool: str, arguments: dict[str, Any], meta: Mapping[str, Any] | None = None
    ) -> object:
        assert self.questions is not None

        async def ask_again(more: Mapping[str, Any]) -> object:
            return await self._request_call(tool, arguments, {**(meta or {}), **more})

        with self.questions.track_call():
            answer = await self._request_call(tool, arguments, meta)
            return await self.questions.settle_result(answer, ask_again)

    async def _request_call(
        self, tool: str, arguments: dict[str, Any], more: Mapping[str, Any] | None = None
    ) -> object:
        assert self.session is not None
        params = {"name": tool, "arguments": arguments, **(more or {})}
        try:
            return await self.session.send_raw_request("tools/call", dict(params))
        except MCPError as error:
            if error.code != HEADER_MISMATCH:
                raise
        # The server refused the call before it ran: it wants arguments repeated as headers, which its listing names.
        await self._request_tools()
        return await self.session.send_raw_request("tools/call", params)

    async def _request_tools(self) -> tuple[list[object], str]:
        entries, cut = await self._request_pages("tools/list", "tools", "tool listing", LISTING_CHARS)
        if self._process is None and not self.legacy:
            assert self.session is not None
            entries = self.session.mind_headers(entries)
        return entries, cut

    async def _request_pages(
        self, method: str, member: str, what: str, max_chars: int
    ) -> tuple[list[object], str]:
        """Return the entries of all pages of a list, and a note about missing ones."""
        assert self.session is not None
        entries: list[object] = []
        params: dict[str, Any] = {}
        seen, room, cut = set[str](), max_chars, ""
        for _ in range(MAX_PAGES):
            answer = await self.session.send_raw_request(method, params)
            page = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
            listed = page.get(member)
            found = cast("list[object]", listed) if isinstance(listed, list) else []
            entries += found
            if not (cursor := page.get("nextCursor")):
                break
            if repr(cursor) in seen:
                cut = f"its {what} returns to an earlier page; the rest is left out"
                break
            room -= len(repr(found))
            if room < 0:
                cut = f"its {what} has more than {max_chars} characters; the rest is left out"
                break
            seen.add(repr(cursor))
            params = {"cursor": cursor}
        else:
            cut = f"its {what} has more than {MAX_PAGES} pages; the rest is left out"
        return entries, cut

    async def _wait_for_answer(self, request: Awaitable[T], what: str, timeout_ms: float) -> T:
        """Wait for a request, at most `timeout_ms`; turn every failure into CallFailed."""
        trace = Trace()
        token = TRACE.set(trace)
        self._under_way += 1
        self._quiet.clear()
        try:
            # Paddock's own timeout: the library's starts only when the request is written. A server that does not read
            # would block the call for ever.
            async with asyncio.timeout(timeout_ms / 1000) as trace.limit:
                return await request
        except TimeoutError:
            advice = await self._suggest_for_timeout()
            text = f"Server {self._server.name} did not finish {what} within {timeout_ms:g} ms. {advice}"
            raise CallFailed(ServerTimeout(text, sent=trace.sent), CallHealth.FAILURE) from None
        except MCPError as error:
            failure = await self._explain_error(error, trace)
            failure.status = trace.status
        except (ValidationError, RuntimeError) as error:
            # Raised by the handshake and the listing of headers, the only places where the library checks answers.
            text = "its answer breaks the protocol" if isinstance(error, ValidationError) else str(error)
            failure = CallFailed(
                ServerUnavailable(self._hide_secrets(text), sent=trace.sent), CallHealth.FAILURE
            )
        finally:
            TRACE.reset(token)
            self._under_way -= 1
            if not self._under_way:
                self._quiet.set()
            trace.limit = (
                None  # it refers to the task and its result; contexts of timers keep the trace alive
            )
        raise failure from None

    async def _suggest_for_timeout(self) -> str:
        if self.protocol:
            return "Ask for less at once, or raise its `timeoutMs`."
        if self._process is None:
            return "Correct its `url`, or raise its `timeoutMs`."
        assert isinstance(self._server, StdioServer)
        first = (
            "Run its command by itself once"
            if may_download(self._server.command)
            else "Correct its `command`"
        )
        return f"{first}, or raise its `timeoutMs`.{await self._process.last_words()}"

    async def _explain_error(self, error: MCPError, trace: Trace) -> CallFailed:
        """Return the meaning of a library error: the server's own error, or that there is no answer."""
        if trace.status in AUTH_STATUS or any(word in error.message.lower() for word in _AUTH_WORDS):
            reason = (
                f"HTTP {trace.status}" if trace.status in AUTH_STATUS else self._hide_secrets(error.message)
            )
            name, remedy = self._server.name, self._hide_secrets(trace.remedy)
            where = "env" if self._process is not None else "headers"
            text = f"Server {name} refuses our credentials ({reason}); correct its `{where}`."
            if remedy and trace.status in AUTH_STATUS:
                text = f"Server {name} {remedy} ({reason})."
            return CallFailed(ServerUnauthorized(text), CallHealth.NEUTRAL)
        oversize = error.message if isinstance(error, OversizedAnswerError) else trace.fault
        if isinstance(error, OversizedAnswerError) or trace.oversize:
            text = f"Server {self._server.name} sent no complete answer: {oversize}."
            return CallFailed(ServerUnavailable(text, sent=True), CallHealth.NEUTRAL)
        # An unknown session, as after a restart, should be answered by 404, which the library turns into "Session
        # terminated" if the body is empty; many servers answer 400. In the stateless era, 404 is for unknown methods.
        refused = trace.status in (HTTPStatus.NOT_FOUND, HTTPStatus.BAD_REQUEST)
        if refused and error.code != METHOD_NOT_FOUND and "session" in error.message.lower():
            self._forgotten = True  # other calls get their own error, or still an answer
            self.declare_lost()
            text = f"Server {self._server.name} has forgotten our session."
            return CallFailed(ServerUnavailable(text, retryable=True), CallHealth.NEUTRAL, again=True)
        if error.code == CONNECTION_CLOSED:  # a server may use this code in its own answer
            if self._process is None and error.message.startswith("SSE stream"):
                return self._explain_cut_answer(error, trace)
            unheard = not trace.sent or (self._process is None and trace.status is None and not trace.cause)
            if self.lost.is_set() or unheard:
                return await self._explain_lost(error, trace)
        if isinstance(self._server, HttpServer) and (
            failure := find_request_error(self._server, error, trace)
        ):
            return CallFailed(failure, CallHealth.FAILURE)
        # The server answered. An error that blames the request comes from a healthy server.
        own_fault = error.code == INTERNAL_ERROR or -32019 <= error.code <= -32000
        verdict = CallHealth.FAILURE if own_fault else CallHealth.SUCCESS
        message = spell_invisible(self._hide_secrets(error.message))
        data = bound_data((self._server.secrets | self._login_secrets).hide_in(error.data))
        code = error.code if abs(error.code) <= MAX_ERROR_CODE else INTERNAL_ERROR
        return CallFailed(ServerRejected(message, code=code, data=data), verdict)

    async def _explain_lost(self, error: MCPError, trace: Trace) -> CallFailed:
        """Explain a connection that ended during a call. A retry is right if the server is certainly dead."""
        self.declare_lost()
        name, process = self._server.name, self._process
        if self._broken_rule:
            text = f"Server {name} was cut off: {self._broken_rule}."
            return CallFailed(ServerUnavailable(text, sent=trace.sent), CallHealth.FAILURE)
        if process is None:
            return self._explain_cut_answer(error, trace)
        status = await process.exit_status()
        if self._ended_by_us:
            text = f"Server {name} was ended while it worked on the call."
            return CallFailed(ServerUnavailable(text, retryable=True, sent=trace.sent), CallHealth.NEUTRAL)
        if status is None and trace.sent:
            text = f"Server {name} closed its output without an answer."
            return CallFailed(ServerUnavailable(text, sent=True), CallHealth.FAILURE)
        ended = "was killed by signal" if status is not None and status < 0 else "exited with status"
        words = await process.last_words()
        assert isinstance(self._server, StdioServer)
        words += suggest_remedy(self._server.command, words)
        text = f"Server {name} {ended} {abs(status or 0)} without an answer.{words}"
        failure = ServerUnavailable(text, retryable=True, sent=trace.sent)
        return CallFailed(failure, CallHealth.NEUTRAL, again=True)

    def _explain_cut_answer(self, error: MCPError, trace: Trace) -> CallFailed:
        """Explain an HTTP answer that ended too early. Other calls have their own streams."""
        text = self._hide_secrets(f"Server {self._server.name} broke off its answer ({error.message}).")
        return CallFailed(ServerUnavailable(text, sent=trace.sent), CallHealth.FAILURE)

    def _hide_secrets(self, text: str) -> str:
        return (self._server.secrets | self._login_secrets).hide(text)

    @property
    def _login_secrets(self) -> ServerSecrets:
        return self._auth.secrets if self._auth is not None else NO_SECRETS


def _is_plain(*values: object) -> bool:
    """Return whether no number in JSON values needs a mark, or already has one, to pass the library unchanged."""
    try:
        return MARK.encode() not in orjson.dumps(values)
    except TypeError:
        return False


def _watch_output(
    connection: ServerConnection, process: ServerChild, unasked: UnsolicitedBudget, max_values: int
) -> PipeReader:
    """Return a reader of a process's messages; it counts everything else that the process writes."""
    process.stdout.rpc, process.stdout.max_values = connection.rpc, max_values
    stderr = RateAllowance(STDERR_BYTES, STDERR_BYTES_PER_SECOND, asyncio.get_running_loop().time)

    def on_stderr(size: int) -> None:
        if not stderr.spend_amount(size):
            connection.declare_lost(
                f"it wrote more than {STDERR_BYTES} bytes to stderr, faster than "
                f"{STDERR_BYTES_PER_SECOND} a second; have it log less"
            )

    def on_other(line: bytes) -> None:
        process.note_skipped_line(line)
        unasked.count_unasked(len(line))

    process.on_stderr = on_stderr
    return PipeReader(process.stdout, connection.declare_lost, on_other)


@contextlib.asynccontextmanager
async def open_connection(
    server: Server,
    process: ServerChild | None,
    *,
    probe: bool,
    on_lost: Callable[[], None],
    on_changed: Callable[[], None],
    auth: "BearerAuth | None" = None,
    quiet: bool = False,
    max_values: int = MAX_VALUES,
) -> AsyncGenerator[ServerConnection]:
    """Hold a ready connection open. Raises CallFailed when it cannot be made ready.

    `process` is the running child of a stdio server. `on_lost` is called at once when the connection ends, so that no
    further call is sent. `on_changed` is called when the server reports that its tools changed. `auth` puts tokens into
    HTTP requests; if it waits for a person, `quiet` suppresses the log entry about a slow start. A failure of an open
    HTTP connection leaves the context as an exception group. `max_values` limits the values in one answer.
    """
    connection = ServerConnection(server, process, on_lost, auth)
    unasked = UnsolicitedBudget(connection.declare_lost, asyncio.get_running_loop().time)
    failure: CallFailed | None = None
    async with contextlib.AsyncExitStack() as stack:
        if isinstance(server, StdioServer):
            assert process is not None
            assert connection.rpc is not None
            reader = _watch_output(connection, process, unasked, max_values)
            writer = PipeWriter(process.stdin)
        else:
            # Loading the trusted certificates takes 50 ms and more, which would block the event loop.
            http = await asyncio.to_thread(http_client, server, auth, max_values)
            await stack.enter_async_context(http)
            if server.transport == "sse":
                reader, writer = await connection.open_stream(http, stack, unasked)
            else:
                streams = streamable_http_client(
                    server.url, http_client=http, max_sse_event_size=MAX_LINE_BYTES
                )
                reader, writer = await stack.enter_async_context(streams)

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                connection.listed = False
                on_changed()

        session = RawSession(
            CountedReader(reader, unasked, connection.progress.take),
            CountedWriter(writer, unasked),
            client_info=_CLIENT,
            message_handler=on_message,
            elicitation_callback=connection.questions and connection.questions.on_elicitation,
        )
        session.rpc = connection.rpc
        connection.session = await stack.enter_async_context(session)
        try:
            await connection.negotiate_version(probe=probe, quiet=quiet)
        except CallFailed as error:  # raised here, it would become an exception group
            failure = error
        else:
            try:
                yield connection
            finally:
                connection.declare_lost(by_us=True)
    if failure is not None:
        raise failure
