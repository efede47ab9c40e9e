"""The MCP server over HTTP in the process of a test, without a network: requests go to its ASGI application."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    ElicitRequest,
    ElicitRequestFormParams,
)

from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import FileQuestions
from paddock.surfaces.mcp_server.client_questions import ACTOR_KEY, ElicitationRounds
from paddock.surfaces.mcp_server.http.app import build_application
from paddock.surfaces.mcp_server.list_changes import ChangeNotifier
from paddock.surfaces.mcp_server.pending_calls import FETCH_TOOLS, PendingCalls
from paddock.surfaces.mcp_server.prompts_resources import PromptsAndResources
from paddock.surfaces.mcp_server.protocol import build_protocol_server
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.mcp_server.tasks import RETENTION_S, Tasks
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    Toolbox,
    object_schema,
    text_block,
)

if TYPE_CHECKING:
    from paddock.surfaces.http_server.asgi import App

Header = tuple[bytes, bytes]
PATIENCE_S = 60
JSON_TYPE = (b"content-type", b"application/json")
ACCEPT = (b"accept", b"application/json, text/event-stream")
VERSION = b"mcp-protocol-version"
SESSION = b"mcp-session-id"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "w", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}


NAME_FORM = ElicitRequest(
    params=ElicitRequestFormParams(
        message="Your name?",
        requested_schema={"type": "object", "properties": {"name": {"type": "string"}}},
    )
)


class Nothing:
    """Prompts and resources of a server that has none."""

    listed = templates = ()

    async def messages(self, *_given: Any) -> Any:
        raise KeyError

    read = complete = completions = messages


class Reply(NamedTuple):
    status: int | None
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


class Server:
    """An application whose tool `wait` answers when it is let go. Calls become tasks when they have not ended at once.

    `ask` then asks its client twice for two names, and `fail` ends with an error of the protocol.
    """

    def __init__(self, directory: Path, *, kept_s: float = RETENTION_S) -> None:
        self.requests = InFlightRequests()
        self.go = asyncio.Event()
        self.entered = asyncio.Event()

        async def echo(arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
            return ToolAnswer([text_block(json.dumps(arguments))])

        async def wait(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
            self.entered.set()
            await self.go.wait()
            return ToolAnswer([text_block("went on")])

        async def ask(_arguments: Arguments, caller: McpCaller) -> ToolAnswer:
            assert caller.inquire is not None
            await self.go.wait()
            names: list[Any] = []
            for _ in range(2):
                answers: Any = await caller.inquire({"first": NAME_FORM, "second": NAME_FORM})
                names += [answers[key].content["name"] for key in ("first", "second")]
            return ToolAnswer([text_block(" ".join(names))])

        async def long(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
            await self.go.wait()
            return ToolAnswer([text_block("x" * 350)])

        async def fail(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
            await self.go.wait()
            raise MCPError(code=INTERNAL_ERROR, message="it broke")

        tools = [
            McpTool("ask", "Ask", "Asks.", object_schema([]), ask),
            McpTool("fail", "Fail", "Fails.", object_schema([]), fail),
            McpTool("echo", "Echo", "Echoes.", object_schema([], value={}), echo),
            McpTool("long", "Long", "Returns much.", object_schema([]), long),
            McpTool("wait", "Wait", "Waits.", object_schema([]), wait),
        ]
        self.rounds = rounds = ElicitationRounds(
            60_000, PendingCalls(FileQuestions(QuestionDirectory(directory)), FETCH_TOOLS["default"])
        )
        nothing: Any = Nothing()
        offers = PromptsAndResources(nothing, nothing)
        self.tasks = Tasks(rounds, lambda _tool: 0.0, kept_s=kept_s, in_flight=self.requests.in_flight)
        server = build_protocol_server(Toolbox(tools), offers, rounds, ChangeNotifier(), tasks=self.tasks)
        server.middleware.append(self.requests.handle_message)
        self.app: App = build_application(server, self.requests)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Server"]:
        """Run the application's lifespan."""
        told: asyncio.Queue[Any] = asyncio.Queue()
        heard: asyncio.Queue[Any] = asyncio.Queue()
        task = asyncio.create_task(self._lifespan(told, heard))
        await told.put({"type": "lifespan.startup"})
        assert (await heard.get())["type"] == "lifespan.startup.complete"
        try:
            yield self
        finally:
            await told.put({"type": "lifespan.shutdown"})
            await task
            await self.rounds.close()
            await self.tasks.close()

    async def _lifespan(self, told: "asyncio.Queue[Any]", heard: "asyncio.Queue[Any]") -> None:
        await self.app({"type": "lifespan", "asgi": {"version": "3.0"}}, told.get, heard.put)

    async def ask(
        self,
        method: str,
        headers: Sequence[Header],
        body: bytes = b"",
        *,
        stays: bool = False,
        until: bytes = b"",
        actor: str | None = None,
    ) -> Reply:
        """Return the answer to one request.

        Its client leaves a stream that has begun and brought `until`, unless it `stays`. `actor` is who the server
        knows by its token.
        """
        gone = asyncio.Event()
        sent = False
        status: int | None = None
        told: dict[bytes, bytes] = {}
        parts: list[bytes] = []

        async def receive() -> Any:
            nonlocal sent
            if not sent:
                sent = True
                return {"type": "http.request", "body": body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                assert status is None, "a second answer"
                status, told_now = message["status"], dict(message["headers"])
                told.update(told_now)
            else:
                parts.append(message.get("body", b""))
            streams = told.get(b"content-type", b"").startswith(b"text/event-stream")
            if streams and not stays and until in b"".join(parts):
                gone.set()

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "root_path": "",
            "query_string": b"",
            "headers": [*headers],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            **({} if actor is None else {ACTOR_KEY: actor}),
        }
        async with asyncio.timeout(PATIENCE_S):
            await self.app(scope, receive, send)
        return Reply(status, told, b"".join(parts))

    async def session(self) -> list[Header]:
        """Shake hands; return the headers of the session's requests."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}
        begun = await self.ask("POST", [JSON_TYPE, ACCEPT], json.dumps(hello).encode(), stays=True)
        headers = [JSON_TYPE, ACCEPT, (SESSION, begun.headers[SESSION]), (VERSION, b"2025-11-25")]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.ask("POST", headers, json.dumps(ready).encode())).status == 202
        return headers


def call(number: Any, tool: str, **params: Any) -> bytes:
    given = {"name": tool, "arguments": {}, **params}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": given}).encode()


MODERN: list[Header] = [
    JSON_TYPE,
    ACCEPT,
    (VERSION, b"2026-07-28"),
    (b"mcp-method", b"tools/call"),
    (b"mcp-name", b"echo"),
]
