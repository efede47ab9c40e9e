"""Logins at upstream servers, against an authorization server and an MCP server of the MCP library."""

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message

from paddock.hub.authorize import log_in, log_out
from paddock.hub.login import Login
from paddock.hub.pool import Hub
from paddock.logins import KeptLogins
from paddock.model.errors import ServerUnauthorized

from .authority import World, agree, kept, server_of


async def said(world: World, logins: KeptLogins, **options: object) -> object:
    server = replace(server_of(world), **options)
    async with Hub({server.name: server}, environment={}, logins=logins) as hub:
        return (await hub.call(server.name, "whisper", {})).raw["content"][0]["text"]


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
        keeper = logins.keeper(server_of(world))
        login = await log_in(server_of(world), keeper, agree)
        assert login.metadata["issuer"] == world.issuer
        assert world.authority.access[login.access_token].resource == world.url
        assert await said(world, logins) == "a word"
        assert logins.state(server_of(world)) == "logged in"
        assert keeper.delete() is True
        await log_out(login)
        assert world.authority.revoked == [login.refresh_token]
        assert logins.state(server_of(world)) == ""

    asyncio.run(main())


def test_tokens_are_renewed_by_themselves_by_one_call_of_many(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        world.authority.lifetime = 0
        first = await log_in(server_of(world), logins.keeper(server_of(world)), agree)
        world.authority.lifetime = 3600
        assert await asyncio.gather(*(said(world, logins) for _ in range(4))) == ["a word"] * 4
        assert world.authority.refreshes == 1
        second = logins.keeper(server_of(world)).read()
        assert second is not None
        assert second.access_token != first.access_token
        assert second.refresh_token != first.refresh_token

    asyncio.run(main())


def test_a_token_that_is_refused_early_is_renewed_once(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        login = await log_in(server_of(world), logins.keeper(server_of(world)), agree)
        del world.authority.access[login.access_token]
        assert await said(world, logins) == "a word"
        assert world.authority.refreshes == 1

    asyncio.run(main())


def test_a_renewal_under_way_outlives_its_call(world: World, logins: KeptLogins) -> None:
    """The authorization server takes the old token back with the answer: broken off there, the login would be gone."""
    given, go = threading.Event(), threading.Event()

    async def late(request: Request) -> Response:
        message: list[Message] = []
        body = await request.body()

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(part: Message) -> None:
            message.append(part)

        await world.outer.app(request.scope, receive, send)
        given.set()
        await asyncio.to_thread(go.wait)
        head, *parts = message
        content = b"".join(part.get("body", b"") for part in parts)
        return Response(content, head["status"], media_type="application/json")

    async def main() -> None:
        await log_in(server_of(world), logins.keeper(server_of(world)), agree)
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
        await log_in(server_of(world), logins.keeper(server_of(world)), agree)
        world.authority.access.clear()
        world.authority.refresh.clear()
        with pytest.raises(ServerUnauthorized) as caught:
            await said(world, logins)
        assert str(caught.value) == NEEDS.replace(" (HTTP", " (the login has ended: invalid_grant) (HTTP")

    asyncio.run(main())


@pytest.mark.parametrize("other", ["name", "address", "file"])
def test_a_login_is_for_one_entry_of_one_file(world: World, tmp_path: Path, other: str) -> None:
    async def main() -> None:
        await log_in(server_of(world), kept(tmp_path).keeper(server_of(world)), agree)
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
        await log_in(server_of(world), logins.keeper(server_of(world)), agree)
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
        return await log_in(server_of(world), logins.keeper(server_of(world)), agree)

    login = asyncio.run(main())
    assert len(login.secrets) == 3
    files = [Path(folder, name) for folder, _, names in os.walk(tmp_path) for name in names]
    contents = b"".join(file.read_bytes() for file in files)
    assert [secret for secret in login.secrets if secret.encode() in contents] == []
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
