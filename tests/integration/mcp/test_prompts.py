"""Prompts and the completion of their arguments."""

import asyncio
from typing import Any

import pytest
from mcp import MCPError
from mcp_types import PromptReference

from .conftest import ERAS, Place


@pytest.mark.parametrize("mode", ERAS)
def test_the_guide_and_the_scripts(place: Place, mode: str) -> None:
    scripts = place.workspace / ".paddock/scripts"
    scripts.mkdir(parents=True)
    (scripts / "report.ts").write_text("return 'of ' + 'ghp_' + 'x'")
    (scripts / "leaky.js").write_text(f"return 'ghp_{'a' * 36}'")

    async def main() -> dict[str, Any]:
        async with place.client(mode=mode) as client:
            ref = PromptReference(name="run-script")
            with pytest.raises(MCPError) as refused:
                await client.get_prompt("run-script", {"name": "nothing"})
            return {
                "listed": [prompt.name for prompt in (await client.list_prompts()).prompts],
                "guide": await client.get_prompt("write-program", {"server": "odd"}),
                "script": await client.get_prompt("run-script", {"name": "report"}),
                "leaky": await client.get_prompt("run-script", {"name": "leaky"}),
                "servers": (await client.complete(ref, {"name": "server", "value": "o"})).completion.values,
                "scripts": (await client.complete(ref, {"name": "name", "value": ""})).completion.values,
                "refused": str(refused.value),
            }

    seen = asyncio.run(main())
    assert seen["listed"] == ["write-program", "run-script"]
    guide = seen["guide"].messages[0].content.text
    assert guide.startswith("# Programs for execute_code\n")
    assert "\n## Tools of odd\n\nodd.echo() // Say it again\nodd.pid()\n" in guide
    assert seen["script"].messages[0].content.text == (
        "Run this program with execute_code and tell me what it returns.\n\n```ts\nreturn 'of ' + 'ghp_' + 'x'\n```\n"
    )
    assert "[REDACTED:KEY]" in seen["leaky"].messages[0].content.text
    assert (seen["servers"], seen["scripts"]) == (["odd"], ["leaky", "report"])
    assert seen["refused"] == "there is no script nothing; there are leaky, report"
