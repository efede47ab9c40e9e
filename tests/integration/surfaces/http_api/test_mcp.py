"""MCP at `/mcp` of the same port: the same callers, each with a server of its own."""

import asyncio

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from tests.support.http_api import TOKEN, ApiPlace, read_problem
from tests.support.mcp_server import ERAS
from tests.support.processes import PATIENCE_S


async def call(url: str, token: str, mode: str) -> object:
    """Return the value of a program that runs over MCP."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode) as client,
    ):
        code = "return await servers.odd.echo({text: 'over mcp'})"
        result = await client.call_tool("execute_code", {"code": code})
        assert result.structured_content is not None
        return result.structured_content["value"]


@pytest.mark.parametrize("mode", ERAS)
def test_callers_have_mcp_and_are_recorded_by_their_token(place: ApiPlace, mode: str) -> None:
    alice = place.make_token("alice")
    with place.serve() as server:
        url = f"{server.url}/mcp"
        values = [asyncio.run(call(url, token, mode)) for token in (TOKEN, alice, alice)]
        server.stop()
        assert server.wait() == 0
    assert values == ["over mcp"] * 3
    records = place.paddock("audit", "tail", "-n", "100", "--event", "finished", "--json")
    actors = {
        (each["fields"]["actor"], each["fields"]["surface"]) for each in records if each["parent"] is None
    }
    assert actors == {("http", "mcp"), ("token:alice", "mcp")}


def test_mcp_and_the_api_share_names_and_limits(place: ApiPlace) -> None:
    with place.serve("--allowed-host", "paddock.test") as server, server.client() as api:
        hosts = {"Host": "paddock.test"}
        assert api.get("/v1/server", headers=hosts).status_code == 200
        assert read_problem(api.post("/mcp", headers={"Host": "evil.test"}))[:2] == (421, "wrong-host")
        assert api.post("/mcp", headers=hosts, content=b"{}").status_code == 400


def test_a_key_of_a_call_is_refused_where_no_replica_shares_it(place: ApiPlace) -> None:
    async def call_with(url: str, key: object) -> object:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            try:
                result = await client.call_tool(
                    "execute_code", {"code": "return 1"}, meta={"paddock/key": key}
                )
            except MCPError as error:
                return str(error)
            assert result.structured_content is not None
            error = result.structured_content["error"]
            return result.structured_content["status"], error["name"], error["message"]

    with place.serve() as server:
        assert asyncio.run(call_with(f"{server.url}/mcp", "k")) == (
            "invalid",
            "NoCluster",
            "the request has a key, and this Paddock shares no database in which keys are claimed",
        )
        assert asyncio.run(call_with(f"{server.url}/mcp", "a b")) == (
            "`paddock/key` is 1 to 255 printable ASCII characters without spaces. "
            "Send a new random one, such as a UUID, for each new call."
        )
