"""Paddock's client of upstream servers, driven by the official conformance suite: `conformance_client.py SOCKET`.

The suite starts `conformance_call.py` for each scenario, which has a fork of this process do it: one that starts costs
more than a scenario.

It does what programs do: lists the tools of a server and calls them. The suite tells in the environment what it wants
to be called. Where a call says that a person must log in, it does what a person does: logs in, with the scope that the
error names, and calls again, a few times. Whatever the suite's authorization server shows is agreed to.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import httpx2
import mcp.client.session

from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.servers.auth import guarded_http
from paddock.engines.servers.auth.client_config import OAuth
from paddock.engines.servers.auth.code_flow import AuthorizationPrompt, log_in
from paddock.engines.servers.calls.hub import Hub
from paddock.engines.servers.config import HttpServer
from paddock.engines.servers.person import PERSON, ServerForm
from paddock.model.errors import PaddockError, ServerError, ServerUnauthorized
from paddock.policy.settings.schema import Settings

T = TypeVar("T")

CALLS: dict[str, dict[str, Any]] = {"add_numbers": {"a": 5, "b": 3}}
DOCUMENT = "https://conformance-test.local/client-metadata.json"
LOGINS = 3
HOUR_S = 3600
"""Time for each answer: the suite runs all scenarios at once, on a machine that may be busy."""
MOST = 64 * 1024


async def agree(visit: AuthorizationPrompt) -> None:
    """Open the address, as a browser of a person who says yes."""
    async with httpx2.AsyncClient(follow_redirects=True, timeout=HOUR_S) as browser:
        await browser.get(visit.url)


async def accept(_form: ServerForm) -> Literal["accept"]:
    """Agree to what a form holds by itself."""
    return "accept"


class Client:
    def __init__(self, hub: Hub, server: HttpServer, logins: KeptLogins) -> None:
        self.hub, self.server, self.logins = hub, server, logins

    async def tools(self) -> set[str]:
        return {tool.name for tool in await self._with_logins(lambda: self.hub.list_tools("suite"))}

    async def call(self, name: str, arguments: dict[str, Any]) -> None:
        try:
            await self._with_logins(lambda: self.hub.call_tool("suite", name, arguments))
        except ServerError as error:
            sys.stderr.write(f"{name}: {error}\n")

    async def _with_logins(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do something, logging in as often as a patient person would."""
        keeper = self.logins.find_keeper(self.server)
        for _ in range(LOGINS):
            try:
                return await do()
            except ServerUnauthorized as error:
                sys.stderr.write(f"{error}\n")
                found = re.search(r"--scope '([^']*)'", str(error))
            with contextlib.suppress(ServerUnauthorized):  # the server changed its mind meanwhile
                await log_in(self.server, keeper, agree, scope=found[1] if found else "")
        return await do()


async def main(url: str, home: Path) -> None:
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    known = {name: context[name] for name in ("client_id", "client_secret", "issuer") if name in context}
    document = DOCUMENT if os.environ["MCP_CONFORMANCE_SCENARIO"] == "auth/basic-cimd" else ""
    oauth = OAuth(**known, client_metadata_url=document)
    server = HttpServer("suite", url, oauth=oauth, questions=True, timeout_ms=1000 * HOUR_S)
    PERSON.set(accept)
    settings = Settings.model_validate(
        {"vault": {"backend": "file", "directory": home / "vault"}, "servers": {"state": home}}
    )
    logins = KeptLogins(settings, home / ".mcp.json")
    async with Hub({"suite": server}, environment={}, logins=logins) as hub:
        client = Client(hub, server, logins)
        listed = await client.tools()
        asked = [(each["name"], each.get("arguments", {})) for each in context.get("toolCalls", [])]
        for name, arguments in asked or [(name, CALLS.get(name, {})) for name in sorted(listed)]:
            await client.call(name, arguments)


def scenario(asked: dict[str, Any], files: list[int]) -> int:
    """Be the client of one scenario, with the environment and the standard streams of who asked; return an exit code."""
    os.environ.clear()
    os.environ.update(asked["environment"])
    for number, file in enumerate(files):
        os.dup2(file, number)
    with tempfile.TemporaryDirectory() as directory:
        try:
            asyncio.run(main(asked["url"], Path(directory)))
        except PaddockError as error:
            sys.stderr.write(f"{type(error).__name__}: {error}\n")
            return 1
        finally:
            sys.stderr.flush()
    return 0


def serve(listening: socket.socket) -> None:
    """Have a fork do what each connection asks for, and tell it the exit code; a fork that dies tells nothing."""
    while True:
        connection, _ = listening.accept()
        if os.fork():
            connection.close()
            continue
        code = 1
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            text, files, _, _ = socket.recv_fds(connection, MOST, 3)
            code = scenario(json.loads(text), files)
        except BaseException:  # noqa: BLE001 - a fork may not go on as another server
            traceback.print_exc()
        finally:
            connection.send(str(code).encode())
            os._exit(code)


if __name__ == "__main__":
    # After these a client takes a server for one of the revision before, or for one that is away.
    mcp.client.session.DISCOVER_TIMEOUT_SECONDS = HOUR_S
    guarded_http.TIMEOUT_S = HOUR_S
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen(128)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        serve(listener)
