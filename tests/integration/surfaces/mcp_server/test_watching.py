"""Clients that watch resources are told when a saved script was written anew, came or went."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tests.support.mcp_server import AUTHORIZED, Lines, Place
from tests.support.processes import PATIENCE_S

from paddock.engines.script_tools.authoring import create
from paddock.surfaces.mcp_server import resources
from paddock.surfaces.mcp_server.list_changes import MAX_CLIENTS

from .test_http import shaken_hands
from .test_script_tools import CHANGED, FOLDER

UPDATED = "notifications/resources/updated"
LISTED = "notifications/resources/list_changed"
REPORT = "paddock://scripts/report"


def write(workspace: Path, name: str, source: str) -> None:
    folder = workspace / ".paddock/scripts"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.js").write_text(source)


async def source(lines: Lines, *, modern: bool) -> str:
    read = await lines.ask("resources/read", {"uri": REPORT}, modern=modern)
    return read["result"]["contents"][0]["text"]


def test_a_session_is_told_of_what_it_watches(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            hello = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "l", "version": "1"},
            }
            answer = await lines.ask("initialize", hello, modern=False)
            assert answer["result"]["capabilities"]["resources"] == {"subscribe": True, "listChanged": False}
            for uri in (REPORT, "paddock://scripts/other", "paddock://guide"):
                asked = await lines.ask("resources/subscribe", {"uri": uri}, modern=False)
                assert asked["result"] == {}
            write(place.workspace, "report", "return 1")
            updated = {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": REPORT}}
            assert await lines.receive() == updated
            assert await source(lines, modern=False) == "return 1"
            write(place.workspace, "report", "return 'longer'")
            assert await lines.receive() == updated
            assert await source(lines, modern=False) == "return 'longer'"
            gone = await lines.ask("resources/unsubscribe", {"uri": REPORT}, modern=False)
            assert gone["result"] == {}
            write(place.workspace, "report", "return 'unheard'")
            write(place.workspace, "other", "return 2")
            told = await lines.receive()
            assert told["params"] == {"uri": "paddock://scripts/other"}

    asyncio.run(main())


def test_who_listens_is_told_of_changes_and_of_new_ones(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            wanted = {"resourceSubscriptions": [REPORT], "resourcesListChanged": True}
            stream = lines.send("subscriptions/listen", {"notifications": wanted})
            assert (await lines.receive())["method"] == "notifications/subscriptions/acknowledged"
            write(place.workspace, "report", "return 1")
            meta = {"io.modelcontextprotocol/subscriptionId": stream}
            assert await lines.receive() == {
                "jsonrpc": "2.0",
                "method": UPDATED,
                "params": {"uri": REPORT, "_meta": meta},
            }
            assert await lines.receive() == {"jsonrpc": "2.0", "method": LISTED, "params": {"_meta": meta}}
            write(place.workspace, "report", "return 'longer'")
            assert (await lines.receive())["method"] == UPDATED
            assert await source(lines, modern=True) == "return 'longer'"

    asyncio.run(main())


def test_a_change_between_the_start_and_the_first_look_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "POLL_INTERVAL_S", 0)

    async def main() -> None:
        scripts = resources.SavedScripts(tmp_path)
        known = await scripts.read_versions()
        write(tmp_path, "report", "return 1")
        assert await anext(scripts.watch_changes(known)) == ({REPORT}, True)

    asyncio.run(main())


def test_what_one_client_watches_is_bounded(place: Place) -> None:
    async def main() -> None:
        async with place.lines() as lines:
            await lines.begin()

            async def watch(uri: str) -> dict[str, Any]:
                return await lines.ask("resources/subscribe", {"uri": uri}, modern=False)

            text = "a client watches 100 resources at most, with 4096 characters each"
            assert (await watch("x" * 5000))["error"] == {"code": -32602, "message": text}
            answers = [await watch(f"paddock://scripts/{number}") for number in range(101)]
            assert [answer.get("result") for answer in answers[:100]] == [{}] * 100
            assert answers[100]["error"] == {"code": -32602, "message": text}

    asyncio.run(main())


def test_a_session_is_told_of_changes_however_many_others_came_and_went(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:

            async def ask(headers: dict[str, str], method: str, params: dict[str, Any]) -> str:
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                return (await http.post(web.url, headers=headers, json=body)).text

            async def begun() -> dict[str, str]:
                headers = await shaken_hands(http, web.url)
                await ask(headers, "resources/subscribe", {"uri": REPORT})
                await ask(headers, "logging/setLevel", {"level": "debug"})
                return headers

            stays = await begun()
            await ask(stays, "tools/list", {})
            async with http.stream("GET", web.url, headers=stays) as stream, asyncio.timeout(PATIENCE_S):
                for _ in range(MAX_CLIENTS):
                    assert (await http.delete(web.url, headers=await begun())).status_code == 200
                call = {"name": "execute_code", "arguments": {"code": "console.log('hi')"}}
                assert "notifications/message" in await ask(stays, "tools/call", call)
                write(place.workspace, "report", "return 1")
                create(place.workspace / FOLDER, "word_count", "python")
                wanted = {UPDATED, CHANGED}
                async for line in stream.aiter_lines():
                    wanted -= {each for each in wanted if each in line}
                    if not wanted:
                        break

    asyncio.run(main())
