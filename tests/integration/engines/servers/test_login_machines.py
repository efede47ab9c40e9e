"""Clients that log in by themselves (RFC 6749, 4.4), with a secret or with a key (RFC 7523)."""

import asyncio
import base64
import time
from dataclasses import replace

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from mcp.server.auth.provider import AccessToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.servers.auth.client_config import OAuth
from paddock.engines.servers.auth.code_flow import log_in_machine, save_login
from paddock.engines.servers.auth.tokens import LoginFailed
from paddock.engines.servers.calls.hub import Hub
from paddock.engines.servers.config import HttpServer
from paddock.model.errors import ServerUnauthorized

from .authority import World, server_of

SECRET = "hush-hush"


def machine(world: World, **changes: str) -> HttpServer:
    facts = {"client_id": "nightly", "client_secret": SECRET, "issuer": world.issuer, **changes}
    return replace(server_of(world), oauth=OAuth(grant="client_credentials", **facts))


def granting(world: World) -> list[dict[str, str]]:
    """Let the authorization server know the client by its secret; return what it is asked."""
    asked: list[dict[str, str]] = []

    async def token(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        asked.append({**form, "authorization": request.headers.get("authorization", "")})
        told = base64.b64encode(f"nightly:{SECRET}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {told}":
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return issue(world, form)

    world.outer.twists["/token"] = token
    return asked


def issue(world: World, form: dict[str, str]) -> Response:
    name = f"machine-token-{len(world.authority.access)}"
    world.authority.access[name] = AccessToken(
        token=name,
        client_id="nightly",
        scopes=form.get("scope", "").split(),
        expires_at=int(time.time()) + 60,
        resource=form["resource"],
    )
    return JSONResponse({"access_token": name, "token_type": "bearer", "expires_in": 60})


async def whispered(server: HttpServer, logins: KeptLogins) -> object:
    async with Hub({"guarded": server}, environment={}, logins=logins) as hub:
        first, second = await asyncio.gather(*(hub.call_tool("guarded", "whisper", {}) for _ in range(2)))
        assert first.raw == second.raw
        return first.raw["content"][0]["text"]


def test_a_machine_logs_in_by_itself_once(world: World, logins: KeptLogins) -> None:
    asked = granting(world)
    assert asyncio.run(whispered(machine(world, scope="reports:read"), logins)) == "a word"
    assert [(each["grant_type"], each["resource"], each["scope"]) for each in asked] == [
        ("client_credentials", world.url, "reports:read")
    ]


def test_its_secret_may_be_in_the_vault(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        granting(world)
        server = machine(world, client_secret="")
        with pytest.raises(ServerUnauthorized, match="paddock servers login guarded"):
            await whispered(server, logins)
        await save_login(logins.find_keeper(server), await log_in_machine(server, SECRET))
        assert logins.find_state(server) == "logged in"
        assert await whispered(server, logins) == "a word"

    asyncio.run(main())


def test_a_wrong_secret_is_not_kept_and_not_shown(world: World, logins: KeptLogins) -> None:
    granting(world)
    with pytest.raises(LoginFailed) as caught:
        asyncio.run(log_in_machine(machine(world, client_secret=""), "wrong-secret"))
    assert str(caught.value) == "Token exchange failed (401): invalid_client"


def test_no_other_authorization_server_is_told_the_secret(world: World, logins: KeptLogins) -> None:
    asked = granting(world)
    with pytest.raises(ServerUnauthorized) as caught:
        asyncio.run(whispered(machine(world, issuer="https://login.example"), logins))
    assert "No authorization server metadata" in str(caught.value) or "issuer mismatch" in str(caught.value)
    assert asked == []


def test_a_key_signs_in_the_place_of_a_secret(world: World, logins: KeptLogins) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    async def token(request: Request) -> Response:
        form = {name: str(value) for name, value in (await request.form()).items()}
        claims = jwt.decode(
            form["client_assertion"], key.public_key(), ["ES256"], audience=world.issuer, issuer="nightly"
        )
        assert claims["sub"] == "nightly"
        return issue(world, form)

    world.outer.twists["/token"] = token
    server = machine(world, client_secret="", private_key=pem, algorithm="ES256")
    assert asyncio.run(whispered(server, logins)) == "a word"


def test_a_key_that_is_none(world: World, logins: KeptLogins) -> None:
    server = machine(world, client_secret="", private_key="no key")
    with pytest.raises(ServerUnauthorized) as caught:
        asyncio.run(whispered(server, logins))
    assert "(`privateKey` of the entry is not a PEM key for RS256)" in str(caught.value)
