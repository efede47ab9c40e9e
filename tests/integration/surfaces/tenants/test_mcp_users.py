"""MCP clients of a server's users: they take turns like all others, and do not answer their own questions."""

import asyncio
from typing import Any

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.support.http_api import ApiClient, ApiPlace, ApiServer
from tests.support.mcp_server import ERAS
from tests.support.processes import PATIENCE_S

ASKS = '[[policy.rule]]\neffect = "ask"\ntool = "odd/echo"\nreason = "echoes carry far"\n'
ONE_SLOT = "[serve]\nmax_jobs = 1\n[runtimes]\nmax_wait_ms = 500\ntimeout_ms = 600_000\n"
ECHO = {"code": "return await servers.odd.echo({text: 'over mcp'})"}


class Asked:
    """The forms that a client was shown; it would accept each of them."""

    def __init__(self) -> None:
        self.forms: list[Any] = []

    async def answer(self, _context: Any, params: Any) -> types.ElicitResult:
        self.forms.append(params)
        return types.ElicitResult(action="accept", content={"allow": "once"})


def http_client(token: str) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)


@pytest.mark.parametrize("mode", ERAS)
def test_a_client_that_can_ask_its_user_is_not_asked(place: ApiPlace, mode: str) -> None:
    place.settings(ASKS)
    alice, boss = place.make_token("alice"), place.make_token("boss", "--approve")
    asked = Asked()

    async def main(server: ApiServer, approver: ApiClient) -> tuple[Any, Any]:
        async with (
            http_client(alice) as http,
            Client(
                streamable_http_client(f"{server.url}/mcp", http_client=http),
                mode=mode,
                elicitation_callback=asked.answer,
            ) as client,
        ):
            waiting = (await client.call_tool("execute_code", ECHO)).structured_content
            assert waiting is not None
            [seen] = (await asyncio.to_thread(approver.get, "/v1/approvals")).json()["approvals"]
            path = f"/v1/approvals/{seen['question']['id']}"
            await asyncio.to_thread(lambda: approver.post(path, json={"verdict": "once"}))
            fetched = await client.call_tool("query_output", {"artifact_handle": waiting["run"]})
            return waiting, fetched.structured_content

    with place.serve() as server, server.client(boss) as approver:
        waiting, fetched = asyncio.run(main(server, approver))
    assert (waiting["status"], asked.forms) == ("waiting", [])
    assert f"POST /v1/approvals/{waiting['command'].removeprefix('paddock approve ')}" in waiting["message"]
    assert (fetched["status"], fetched["result"]["value"]) == ("ok", "over mcp")


@pytest.mark.parametrize("mode", ERAS)
def test_calls_wait_for_a_slot_of_the_server(place: ApiPlace, mode: str) -> None:
    place.settings(ONE_SLOT)
    alice, bob = place.make_token("alice"), place.make_token("bob")

    async def call(server: ApiServer) -> Any:
        async with (
            http_client(bob) as http,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
        ):
            return (await client.call_tool("execute_code", {"code": "return 42"})).structured_content

    with place.serve() as server, server.client(alice) as api:
        with api.events(
            language="python", code="print('begun', flush=True); import time; time.sleep(600)"
        ) as events:
            _, started = next(events)
            while next(events)[0] != "output":
                pass
            busy = asyncio.run(call(server))
        api.wait_for_end(started["id"])  # until then it has the slot
        free = asyncio.run(call(server))
    assert (busy["status"], busy["error"]["name"], busy["error"]["message"]) == (
        "unavailable",
        "Busy",
        "no slot became free within 500 ms. Nothing started; it is safe to retry.",
    )
    assert (free["status"], free["value"]) == ("ok", 42)


def test_tokens_of_one_user_have_servers_of_their_own(place: ApiPlace) -> None:
    tokens = [place.make_token(name, "--actor", "alice") for name in ("laptop", "phone")]

    async def call_in_turns(server: ApiServer) -> list[Any]:
        values: list[Any] = []
        async with (
            http_client(tokens[0]) as first,
            http_client(tokens[1]) as second,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=first), mode="legacy") as laptop,
            Client(streamable_http_client(f"{server.url}/mcp", http_client=second), mode="legacy") as phone,
        ):
            for client in (laptop, phone, laptop, phone):
                result = await client.call_tool("execute_code", {"code": "return 42"})
                values.append((result.structured_content or {})["value"])
        return values

    with place.serve() as server:
        assert asyncio.run(call_in_turns(server)) == [42] * 4
