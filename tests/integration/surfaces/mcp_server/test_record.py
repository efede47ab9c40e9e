"""Recordings: agents may ask for one where the owner lets them, and do not hear of it elsewhere."""

import asyncio
import json
from typing import Any

from tests.support.command import run_paddock
from tests.support.mcp_server import Place


def ask(place: Place, **arguments: Any) -> tuple[dict[str, Any], Any]:
    async def main() -> tuple[dict[str, Any], Any]:
        async with place.client() as client:
            tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
            return tools["execute_code"]["properties"], await client.call_tool("execute_code", arguments)

    return asyncio.run(main())


def test_an_agent_asks_for_a_recording_that_its_owner_repeats(place: Place) -> None:
    place.settings('[record]\npayloads = "asked"\n')
    properties, answer = ask(place, code="return servers.odd.echo({ text: 'a' })", record=True)
    assert properties["record"] == {"type": "boolean", "description": "keep for replay by a person"}
    assert not answer.is_error
    tail = run_paddock(
        place.workspace, "audit", "tail", "--event", "finished", "--json", environment=place.environment
    )
    [end] = [each for each in json.loads(tail.stdout) if "recording_sha256" in each["fields"]]
    run, actor = end["request"], end["fields"]["actor"]
    refused = run_paddock(place.workspace, "replay", run, environment=place.environment)
    assert refused.returncode == 1
    assert "is of another actor; at the command line, name it: --actor NAME" in refused.stderr
    same = run_paddock(place.workspace, "replay", run, "--actor", actor, environment=place.environment)
    assert (same.returncode, same.stdout) == (0, "same: 1 call, 0 lines on the console\n")


def test_where_recordings_are_off_there_is_no_such_argument(place: Place) -> None:
    properties, _ = ask(place, code="return 1")
    assert "record" not in properties
