"""Progress of a call of an upstream server for our client: sent if its call has a token."""

import asyncio
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, Place
from tests.support.servers import make_entry

WORK = {"times": 3, "message": "compiling"}


@pytest.mark.parametrize("mode", ERAS)
def test_progress_of_a_server_reaches_the_client_of_a_call(place: Place, mode: str) -> None:
    place.servers({"lib": make_entry("library")})

    async def main() -> tuple[Any, list[str], Any, list[str], Any]:
        direct: list[str] = []
        nested: list[str] = []

        async def on_direct(_progress: float, _total: float | None, message: str | None) -> None:
            direct.append(message or "")

        async def on_nested(_progress: float, _total: float | None, message: str | None) -> None:
            nested.append(message or "")

        code = f"return servers.lib.work({{times: 3, message: '{WORK['message']}'}})"
        async with place.client(mode=mode) as client:
            call = {"server": "lib", "tool": "work", "args": WORK}
            one = await client.call_tool("call_tool", call, progress_callback=on_direct)
            two = await client.call_tool("execute_code", {"code": code}, progress_callback=on_nested)
            silent = await client.call_tool("call_tool", call)
        return one.content[0].text, direct, two.structured_content["value"], nested, silent.content[0].text

    one, direct, two, nested, silent = asyncio.run(main())
    assert (one, two, silent) == ("token: True", "token: True", "token: False")
    assert direct[0] == nested[0] == "lib.work: 1 of 3: compiling"
