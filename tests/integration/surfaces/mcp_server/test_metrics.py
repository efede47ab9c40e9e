"""`/metrics` of `paddock serve mcp --http`: what it counts, for whom, and that no label is made up."""

import asyncio
from pathlib import Path

import httpx2
from prometheus_client.parser import text_string_to_metric_families
from tests.support.mcp_server import AUTHORIZED, Place, Web
from tests.support.processes import PATIENCE_S

ON = "[telemetry]\nmetrics = true\n"
MADE_UP = "".join(
    f"await servers[{name!r}].call({name!r}, {{}}).catch(() => 0);"
    f"await servers.odd.call({name!r}, {{}}).catch(() => 0);"
    f"await paddock.tool({name!r}, {{}}).catch(() => 0);"
    for name in ("x", 'a"b', "new\\nline", "}", "é")
)


def series(text: str) -> dict[str, float]:
    """Return our values by name and labels."""
    families = text_string_to_metric_families(text)
    return {
        " ".join(filter(None, [sample.name, *sample.labels.values()])): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("paddock_") and not sample.name.endswith(("_bucket", "_created", "_sum"))
    }


async def scraped(http: httpx2.AsyncClient, web: Web) -> str:
    answer = await http.get(web.url.replace("/mcp", "/metrics"), headers=AUTHORIZED)
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "text/plain; version=0.0.4; charset=utf-8",
    )
    return answer.text


def test_metrics_count_requests_calls_and_what_lives(place: Place) -> None:
    place.settings(ON)

    async def main() -> dict[str, float]:
        async with place.web() as web, web.client() as client, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            code = "await servers.odd.echo({text: 'x'}); await servers.odd.is_error().catch(() => 0)"
            await client.call_tool("execute_code", {"code": code})
            await client.call_tool("execute_code", {"code": "throw new Error('x')"})
            arguments = {"runtime": "sh", "code": "echo x"}
            await client.call_tool("run_program", arguments)
            while not (found := series(await scraped(http, web)))["paddock_workers"]:
                pass  # the next spare is not up yet
            return found

    found = asyncio.run(main())
    del found["paddock_workers"]
    assert found.pop("paddock_artifacts_bytes") >= 0
    assert {name: found[name] for name in found if "seconds" not in name and "runtime" not in name} == {
        "paddock_requests_total server ok": 1,
        "paddock_requests_total server failed": 1,
        "paddock_requests_total guest javascript ok": 1,
        "paddock_requests_total guest javascript failed": 1,
        "paddock_requests_running server": 0,
        "paddock_requests_running guest": 0,
        "paddock_server_calls_total odd ok": 1,
        "paddock_server_calls_total odd failed": 1,
        "paddock_waiting": 0,
        "paddock_servers": 1,
    }
    assert found["paddock_request_seconds_count guest"] == 2


def test_names_that_a_program_makes_up_are_no_labels(place: Place) -> None:
    place.settings(ON)

    async def main() -> str:
        async with place.web() as web, web.client() as client, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            result = await client.call_tool("execute_code", {"code": MADE_UP})
            assert not result.is_error, result
            return await scraped(http, web)

    families = list(text_string_to_metric_families(asyncio.run(main())))
    values = {
        (name, value)
        for family in families
        for sample in family.samples
        for name, value in sample.labels.items()
        if family.name.startswith("paddock_") and name != "le"
    }
    assert {value for name, value in values if name == "server"} == {"odd", "other"}
    assert {value for name, value in values if name == "kind"} <= {"guest", "server", "sdk", "tool"}
    assert {name for name, _ in values} == {"server", "kind", "language", "status"}


def test_metrics_are_for_those_who_hold_the_token(place: Place) -> None:
    place.settings(ON)

    async def main() -> list[int]:
        async with place.web() as web, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            url = web.url.replace("/mcp", "/metrics")
            asked = [await http.get(url), await http.get(url, headers={"Authorization": "Bearer wrong"})]
            asked += [await http.post(url, headers=AUTHORIZED), await http.get(url, headers=AUTHORIZED)]
            return [answer.status_code for answer in asked]

    assert asyncio.run(main()) == [401, 401, 405, 200]


def test_metrics_are_not_for_web_pages_that_a_browser_shows(place: Place) -> None:
    """DNS rebinding: the name is the attacker's, the address is ours; a page knows no token, but a proxy may add it."""
    place.settings(ON)

    async def main() -> list[int]:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            url = web.url.replace("/mcp", "/metrics")
            port = url.split(":")[2].partition("/")[0]
            asked = [
                {"Host": "evil.example"},
                {"Host": "localhost:1"},
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Host": f"localhost:{port}", "Origin": f"http://localhost:{port}"},
            ]
            return [(await http.get(url, headers=each)).status_code for each in asked]

    assert asyncio.run(main()) == [421, 421, 403, 403, 200]


def test_programs_in_other_workspaces_are_counted_too(place: Place, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    place.settings(f'{ON}[[mcp.repos]]\nrepo_id = "site"\nroot_path = "{tmp_path / "elsewhere"}"\n')

    async def main() -> list[dict[str, float]]:
        async with place.web() as web, web.client() as client, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            found = []
            for repository in ("site", "ws"):
                arguments = {"repoId": repository, "runtime": "shell", "code": "true"}
                await client.call_tool("sdl.runtime.execute", arguments)
                found.append(series(await scraped(http, web)))
            return found

    there, both = asyncio.run(main())
    assert there["paddock_requests_total runtime shell ok"] == 1
    assert both["paddock_requests_total runtime shell ok"] == 2
    assert (both["paddock_requests_running runtime"], both["paddock_waiting"]) == (0, 0)


def test_without_the_setting_there_are_none(place: Place) -> None:
    async def main() -> int:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            return (await http.get(web.url.replace("/mcp", "/metrics"))).status_code

    assert asyncio.run(main()) == 404
