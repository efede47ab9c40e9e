"""`paddock serve mcp --http`: both eras, who gets in, and what ends a program."""

import asyncio
import json
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from tests.support.command import PADDOCK, run_paddock
from tests.support.mcp_server import AUTHORIZED, ERAS, MODERN, TOKEN, Place, Web
from tests.support.processes import PATIENCE_S, all_end, descendants, running_workers, watched

from paddock.surfaces.mcp_server.http.app import MAX_SESSIONS

from .test_lines import SPIN

ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
CALL = {"name": "execute_code", "arguments": {"code": SPIN}, "_meta": {"progressToken": "p"}}


def modern(method: str, params: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """Return headers and body of a request of 2026-07-28."""
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    params = {**params, "_meta": {**MODERN, **params.get("_meta", {})}}
    return {**ACCEPT, **headers}, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "w", "version": "1"}}


async def shaken_hands(http: httpx2.AsyncClient, url: str) -> dict[str, str]:
    """Open a session of 2025-11-25; return the headers of its requests."""
    begun = await http.post(
        url, json={"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO}, headers=ACCEPT
    )
    headers = {
        **ACCEPT,
        "Mcp-Session-Id": begun.headers["mcp-session-id"],
        "MCP-Protocol-Version": "2025-11-25",
    }
    await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
    return headers


@asynccontextmanager
async def spinning(http: httpx2.AsyncClient, url: str, headers: Any, body: Any) -> AsyncIterator[None]:
    """Hold the stream of a program open that spins."""
    async with http.stream("POST", url, headers=headers, json=body) as response:
        async for line in response.aiter_lines():
            if "notifications/progress" in line:
                break
        yield


@pytest.mark.parametrize("mode", ERAS)
def test_programs_over_http(place: Place, mode: str) -> None:
    async def main() -> None:
        async with place.web() as web, web.client(mode=mode) as client:
            assert client.protocol_version == {"legacy": "2025-11-25", "auto": "2026-07-28"}[mode]
            assert [tool.name for tool in (await client.list_tools()).tools][:1] == ["execute_code"]
            seen: list[str | None] = []

            async def listen(_progress: float, _total: float | None, message: str | None) -> None:
                seen.append(message)

            source = "console.log('hi'); return await servers.odd.echo({text: 'over http'})"
            result = await client.call_tool("execute_code", {"code": source}, progress_callback=listen)
            assert (result.structured_content["value"], seen) == ("over http", ["hi"])

    asyncio.run(main())


def post(http: httpx2.AsyncClient, web: Web, **headers: str) -> Any:
    its_own, body = modern("tools/list", {})
    return http.post(web.url, headers={**its_own, **headers}, json=body)


def test_only_the_token_opens(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            wrong = ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN)
            refused = [await post(http, web, Authorization=text) for text in wrong]
            refused.append(await post(http, web))
            refused.append(await http.get(web.url.replace("/mcp", "/")))
            assert {response.status_code for response in refused} == {401}
            assert refused[0].headers["www-authenticate"] == "Bearer"
            assert "Authorization: Bearer TOKEN" in refused[0].text
            assert (await post(http, web, **AUTHORIZED)).status_code == 200
            web.process.terminate()
            await web.process.communicate()

    asyncio.run(main())
    command = [PADDOCK, "audit", "tail", "--json", "--event", "refused"]
    shown = subprocess.run(
        command, cwd=place.workspace, env=place.environment, capture_output=True, check=True
    )
    fields = [each["fields"] for each in json.loads(shown.stdout)]
    assert {(each["surface"], each["reason"]) for each in fields} == {("mcp", "unauthorized")}
    assert sum(each["count"] for each in fields) == 8


def test_no_web_page_gets_in_by_another_name(place: Place) -> None:
    async def main() -> None:
        async with (
            place.web("--allowed-host", "paddock.test") as web,
            httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http,
        ):
            port = web.url.split(":")[2].split("/")[0]
            statuses = {
                name: (await post(http, web, **headers)).status_code
                for name, headers in {
                    "rebound": {"Host": f"evil.test:{port}"},
                    "other port": {"Host": "127.0.0.1:1"},
                    "page": {"Origin": "https://evil.test"},
                    "local page": {"Origin": "http://localhost:3000"},
                    "localhost": {"Host": f"localhost:{port}"},
                    "allowed": {"Host": f"paddock.test:{port}", "Origin": f"http://paddock.test:{port}"},
                    "proxied": {"Host": "Paddock.Test.", "Origin": "https://paddock.test"},
                    "other name": {"Host": "evil.paddock.test"},
                    "page beside": {"Host": "paddock.test", "Origin": "https://paddock.test:3000"},
                }.items()
            }
            assert statuses == {
                "rebound": 421,
                "other port": 421,
                "page": 403,
                "local page": 403,
                "localhost": 200,
                "allowed": 200,
                "proxied": 200,
                "other name": 421,
                "page beside": 403,
            }

    asyncio.run(main())


def test_bodies_are_bounded_and_broken_ones_refused(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            headers, _ = modern("tools/list", {})
            too_large = await http.post(web.url, headers=headers, content=b"x" * (17 * 1024 * 1024))
            assert too_large.status_code == 413
            broken = await http.post(web.url, headers=headers, content=b"{")
            assert (broken.status_code, broken.json()["error"]["code"]) == (400, -32700)
            assert (await post(http, web)).status_code == 200

    asyncio.run(main())


def test_connections_that_ask_for_nothing_keep_nobody_out(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            port = int(web.url.split(":")[2].split("/")[0])
            idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
            head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n"
            accepts = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            for begun in (
                f"{head}Content-Type: application/json\r\nContent-Length: 9\r\n\r\n{{",
                f"{head}{accepts}Content-Length: 9\r\n\r\n{{",
                "\x16\x03\x01\r\n\r\n",
            ):
                _, gone = await asyncio.open_connection("127.0.0.1", port)
                gone.write(begun.encode())
                gone.close()
            assert (await post(http, web, **AUTHORIZED)).status_code == 200
            for _, writer in idle:
                writer.close()
            web.process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(web.process.wait(), PATIENCE_S) == 0
            assert await web.process.stderr.read() == b""

    asyncio.run(main())


def test_closing_the_stream_kills_the_program(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            async with spinning(http, web.url, *modern("tools/call", CALL)):
                handles = watched(running_workers(web.process.pid))
                assert len(handles) == 1
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


@pytest.mark.parametrize("how", ["cancelled", "deleted"])
def test_a_session_ends_its_programs(place: Place, how: str) -> None:
    async def main() -> None:
        async with (
            place.web() as web,
            httpx2.AsyncClient(headers={**AUTHORIZED, **ACCEPT}, timeout=PATIENCE_S) as http,
        ):
            http.headers.update(await shaken_hands(http, web.url))
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
            async with spinning(http, web.url, {}, body):
                handles = watched(running_workers(web.process.pid))
                if how == "deleted":
                    assert (await http.delete(web.url)).status_code == 200
                else:
                    note = {"method": "notifications/cancelled", "params": {"requestId": 1}}
                    assert (await http.post(web.url, json={"jsonrpc": "2.0", **note})).status_code == 202
                assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


def test_sessions_that_were_left_keep_nobody_out(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            stays, left = await shaken_hands(http, web.url), await shaken_hands(http, web.url)
            ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
            async with http.stream("GET", web.url, headers=stays) as stream:
                assert stream.status_code == 200
                for _ in range(MAX_SESSIONS):
                    last = await shaken_hands(http, web.url)
                statuses = [
                    (await http.post(web.url, json=ping, headers=each)).status_code
                    for each in (stays, left, last)
                ]
                assert statuses == [200, 404, 200]

    asyncio.run(main())


def test_termination_ends_everything(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            async with spinning(http, web.url, *modern("tools/call", CALL)):
                handles = watched(descendants(web.process.pid))
                web.process.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(web.process.wait(), PATIENCE_S) == 0
                assert await web.process.stderr.read() == b""
            assert await asyncio.to_thread(all_end, handles)

    asyncio.run(main())


def test_termination_is_told_to_who_waits_and_is_no_error(place: Place) -> None:
    place.settings("[mcp]\nshutdown_grace_ms = 0\n")

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=AUTHORIZED, timeout=PATIENCE_S) as http:
            session = await shaken_hands(http, web.url)
            older = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL}
            async with spinning(http, web.url, session, older):
                call = {"name": "execute_code", "arguments": {"code": SPIN}}
                headers, body = modern("tools/call", call)
                plain = asyncio.create_task(http.post(web.url, headers=headers, json=body))
                async with asyncio.timeout(60):
                    while len(running_workers(web.process.pid)) < 2:  # noqa: ASYNC110 - they are of another process
                        await asyncio.sleep(0)
                web.process.send_signal(signal.SIGTERM)
                response = await plain
                assert response.status_code == 200
                assert response.json()["result"]["structuredContent"]["status"] == "cancelled"
                assert await asyncio.wait_for(web.process.wait(), PATIENCE_S) == 0
                assert await web.process.stderr.read() == b""

    asyncio.run(main())


def serve(place: Place, *flags: str, **environment: str) -> tuple[int, str]:
    """Run a server that must not start; return its exit code and what it says."""
    where = {**place.environment, **environment}
    done = run_paddock(place.workspace, "serve", "mcp", *flags, environment=where)
    return done.returncode, done.stderr


def test_tokens_that_are_refused(place: Place) -> None:
    file = place.home / "token"
    file.write_text(TOKEN)
    file.chmod(0o644)
    assert serve(place, "--http", "0", "--token-file", str(file)) == (
        1,
        f"{file}: others can read this token; run: chmod 600 {file}\n",
    )
    code, text = serve(place, "--http", "0", PADDOCK_TOKEN="short")
    assert (code, text.partition(";")[0]) == (
        1,
        "PADDOCK_TOKEN: a token is at least 16 ASCII characters without spaces",
    )
    assert serve(place, "--http", "here", PADDOCK_TOKEN=TOKEN) == (
        1,
        "--http here: this is not HOST:PORT; for example 127.0.0.1:8700\n",
    )
    assert serve(place, "--token-file", str(file))[0] == 2


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("127.0.0.1:65536", "a port is at most 65535"),
        (f"127.0.0.1:{'9' * 5000}", "a port is at most 65535"),
        ("a..b:80", "this is not the name of a host"),
        ("192.0.2.1:80", "cannot listen there: Cannot assign requested address"),
    ],
)
def test_addresses_where_nobody_can_be_served(place: Place, address: str, told: str) -> None:
    assert serve(place, "--http", address, PADDOCK_TOKEN=TOKEN) == (1, f"--http {address}: {told}\n")


def test_names_that_are_none(place: Place) -> None:
    assert serve(place, "--http", "0", "--allowed-host", "https://a.test", PADDOCK_TOKEN=TOKEN) == (
        1,
        "--allowed-host https://a.test: this is not NAME or NAME:PORT. "
        "Give the name that clients use, without a scheme or a path; for example paddock.example.com\n",
    )


def test_probes_want_no_token_and_tell_nothing(place: Place) -> None:
    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(timeout=PATIENCE_S) as http:
            for path in ("/health", "/livez", "/readyz"):
                url = web.url.replace("/mcp", path)
                for host in ("10.1.2.3:8700", "evil.test"):
                    found = await http.get(url, headers={"Host": host})
                    told = {name for name in found.headers if name != "date"}
                    assert (found.status_code, found.text) == (200, "ok\n")
                    assert told == {"cache-control", "connection", "content-length", "content-type"}
                head = await http.head(url)
                assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "3")
                posted = await http.post(url, content=b"x" * 100_000)
                assert (posted.status_code, posted.headers["allow"]) == (405, "GET, HEAD")
            for path in ("/", "/health/", "/healthz", "/readyz/x", "/livez%2f"):
                assert (await http.get(web.url.replace("/mcp", path))).status_code == 401

    asyncio.run(main())


def test_a_token_is_made_once_and_kept(place: Place) -> None:
    file = place.home / "token"

    async def main() -> None:
        async with (
            place.web("--token-file", str(file)) as web,
            httpx2.AsyncClient(timeout=PATIENCE_S) as http,
        ):
            token = file.read_text().strip()
            assert (file.stat().st_mode & 0o777, len(token)) == (0o600, 43)
            assert (await post(http, web, Authorization=f"Bearer {token}")).status_code == 200
            assert (await post(http, web, **AUTHORIZED)).status_code == 401
        async with (
            place.web("--token-file", str(file)) as web,
            httpx2.AsyncClient(timeout=PATIENCE_S) as http,
        ):
            assert (await post(http, web, Authorization=f"bearer {token}")).status_code == 200

    asyncio.run(main())
