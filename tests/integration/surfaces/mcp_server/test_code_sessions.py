"""`execute_code` in a session: the answer has the handle, and the next call finds what the last one left."""

import asyncio
from typing import Any

import pytest
from tests.support.mcp_server import ERAS, Place


@pytest.mark.parametrize("era", ERAS)
def test_variables_stay_from_one_call_to_the_next(place: Place, era: str) -> None:
    async def main() -> None:
        async with place.client(mode=era) as client:

            async def run(**arguments: Any) -> Any:
                return await client.call_tool("execute_code", arguments)

            opened = await run(code="const n: number = 40; const add = (m: number) => n + m", session="new")
            session = opened.structured_content["session"]
            assert (session["state"], session["number"], session["expires_in_s"]) == ("kept", 1, 900.0)
            handle = session["id"]
            assert (
                opened.content[0].text.split("\n")[1]
                == f"session {handle}: kept, expires in 900 s without use"
            )
            value = await run(code="add(input)", input=2, session=handle)
            assert value.structured_content["value"] == 42
            changed = await run(code="n = 1", session=handle)
            assert changed.structured_content["error"]["name"] == "TypeError"
            plain = await run(code="typeof add", session=None)
            assert plain.structured_content["value"] == "undefined"
            assert "session" not in plain.structured_content
            limited = await run(code="for (;;);", timeout_ms=100, session=handle)
            assert limited.structured_content["status"] == "timeout"

    asyncio.run(main())


def test_a_handle_that_is_none_is_refused(place: Place) -> None:
    async def main() -> None:
        async with place.client(mode="auto") as client:
            texts = []
            for handle in ("old", "s_" + "0" * 32):
                refused = await client.call_tool("execute_code", {"code": "1", "session": handle})
                assert refused.is_error
                texts.append(refused.content[0].text)
            assert texts[0] == (
                'invalid\nexecute_code: `session`: it is not the handle of a session; give "new", '
                'or a handle from an answer ("s_...")'
            )
            assert "there is no such session, or it belongs to another caller" in texts[1]

    asyncio.run(main())
