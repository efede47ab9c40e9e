"""The MCP Inspector's command line, a client that others wrote: it lists and calls every tool, over stdio and HTTP."""

import asyncio
import json
import subprocess
from typing import Any

import pytest

from . import npm
from .conftest import PADDOCK, TOKEN, Place

CALLS: dict[str, dict[str, Any]] = {
    "execute_code": {"code": "return await servers.odd.echo({text: 'hi'})"},
    "call_tool": {"server": "odd", "tool": "echo", "args": {"text": "hi"}},
    "search_tools": {"query": "again"},
    "describe_tools": {"names": ["odd.echo"]},
}


@pytest.fixture(scope="session")
def inspector() -> list[str]:
    modules = npm.installed()
    launcher = modules / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
    return [npm.node(modules), str(launcher), "--cli"]


def ask(inspector: list[str], place: Place, target: list[str], *what: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*inspector, *target, *what],
        cwd=place.workspace,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def lists_and_calls_everything(inspector: list[str], place: Place, target: list[str]) -> None:
    code, output, errors = ask(inspector, place, target, "--method", "tools/list", "--strict")
    assert (code, errors) == (0, "")
    assert {tool["name"] for tool in json.loads(output)["tools"]} == set(CALLS)
    for name, arguments in CALLS.items():
        given = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in arguments.items()
        ]
        code, output, errors = ask(
            inspector, place, target, "--method", "tools/call", "--tool-name", name, "--tool-arg", *given
        )
        assert (name, code, json.loads(output).get("isError", False)) == (name, 0, False), errors


def test_the_inspector_over_stdio(inspector: list[str], place: Place) -> None:
    lists_and_calls_everything(inspector, place, [PADDOCK, "serve", "mcp"])


def test_the_inspector_over_http(inspector: list[str], place: Place) -> None:
    async def main() -> None:
        async with place.web() as web:
            target = [web.url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
            await asyncio.to_thread(lists_and_calls_everything, inspector, place, target)

    asyncio.run(main())
