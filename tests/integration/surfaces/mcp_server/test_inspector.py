"""The MCP Inspector's command line, a client that others wrote: it lists all tools, and calls every one over HTTP.

Over stdio each call is a start of the Inspector and of the server. There, it calls one tool of each kind of answer.
"""

import asyncio
import json
import subprocess
from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.command import PADDOCK
from tests.support.mcp_server import TOKEN, Place
from tests.support.processes import PATIENCE_S

from paddock.engines.script_tools.authoring import create

from . import npm

CALLS: dict[str, dict[str, Any]] = {
    "execute_code": {"code": "return await servers.odd.echo({text: 'hi'})"},
    "call_tool": {"server": "odd", "tool": "echo", "args": {"text": "hi"}},
    "compute": {"source": "emit(read_input())", "input": "hi"},
    "search_tools": {"query": "again"},
    "describe_tools": {"names": ["odd.echo"]},
    "provision_server": {"intent": "say it again"},
    "run_program": {"runtime": "perl", "code": "print 6 * 7", "outputMode": "summary"},
    "word_count": {"text": "a few more words"},
    "query_output": {"artifactHandle": "of run_program", "queryTerms": ["42"]},
}
OVER_STDIO = ("execute_code", "run_program", "word_count")
"""A value, a report with an artifact, and the text of a script tool."""


@pytest.fixture(scope="session")
def inspector(npm_modules: npm.Modules) -> list[str]:
    modules = npm_modules("clients")
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
        timeout=PATIENCE_S,
    )
    return done.returncode, done.stdout, done.stderr


def list_and_call(inspector: list[str], place: Place, target: list[str], tools: Iterable[str]) -> None:
    create(place.workspace / ".paddock/tools", "word_count", "python")
    code, output, errors = ask(inspector, place, target, "--method", "tools/list", "--strict")
    assert (code, errors) == (0, "")
    assert {tool["name"] for tool in json.loads(output)["tools"]} == set(CALLS)
    handle = ""
    for name in tools:
        arguments = {**CALLS[name], **({"artifactHandle": handle} if name == "query_output" else {})}
        given = [
            f"{key}={value if isinstance(value, str) else json.dumps(value)}"
            for key, value in arguments.items()
        ]
        code, output, errors = ask(
            inspector, place, target, "--method", "tools/call", "--tool-name", name, "--tool-arg", *given
        )
        assert (name, code) == (name, 0), errors + output
        result = json.loads(output)
        assert (name, result.get("isError", False)) == (name, False), errors + output
        if name == "run_program":
            handle = result["structuredContent"]["artifactHandle"]
            assert result["content"][0]["text"].endswith("--- stdout\n42")


def test_the_inspector_over_stdio(inspector: list[str], place: Place) -> None:
    list_and_call(inspector, place, [PADDOCK, "serve", "mcp"], OVER_STDIO)


def test_the_inspector_over_http(inspector: list[str], place: Place) -> None:
    async def main() -> None:
        async with place.web() as web:
            target = [web.url, "--transport", "http", "--header", f"Authorization: Bearer {TOKEN}"]
            await asyncio.to_thread(list_and_call, inspector, place, target, CALLS)

    asyncio.run(main())
