"""`paddock servers login|logout|list`: the person sees an address, nobody ever sees a token."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from tests.integration.engines.servers import authority
from tests.integration.engines.servers.authority import World
from tests.support.command import PADDOCK
from tests.support.processes import PATIENCE_S

from paddock.engines.servers.auth.code_flow import AuthorizationPrompt


class Desk:
    """A person's machine with one servers file."""

    def __init__(self, home: Path, world: World) -> None:
        self.home, self.world = home, world
        self.write({"url": world.url})
        browser = home / "browser"
        browser.write_text(f"#!/bin/sh\ntouch {home / 'opened'}\n")
        browser.chmod(0o755)
        self.environment = {**os.environ, "XDG_STATE_HOME": str(home / "state"), "BROWSER": str(browser)}

    def write(self, entry: dict[str, object]) -> None:
        (self.home / ".mcp.json").write_text(json.dumps({"mcpServers": {"guarded": entry}}))

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [PADDOCK, *arguments, "--set", "vault.backend=file"]
        return subprocess.Popen(
            command,
            cwd=self.home,
            env=self.environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        process = self.start(*arguments)
        out, err = process.communicate(stdin, timeout=PATIENCE_S)
        return process.returncode, out, err

    def log_in(self, *arguments: str) -> tuple[int, str, str]:
        """Log in, opening the address by hand."""
        process = self.start("servers", "login", "guarded", *arguments)
        assert process.stderr is not None
        told = ""
        while not (found := re.search(r"^  (http\S+)$", told, re.MULTILINE)):
            line = process.stderr.readline()
            assert line, told
            told += line
        asyncio.run(authority.agree(AuthorizationPrompt(found[1], "", "")))
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err.strip()

    def secrets(self) -> list[str]:
        known = self.world.authority
        clients = [str(client.client_secret) for client in known.clients.values() if client.client_secret]
        return [*known.access, *known.refresh, *clients]


@pytest.fixture
def desk(tmp_path: Path) -> Generator[Desk]:
    with authority.world() as world:
        yield Desk(tmp_path, world)


def test_log_in_call_and_log_out(desk: Desk) -> None:
    address = desk.world.url
    assert desk.run("servers", "list") == (0, f"guarded\thttp\t{address}\t\n", "")
    code, _, err = desk.run("servers", "call", "guarded", "whisper")
    assert (code, "`paddock servers login guarded`" in err) == (1, True)
    assert desk.log_in() == (0, f"logged in to guarded at {desk.world.issuer}\n", "")
    assert desk.run("servers", "list") == (0, f"guarded\thttp\t{address}\tlogged in\n", "")
    listed = {
        "name": "guarded",
        "transport": "http",
        "address": address,
        "login": "logged in",
        "confine": None,
    }
    assert json.loads(desk.run("servers", "list", "--json")[1]) == [listed]
    assert desk.run("servers", "call", "guarded", "whisper")[:2] == (0, "a word\n")
    assert desk.run("servers", "logout", "guarded") == (0, "", "")
    assert len(desk.world.authority.revoked) == 1
    assert desk.run("servers", "logout", "guarded", "--json") == (
        1,
        '{"server": "guarded", "deleted": false}\n',
        "there is no login at guarded; paddock servers list shows where there is one\n",
    )
    assert not (desk.home / "opened").exists()  # no browser without a terminal


def test_json_and_a_further_scope(desk: Desk) -> None:
    code, out, _ = desk.log_in("--json", "--scope", "notes:read notes:write")
    issuer = desk.world.issuer
    told = {"server": "guarded", "issuer": issuer, "scope": "notes:read notes:write", "renewable": True}
    assert (code, json.loads(out)) == (0, told)


def test_secrets_are_in_no_output_and_no_record(desk: Desk) -> None:
    async def repeat(request: Request) -> Response | None:
        message = json.loads(await request.body())
        if message.get("method") != "tools/call":
            return None
        result = {"content": [{"type": "text", "text": f"you sent {request.headers['authorization']}"}]}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": result})

    said = [*desk.log_in("--json")[1:]]
    desk.world.inner.twists["/mcp"] = repeat
    program = desk.home / "ask.js"
    program.write_text("const a = await servers.guarded.whisper(); console.log(a); return a")
    for command in (
        ["run", "ask.js"],
        ["run", "ask.js", "--json"],
        ["servers", "call", "guarded", "whisper"],
    ):
        code, out, err = desk.run(*command)
        assert (code, "you sent Bearer [REDACTED:server]" in out) == (0, True)
        said += [out, err]
    said += desk.run("servers", "list", "--json")[1:]
    files = [Path(folder, name) for folder, _, names in os.walk(desk.home) for name in names]
    said += [file.read_bytes().decode("latin-1") for file in files]
    assert len(desk.secrets()) == 3
    assert [secret for secret in desk.secrets() if any(secret in text for text in said)] == []


def test_scripts_cannot_name_logins(desk: Desk) -> None:
    assert desk.log_in()[0] == 0
    program = desk.home / "steal.js"
    index = next((desk.home / "state").glob("**/logins.json"))
    name, scope = next(iter(json.loads(index.read_text()))), index.parent.name
    program.write_text(
        f"return [{scope!r}, 'logins', '../logins'].map(scope => {{ try {{ "
        f"return paddock.vault.get({name!r}, {{scope}}) }} catch (e) {{ return null }} }})"
    )
    assert json.loads(desk.run("run", "steal.js", "--json")[1])["value"] == [None, None, None]


CREDENTIALS = "guarded has its credentials in its entry; remove `Authorization` from `headers`, or the name from `url`, to log in"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (
            {"command": "true"},
            "guarded is a process of this machine; it takes its credentials from `env` of its entry",
        ),
        (
            {"url": "http://127.0.0.1:9/mcp", "headers": {"Authorization": "Bearer x"}},
            CREDENTIALS,
        ),
        ({"url": "http://bob:tok-1234@127.0.0.1:9/mcp"}, CREDENTIALS),
    ],
)
def test_servers_without_logins(desk: Desk, entry: dict[str, object], why: str) -> None:
    desk.write(entry)
    assert desk.run("servers", "login", "guarded") == (1, "", f"{why}\n")


def test_an_unknown_server(desk: Desk) -> None:
    assert desk.run("servers", "login", "other") == (
        1,
        "",
        "there is no server other; paddock servers list shows the servers\n",
    )
