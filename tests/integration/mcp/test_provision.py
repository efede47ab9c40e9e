"""`provision_server` tells what there is and could be had; what changes it is for a person to do."""

import asyncio
import json
from typing import Any

import pytest

from .conftest import ERAS, Place


def registry(place: Place) -> None:
    def offered(name: str) -> dict[str, Any]:
        package = {
            "registryType": "npm",
            "identifier": name,
            "version": "1.2.3",
            "transport": {"type": "stdio"},
        }
        return {"server": {"name": name, "description": "weather forecasts", "packages": [package]}}

    listed = {"servers": [offered("@good/weather"), offered("@bad/weather")]}
    state, config = place.home / ".local/state/paddock/servers", place.home / ".config/paddock"
    state.mkdir(parents=True)
    config.mkdir(parents=True)
    (state / "registry.json").write_text(json.dumps(listed))
    (config / "trusted-servers.json").write_text('["@good/*"]')


@pytest.mark.parametrize("mode", ERAS)
def test_what_there_is_and_could_be_had(place: Place, mode: str) -> None:
    registry(place)

    async def main() -> None:
        async with place.client(mode=mode) as client:

            async def provision(**arguments: str) -> tuple[bool, dict[str, Any], str]:
                result = await client.call_tool("provision_server", arguments)
                return result.is_error, result.structured_content, result.content[0].text

            known = [{"name": "odd", "enabled": True}, {"name": "even", "enabled": True}]
            nothing = {"status": "ok", "servers": known}
            assert await provision() == (False, nothing, f"ok\n{json.dumps(nothing, separators=(',', ':'))}")
            _, found, _ = await provision(intent="weather")
            offer = {"description": "weather forecasts", "confidence": 0.58}
            assert found["offers"] == [
                {"name": "@good/weather", **offer, "trusted": True},
                {"name": "@bad/weather", **offer, "trusted": False},
            ]
            command = "paddock servers enable @good/weather"
            message = (
                f"a person has to do this; ask them to run: {command}\nIt counts from the next session on."
            )
            error = {"name": "ApprovalNeeded", "message": message}
            assert await provision(action="enable", name="@good/weather") == (
                True,
                {"status": "denied", "error": error, "command": command},
                f"denied\n{message}",
            )
            texts = [
                (await provision(action=action, name=name))[2]
                for action, name in (
                    *(("enable", "@bad/weather"), ("enable", "@good/wether"), ("enable", "odd")),
                    *(("disable", "none"), ("disable", "odd")),
                )
            ]
            assert texts == [
                "denied\n@bad/weather is not trusted; only a person can change that, in the list of trusted servers",
                "invalid\nthere is no server '@good/wether' in the registry's list; did you mean @good/weather?",
                'ok\n{"status":"ok","servers":[{"name":"odd","enabled":true}]}',
                "invalid\nthere is no server 'none'",
                "denied\na person has to do this; ask them to run: paddock servers disable odd\n"
                "It counts from the next session on.",
            ]
            assert (await provision(action="enable"))[2] == "invalid\n`name` is needed to enable a server"
            assert list(json.loads((place.workspace / ".mcp.json").read_text())["mcpServers"]) == [
                "odd",
                "even",
            ]

    asyncio.run(main())
