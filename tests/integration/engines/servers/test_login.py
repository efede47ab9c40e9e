"""Logins at upstream servers, against an authorization server and an MCP server of the MCP library."""

import asyncio
import json
import os
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Message
from tests.integration.surfaces.mcp_server.npm import Modules

from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.servers.auth.code_flow import AuthorizationPrompt, log_in, log_out
from paddock.engines.servers.auth.tokens import Login, LoginFailed
from paddock.engines.servers.calls.hub import Hub
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerUnauthorized

from .authority import World, agree, kept, server_of

GUARDED = Path(__file__).resolve().parents[3] / "servers" / "guarded.mjs"


async def said(world: World, logins: KeptLogins, **options: object) -> object:
    server = replace(server_of(world), **options)
    async with Hub({server.name: server}, environment={}, logins=logins) as hub:
        return (await hub.call_tool(server.name, "whisper", {})).raw["content"][0]["text"]


NEEDS = (
    "Failed to connect to server guarded: Server guarded needs a login; a person can log in with "
    "`paddock servers login guarded` (HTTP 401)."
)


def test_a_call_without_a_login_says_what_to_do_and_asks_nobody(world: World, logins: KeptLogins) -> None:
    with pytest.raises(ServerUnauthorized) as caught:
        asyncio.run(said(world, logins))
    assert str(caught.value) == NEEDS
    assert world.outer.seen == []
    assert not (logins.directory / "logins.json").exists()


def test_a_login_is_used_by_calls_and_ends_with_a_logout(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        keeper = logins.find_keeper(server_of(world))
        login = await log_in(server_of(world), keeper, agree)
        assert login.metadata["issuer"] == world.issuer
        assert world.authority.access[login.access_token].resource == world.url
        assert await said(world, logins) == "a word"
        assert logins.find_state(server_of(world)) == "logged in"
        assert keeper.delete_login() is True
        await log_out(login)
        assert world.authority.revoked == [login.refresh_token]
        assert logins.find_state(server_of(world)) == ""

    asyncio.run(main())


def test_tokens_are_renewed_by_themselves_by_one_call_of_many(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        world.authority.lifetime = 0
        first = await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        world.authority.lifetime = 3600
        assert await asyncio.gather(*(said(world, logins) for _ in range(4))) == ["a word"] * 4
        assert world.authority.refreshes == 1
        second = logins.find_keeper(server_of(world)).read_login()
        assert second is not None
        assert second.access_token != first.access_token
        assert second.refresh_token != first.refresh_token

    asyncio.run(main())


def test_a_token_that_is_refused_early_is_renewed_once(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        login = await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        del world.authority.access[login.access_token]
        assert await said(world, logins) == "a word"
        assert world.authority.refreshes == 1

    asyncio.run(main())


def test_a_renewal_under_way_outlives_its_call(world: World, logins: KeptLogins) -> None:
    """The authorization server takes the old token back with the answer: broken off there, the login would be gone."""
    given, go = threading.Event(), threading.Event()

    async def late(request: Request) -> Response:
        answer = await passed_on(world, request)
        given.set()
        await asyncio.to_thread(go.wait)
        return answer

    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        world.authority.access.clear()
        world.outer.twists["/token"] = late
        call = asyncio.create_task(said(world, logins))
        await asyncio.to_thread(given.wait)
        call.cancel()
        await asyncio.sleep(0)
        go.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        world.outer.twists.clear()
        assert await said(world, logins) == "a word"
        assert world.authority.refreshes == 1

    asyncio.run(main())


def test_a_login_that_has_ended_says_so(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        world.authority.access.clear()
        world.authority.refresh.clear()
        with pytest.raises(ServerUnauthorized) as caught:
            await said(world, logins)
        assert str(caught.value) == NEEDS.replace(" (HTTP", " (the login has ended: invalid_grant) (HTTP")

    asyncio.run(main())


@pytest.mark.parametrize("other", ["name", "address", "file"])
def test_a_login_is_for_one_entry_of_one_file(world: World, tmp_path: Path, other: str) -> None:
    async def main() -> None:
        await log_in(server_of(world), kept(tmp_path).find_keeper(server_of(world)), agree)
        world.inner.seen.clear()
        logins = kept(tmp_path / "cloned" if other == "file" else tmp_path)
        if other == "file":
            logins = kept(tmp_path, "other.json")
        options = {"name": {"name": "twin"}, "address": {"url": f"{world.url}?x=1"}, "file": {}}[other]
        with pytest.raises(ServerUnauthorized):
            await said(world, logins, **options)
        assert {authorization for _, _, authorization in world.inner.seen} == {""}

    asyncio.run(main())


def test_credentials_of_the_entry_come_first(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        world.inner.seen.clear()
        with pytest.raises(ServerUnauthorized) as caught:
            await said(world, logins, headers={"authorization": "Bearer own"})
        assert "correct its `headers`" in str(caught.value)
        assert {authorization for _, _, authorization in world.inner.seen} == {"Bearer own"}
        world.inner.seen.clear()
        with pytest.raises(ServerUnauthorized):
            await said(world, logins, url=world.url.replace("//", "//bob:word@"))
        assert {authorization for _, _, authorization in world.inner.seen} == {"Basic Ym9iOndvcmQ="}

    asyncio.run(main())


def test_what_is_kept_cannot_be_read_from_files(world: World, logins: KeptLogins, tmp_path: Path) -> None:
    async def main() -> Login:
        return await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)

    login = asyncio.run(main())
    assert len(login.secrets) == 3
    files = [Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    contents = b"".join(file.read_bytes() for file in files)
    assert [secret for secret in login.secrets if secret.encode() in contents] == []
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@pytest.mark.parametrize(
    ("offered", "method"),
    [
        (["client_secret_post"], "client_secret_post"),
        (["client_secret_basic", "client_secret_post"], "client_secret_basic"),
        (None, "client_secret_basic"),
    ],
)
def test_a_registration_that_names_no_method_leaves_it_to_what_the_server_offers(
    world: World, logins: KeptLogins, offered: list[str] | None, method: str
) -> None:
    async def unnamed(request: Request) -> Response:
        told = json.loads((await passed_on(world, request)).body)
        [client] = world.authority.clients.values()
        client.token_endpoint_auth_method = method
        del told["token_endpoint_auth_method"]
        return JSONResponse(told, 201)

    world.outer.twists["/register"] = unnamed
    offer(world, offered)
    asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), agree))
    world.authority.access.clear()
    assert asyncio.run(said(world, logins)) == "a word"
    assert world.authority.refreshes == 1


def offer(world: World, methods: list[str] | None) -> None:
    """Have the authorization server say that clients may show by these methods who they are; None is nothing."""

    async def offers(request: Request) -> Response:
        told = json.loads((await passed_on(world, request)).body)
        told["token_endpoint_auth_methods_supported"] = methods
        return JSONResponse({name: value for name, value in told.items() if value is not None})

    world.outer.twists["/.well-known/oauth-authorization-server"] = offers


@pytest.mark.parametrize(
    ("offered", "method"),
    [
        (["client_secret_basic", "client_secret_post", "none"], "none"),
        (["client_secret_post", "client_secret_basic"], None),
        (["private_key_jwt", "client_secret_post"], "client_secret_post"),
        (["private_key_jwt"], None),
        (None, None),
    ],
)
def test_a_registration_asks_for_no_method_that_the_server_does_not_offer(
    world: World, logins: KeptLogins, offered: list[str] | None, method: str | None
) -> None:
    asked: list[dict[str, object]] = []

    async def registers(request: Request) -> Response:
        asked.append(json.loads(await request.body()))
        return await passed_on(world, request)

    world.outer.twists["/register"] = registers
    offer(world, offered)
    asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), agree))
    assert [each.get("token_endpoint_auth_method") for each in asked] == [method]
    world.authority.access.clear()
    assert asyncio.run(said(world, logins)) == "a word"


async def passed_on(world: World, request: Request) -> Response:
    """Return what the authorization server answers."""
    body, message = await request.body(), list[Message]()

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(part: Message) -> None:
        message.append(part)

    await world.outer.app(request.scope, receive, send)
    head, *parts = message
    content = b"".join(part.get("body", b"") for part in parts)
    return Response(content, head["status"], media_type="application/json")


def test_why_an_authorization_server_refuses_is_told(world: World, logins: KeptLogins) -> None:
    def told(path: str, code: str) -> str:
        world.outer.twists = {
            path: lambda _: JSONResponse({"error": code, "error_description": "hush-hush"}, 400)
        }
        with pytest.raises(LoginFailed) as caught:
            asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), agree))
        return str(caught.value)

    assert told("/token", "invalid_client") == "Token exchange failed (400): invalid_client"
    unreadable = f"Token exchange failed (400): {world.issuer}token returned no valid `error`"
    assert told("/token", "hush-hush") == unreadable
    assert told("/register", "invalid_redirect_uri") == "Registration failed: invalid_redirect_uri"


def test_a_person_may_take_longer_than_a_server_of_the_newer_era_is_asked(
    world: World, logins: KeptLogins, given_up: threading.Event
) -> None:
    async def newer(request: Request) -> Response | None:
        if request.headers.get("authorization") and b'"initialize"' in await request.body():
            return JSONResponse({"jsonrpc": "2.0", "id": 1, "error": {"code": -32600, "message": "no"}}, 400)
        return None

    async def slowly(visit: AuthorizationPrompt) -> None:
        await asyncio.to_thread(given_up.wait)
        await agree(visit)

    world.inner.twists["/mcp"] = newer
    asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), slowly))
    assert asyncio.run(said(world, logins)) == "a word"


def test_nobody_is_told_of_a_wait_for_a_person(
    world: World, logins: KeptLogins, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paddock.engines.servers.calls.connection._SLOW_S", 0)
    caplog.set_level("INFO", "paddock.engines.servers")
    asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), agree))
    assert caplog.messages == []


def test_a_login_at_a_server_of_the_typescript_library(npm_modules: Modules, logins: KeptLogins) -> None:
    command = ["node", str(GUARDED), str(npm_modules("clients"))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            server = HttpServer("guarded", process.stdout.readline().strip())
            asyncio.run(log_in(server, logins.find_keeper(server), agree))

            async def main() -> object:
                async with Hub({server.name: server}, environment={}, logins=logins) as hub:
                    return (await hub.call_tool(server.name, "whisper", {})).raw["content"][0]["text"]

            assert asyncio.run(main()) == "a word"
        finally:
            process.kill()
