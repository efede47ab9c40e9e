"""The installed command as an MCP server, a client of the official library, and one that speaks plain lines."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import httpx2
from jsonschema import Draft202012Validator
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from tests.support.command import PADDOCK, make_environment
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry, write_servers

from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.replies import CodeAnswer
from paddock.surfaces.mcp_server.tools.compute import ComputationAnswer
from paddock.surfaces.mcp_server.tools.discovery import DescribedTools, DiscoveredTools
from paddock.surfaces.mcp_server.tools.programs import StoredOutputAnswer
from paddock.surfaces.mcp_server.tools.provision import ServersAnswer
from paddock.surfaces.rendering.program_response import ProgramAnswer

ERAS = ("legacy", "auto")
"""What a client of the library opens with: `initialize` of 2025-11-25, or whatever is newest, here 2026-07-28."""

TOKEN = "correct-horse-battery-staple"
AUTHORIZED = {"Authorization": f"Bearer {TOKEN}"}

MODERN: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


SCHEMAS = MappingProxyType(
    {
        "execute_code": build_schema(CodeAnswer),
        "search_tools": build_schema(DiscoveredTools),
        "describe_tools": build_schema(DescribedTools),
        "provision_server": build_schema(ServersAnswer),
        "run_program": build_schema(ProgramAnswer),
        "query_output": build_schema(StoredOutputAnswer),
        "compute": build_schema(ComputationAnswer),
    }
)
"""The schema of the data of each native tool that declares one."""
_VALIDATORS = {name: Draft202012Validator(schema) for name, schema in SCHEMAS.items()}


def check_data(tool: str, data: Any) -> None:
    """Fail unless the data of an answer look as its tool declares. Every answer that tests see comes by here."""
    if tool in _VALIDATORS:
        problems = [f"{error.json_path}: {error.message}" for error in _VALIDATORS[tool].iter_errors(data)]
        assert (tool, problems) == (tool, []), data


class CheckedClient(Client):
    """A client of the official library that holds the data of all answers, refusals too, against their schema."""

    async def call_tool(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Return what a tool answers."""
        result = await super().call_tool(name, *arguments, **options)
        check_data(name, result.structured_content)
        return result


class Place:
    """A workspace with the servers `odd` and `even`, a home and an environment."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.environment = make_environment(
            self.home,
            PADDOCK_SERVERS_SEMANTIC_SEARCH="off",
            # A computation is to end by itself, however busy the machine is; by default it has a second.
            PADDOCK_LIMITS_COMPUTE_TIMEOUT_MS="60000",
            XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        )
        self.servers({"odd": make_entry("odd"), "even": make_entry("odd")})

    def servers(self, servers: dict[str, Any]) -> None:
        """Write the servers file."""
        write_servers(self.workspace, servers)

    def settings(self, text: str) -> None:
        """Write the settings of the user."""
        file = self.home / ".config/paddock/paddock.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    @asynccontextmanager
    async def client(self, *flags: str, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
        """Connect a client of the official library over stdio."""
        server = StdioServerParameters(
            command=PADDOCK, args=["serve", "mcp", *flags], cwd=self.workspace, env=self.environment
        )
        async with CheckedClient(stdio_client(server), mode=mode, **options) as client:
            yield client

    @asynccontextmanager
    async def web(self, *flags: str, port: int = 0) -> AsyncIterator["Web"]:
        """Start the server over HTTP."""
        process = await asyncio.create_subprocess_exec(
            PADDOCK,
            "serve",
            "mcp",
            "--http",
            f"127.0.0.1:{port}",
            *flags,
            cwd=self.workspace,
            env={**self.environment, "PADDOCK_TOKEN": TOKEN},
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            line = (await asyncio.wait_for(process.stderr.readline(), PATIENCE_S)).decode()
            assert line.startswith("listening on "), line
            yield Web(process, line.removeprefix("listening on ").strip())
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    @asynccontextmanager
    async def lines(self, *flags: str) -> AsyncIterator["Lines"]:
        """Start the server and speak plain lines with it."""
        process = await asyncio.create_subprocess_exec(
            PADDOCK,
            "serve",
            "mcp",
            *flags,
            cwd=self.workspace,
            env=self.environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=64 * 1024 * 1024,
        )
        try:
            yield Lines(process)
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()


class Web:
    """A server over HTTP."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self.process = process
        self.url = url

    @asynccontextmanager
    async def client(self, *, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
        """Connect a client of the official library."""
        async with (
            httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http,
            CheckedClient(streamable_http_client(self.url, http_client=http), mode=mode, **options) as client,
        ):
            yield client


class Lines:
    """A client that sends and receives plain lines, in the era that its requests speak."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._number = 0
        self._called: dict[int, str] = {}

    def send(self, method: str, params: dict[str, Any], *, modern: bool = True) -> int:
        """Send a request and return its id."""
        self._number += 1
        if method == "tools/call":
            self._called[self._number] = str(params.get("name"))
        if modern:
            params = {**params, "_meta": {**MODERN, **params.get("_meta", {})}}
        self.write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def write(self, message: Any) -> None:
        """Write a message, or bytes as they are."""
        self.process.stdin.write(
            message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n"
        )

    async def receive(self) -> dict[str, Any]:
        """Return the next message."""
        return json.loads(await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S))

    async def answer(self, number: int | None) -> dict[str, Any]:
        """Return the answer to a request; notifications before it are passed over."""
        while "method" in (message := await self.receive()) or message["id"] != number:
            pass
        result = message.get("result", {})
        if number in self._called and "content" in result:
            check_data(self._called[number], result.get("structuredContent"))
        return message

    async def ask(self, method: str, params: dict[str, Any], *, modern: bool = True) -> dict[str, Any]:
        """Send a request and return its answer."""
        return await self.answer(self.send(method, params, modern=modern))

    async def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """Return the result of a tool."""
        return (await self.ask("tools/call", {"name": tool, "arguments": arguments}))["result"]

    async def begin(
        self, version: str = "2025-11-25", capabilities: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        """Shake hands as a client of a revision up to 2025-11-25 does."""
        hello = {
            "protocolVersion": version,
            "capabilities": {**capabilities},
            "clientInfo": {"name": "l", "version": "1"},
        }
        await self.ask("initialize", hello, modern=False)
        self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})
