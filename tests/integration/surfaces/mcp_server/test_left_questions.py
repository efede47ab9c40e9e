"""Clients that leave a question behind and go: others can be asked at once, and run programs."""

import asyncio
from typing import Any

import httpx2
import pytest
from tests.support.mcp_server import AUTHORIZED, MODERN, Place, Web
from tests.support.processes import PATIENCE_S, running_workers

from .test_http import ACCEPT, HELLO, modern
from .test_waiting import approve

SETTINGS = """
[guest]
max_workers = 1

[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
"""
ECHO = {"name": "execute_code", "arguments": {"code": "return await servers.odd.echo({text: 'hi'})"}}
FREE = {"name": "execute_code", "arguments": {"code": "return 1"}}
FORM = {"elicitation": {"form": {}}}


async def opened(http: httpx2.AsyncClient, web: Web, capabilities: dict[str, Any]) -> dict[str, str]:
    """Open a session of a client with capabilities; return the headers of its requests."""
    hello = {**HELLO, "capabilities": capabilities}
    begun = await http.post(
        web.url, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}, headers=ACCEPT
    )
    headers = {
        **ACCEPT,
        "Mcp-Session-Id": begun.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    await http.post(web.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


async def asked(http: httpx2.AsyncClient, web: Web, session: dict[str, str]) -> None:
    """Call what asks, and leave as soon as the question has come."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": ECHO}
    async with http.stream("POST", web.url, json=body, headers=session) as response:
        async for line in response.aiter_lines():
            if "elicitation/create" in line or '"waiting"' in line:
                return
    raise AssertionError("no question came")


async def value_of_another_program(http: httpx2.AsyncClient, web: Web) -> Any:
    headers, body = modern("tools/call", FREE)
    answer = await http.post(web.url, headers=headers, json=body)
    return answer.json()["result"]["structuredContent"]["value"]


async def questions(place: Place) -> int:
    return len((await approve(place))[0].splitlines())


@pytest.mark.parametrize("capabilities", [FORM, {}], ids=["asks", "cannot ask"])
def test_sessions_that_were_left_keep_nobody_from_being_asked(
    place: Place, capabilities: dict[str, Any]
) -> None:
    place.settings(SETTINGS)

    async def main() -> None:
        async with place.web() as web:
            sessions: list[dict[str, str]] = []
            for _ in range(6):
                async with httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
                    sessions.append(await opened(http, web, capabilities))
                    await asked(http, web, sessions[-1])
            async with httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
                assert await value_of_another_program(http, web) == 1
                if capabilities:
                    async with asyncio.timeout(60):
                        while running_workers(web.process.pid):  # noqa: ASYNC110 - they are other processes
                            await asyncio.sleep(0)
                else:
                    assert await questions(place) == 6
                    assert (await http.delete(web.url, headers=sessions[0])).status_code == 200
                    async with asyncio.timeout(60):
                        while await questions(place) != 5:
                            pass

    asyncio.run(main())


def test_connections_that_were_left_keep_nobody_from_being_asked(place: Place) -> None:
    place.settings(SETTINGS)
    eliciting = {**MODERN, "io.modelcontextprotocol/clientCapabilities": FORM}

    async def main() -> None:
        async with place.web() as web:
            for _ in range(6):
                async with httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
                    headers, body = modern("tools/call", {**ECHO, "_meta": eliciting})
                    result = (await http.post(web.url, headers=headers, json=body)).json()["result"]
                    assert result["resultType"] == "input_required"
            async with httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
                answer = {"action": "accept", "content": {"allow": "once"}}
                more = {"requestState": result["requestState"], "inputResponses": {"approval": answer}}
                body["params"] |= more
                result = (await http.post(web.url, headers=headers, json=body)).json()["result"]
                assert result["structuredContent"]["value"] == "hi"
                assert await value_of_another_program(http, web) == 1

    asyncio.run(main())
