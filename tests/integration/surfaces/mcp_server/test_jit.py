"""Just-in-time compilation: agents may ask for it where it is granted, and do not hear of it elsewhere."""

import asyncio
from typing import Any

from tests.support.mcp_server import Place

LOOP = "let n = 0; for (let i = 0; i < 1e6; i++) n += i; return n"


def asked(place: Place, *calls: tuple[str, dict[str, Any]]) -> tuple[dict[str, Any], list[Any]]:
    async def main() -> tuple[dict[str, Any], list[Any]]:
        async with place.client() as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            return tools, [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(main())


def test_without_the_grant_there_is_no_such_argument(place: Place) -> None:
    tools, (refused,) = asked(place, ("compute", {"source": "emit(1)", "limits": {"jit": True}}))
    assert "jit" not in tools["execute_code"]["properties"]
    assert "jit" not in tools["compute"]["properties"]["limits"]["properties"]
    assert refused.is_error
    assert refused.content[0].text == (
        "invalid: `limits.jit` is unknown; known: timeout_ms, output_bytes, deterministic, partial"
    )


def test_with_the_grant_agents_may_ask(place: Place) -> None:
    place.settings("[grants]\njit = true\n")
    tools, answers = asked(
        place,
        ("execute_code", {"code": LOOP, "jit": True}),
        ("execute_code", {"code": LOOP}),
        ("compute", {"source": "emit(6 * 7)", "limits": {"jit": True}}),
    )
    jit = {"type": "boolean", "description": "compile: for long calculations"}
    assert tools["execute_code"]["properties"]["jit"] == jit
    assert tools["compute"]["properties"]["limits"]["properties"]["jit"] == {"type": "boolean"}
    assert [answer.structured_content.get("value") for answer in answers[:2]] == [499999500000] * 2
    assert answers[2].structured_content == {"status": "ok", "output": "42"}
