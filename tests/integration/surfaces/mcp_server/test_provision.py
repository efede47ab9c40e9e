"""`provision_server` tells what there is and could be had; what changes it is for a person to allow, or to do."""

import asyncio
import json
from typing import Any

import pytest
from mcp_types import ElicitRequestParams, ElicitResult
from tests.support.mcp_server import ERAS, Place


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


def test_without_a_list_it_says_who_fetches_one(place: Place) -> None:
    async def main() -> None:
        async with place.client() as client:
            found = (await client.call_tool("provision_server", {"name": "weather"})).structured_content
            told = "there is no registry's list here to offer from; a person fetches one: paddock servers refresh"
            assert (found["offers"], found["note"]) == ([], told)

    asyncio.run(main())


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
            _, found, _ = await provision(intent="tea")
            told = "nothing in the registry's list fits; try other words"
            assert found == {**nothing, "offers": [], "note": told}
            command = "paddock servers enable @good/weather"
            message = (
                f"a person must do this; ask them to run: {command}\nIt counts from the next session on."
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
                "denied\na person must do this; ask them to run: paddock servers disable odd\n"
                "It counts from the next session on.",
            ]
            assert (await provision(action="enable"))[2] == "invalid\n`name` is needed to enable a server"
            assert list(json.loads((place.workspace / ".mcp.json").read_text())["mcpServers"]) == [
                "odd",
                "even",
            ]

    asyncio.run(main())


def entries(place: Place) -> dict[str, Any]:
    files = (place.workspace / name for name in (".mcp.json", ".paddock/servers.json"))
    held = [json.loads(file.read_text())["mcpServers"] for file in files if file.exists()]
    return {name: entry for entries in held for name, entry in entries.items()}


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_person_behind_the_client_allows_it(place: Place, transport: str, mode: str) -> None:
    registry(place)
    asked: list[str] = []
    answers = iter(["decline", "accept", "accept", "accept"])

    async def person(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action=next(answers), content={"allow": "once"})  # type: ignore[arg-type]

    async def talk(client: Any) -> None:
        async def provision(**arguments: str) -> tuple[bool, dict[str, Any]]:
            result = await client.call_tool("provision_server", arguments)
            return result.is_error, result.structured_content

        wish = {"action": "enable", "name": "@good/weather"}
        refused, data = await provision(**wish)
        assert (refused, data["status"], data["error"]["name"]) == (True, "denied", "ApprovalDenied")
        assert data["error"]["message"] == (
            "a person decides which servers are enabled: denied by the person at mcp 0.1.0"
        )
        assert "weather" not in entries(place)
        note = "It counts from the next session on."
        done = {"status": "ok", "servers": [{"name": "weather", "enabled": True}], "note": note}
        assert await provision(**wish) == (False, done)
        assert entries(place)["weather"] == {"command": "npx", "args": ["-y", "@good/weather@1.2.3"]}
        for action, name in (("disable", "odd"), ("enable", "odd")):
            _, data = await provision(action=action, name=name)
            assert data["servers"] == [{"name": "odd", "enabled": action == "enable"}]
            assert entries(place)["odd"].get("disabled", False) is (action == "disable")
        _, data = await provision(action="enable", name="@bad/weather")
        assert data["error"]["name"] == "Untrusted"

    async def main() -> None:
        if transport == "stdio":
            async with place.client(mode=mode, elicitation_callback=person) as client:
                await talk(client)
        else:
            async with place.web() as web, web.client(mode=mode, elicitation_callback=person) as client:
                await talk(client)

    asyncio.run(main())
    assert [line.splitlines()[0] for line in asked] == [
        "Paddock asks: may this run enable the server @good/weather?",
        "Paddock asks: may this run enable the server @good/weather?",
        "Paddock asks: may this run disable the server odd?",
        "Paddock asks: may this run enable the server odd?",
    ]
    shown = '"entry": {"command": "npx", "args": ["-y", "@good/weather@1.2.3"]}'
    assert shown in asked[0].splitlines()[1]
    files = place.home.glob(".local/state/paddock/audit/*.ndjson")
    records = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert [record["answer"] for record in records if record["event"] == "answered"] == [
        "denied",
        *["once"] * 3,
    ]


def test_what_changed_while_a_person_was_asked_is_not_what_they_allowed(place: Place) -> None:
    registry(place)
    list_ = place.home / ".local/state/paddock/servers/registry.json"

    async def person(_context: Any, _params: ElicitRequestParams) -> ElicitResult:
        list_.write_text(list_.read_text().replace("1.2.3", "6.6.6"))
        return ElicitResult(action="accept", content={"allow": "once"})

    async def main() -> Any:
        async with place.client(elicitation_callback=person) as client:
            return await client.call_tool("provision_server", {"action": "enable", "name": "@good/weather"})

    error = asyncio.run(main()).structured_content["error"]
    assert error == {
        "name": "ApprovalDenied",
        "message": "@good/weather changed while a person was asked; ask again",
    }
    assert list(entries(place)) == ["odd", "even"]


def test_a_person_is_shown_no_secret_of_an_entry(place: Place) -> None:
    key = "ghp_" + "a" * 36
    entry = {
        "command": "x",
        "env": {"TOKEN": "s3cret"},
        "headers": {"Authorization": "s3cret"},
        "args": [key],
    }
    place.servers({"odd": {**entry, "disabled": True}})
    asked: list[str] = []

    async def person(_context: Any, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult(action="decline")

    async def main() -> None:
        async with place.client(elicitation_callback=person) as client:
            await client.call_tool("provision_server", {"action": "enable", "name": "odd"})

    asyncio.run(main())
    assert '"command": "x"' in asked[0]
    assert "s3cret" not in asked[0]
    assert key not in asked[0]
