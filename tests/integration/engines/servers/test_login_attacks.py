"""Servers, authorization servers and passers-by who mean harm to a login."""

import asyncio
import json
import socket
from dataclasses import replace
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx2
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.servers.auth import guarded_http
from paddock.engines.servers.auth.client_config import OAuth
from paddock.engines.servers.auth.code_flow import AuthorizationPrompt, log_in
from paddock.engines.servers.auth.sdk_flow import refresh_login
from paddock.engines.servers.auth.tokens import Login, LoginFailed
from paddock.engines.servers.calls.hub import Hub
from paddock.model.errors import ServerError, ServerRejected

from .authority import World, agree, server_of
from .authority import world as another_world

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
METADATA = "/.well-known/oauth-authorization-server"


def refused(world: World, logins: KeptLogins, person: object = agree, **options: object) -> str:
    """Return why a login fails. Nothing is kept of it."""

    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), person, **options)

    with pytest.raises(LoginFailed) as caught:
        asyncio.run(main())
    assert logins.find_keeper(server_of(world)).read_login() is None
    return str(caught.value)


def naming(world: World, issuer: str) -> None:
    """Let the server name an authorization server."""
    document = {"resource": world.url, "authorization_servers": [issuer]}
    world.inner.twists[RESOURCE] = lambda _: JSONResponse(document)


def saying(world: World, **changes: object) -> None:
    """Let the authorization server say other things of itself."""
    base = world.issuer.rstrip("/")
    document = {
        "issuer": world.issuer,
        "authorization_endpoint": f"{base}/authorize",
        "token_endpoint": f"{base}/token",
        "registration_endpoint": f"{base}/register",
        "code_challenge_methods_supported": ["S256"],
    }
    told = {name: value for name, value in {**document, **changes}.items() if value is not None}
    world.outer.twists[METADATA] = lambda _: JSONResponse(told)


@pytest.mark.parametrize(
    ("issuer", "why"),
    [
        ("http://169.254.169.254/", "the address http://169.254.169.254/{} for the login is not https"),
        (
            "https://169.254.169.254/",
            "https://169.254.169.254/{} leads to 169.254.169.254, which is not a public address; "
            "a server may not make Paddock connect to it",
        ),
        (
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://[64:ff9b::a9fe:a9fe]/{} leads to 64:ff9b::a9fe:a9fe, which is not a public address; "
            "a server may not make Paddock connect to it",
        ),
        (
            "https://10.0.0.1/",
            "https://10.0.0.1/{} leads to 10.0.0.1, which is not a public address; a server may not make Paddock connect to it",
        ),
    ],
)
def test_a_server_may_not_send_us_into_private_networks(
    world: World, logins: KeptLogins, issuer: str, why: str
) -> None:
    naming(world, issuer)
    assert refused(world, logins) == why.format(METADATA.removeprefix("/"))


def test_nor_by_the_place_of_its_own_document(world: World, logins: KeptLogins) -> None:
    challenge = {"www-authenticate": 'Bearer resource_metadata="http://169.254.169.254/latest/meta-data/"'}
    world.inner.twists["/mcp"] = lambda _: Response(status_code=401, headers=challenge)
    assert refused(world, logins) == (
        "the address http://169.254.169.254/latest/meta-data/ for the login is not https"
    )


def test_redirects_are_not_followed(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        with another_world() as elsewhere:
            there = f"{elsewhere.issuer}token"
            world.outer.twists["/token"] = lambda _: RedirectResponse(there, status_code=307)
            with pytest.raises(LoginFailed) as caught:
                await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
            assert str(caught.value) == "Token exchange failed (307)"
            assert elsewhere.outer.seen == []

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": "https://bank.example/"}, "Authorization server metadata issuer mismatch"),
        (
            {"code_challenge_methods_supported": None},
            "the authorization server does not offer PKCE with S256 (RFC 7636)",
        ),
        (
            {"authorization_endpoint": "http://bank.example/authorize"},
            "the address http://bank.example/authorize for the login is not https",
        ),
        (
            {"token_endpoint": "https://user:password@bank.example/token"},
            "the address https://bank.example/token for the login is not one that Paddock may use",
        ),
        (
            {"authorization_endpoint": "javascript:alert(1)"},
            "Invalid metadata: {issuer}.well-known/oauth-authorization-server returned no valid `authorization_endpoint`",
        ),
        (
            {"scopes_supported": 5},
            "Invalid metadata: {issuer}.well-known/oauth-authorization-server returned no valid `scopes_supported`",
        ),
    ],
)
def test_what_an_authorization_server_says_of_itself_is_checked(
    world: World, logins: KeptLogins, changes: dict[str, object], why: str
) -> None:
    saying(world, **changes)
    visits: list[AuthorizationPrompt] = []

    async def never(visit: AuthorizationPrompt) -> None:
        visits.append(visit)

    assert refused(world, logins, never) == why.replace("{issuer}", world.issuer)
    assert visits == []


def test_a_document_of_another_resource_is_refused(world: World, logins: KeptLogins) -> None:
    document = {"resource": "https://bank.example/mcp", "authorization_servers": [world.issuer]}
    world.inner.twists[RESOURCE] = lambda _: JSONResponse(document)
    assert refused(world, logins) == (
        f"Protected resource https://bank.example/mcp does not match expected {world.url}"
    )
    assert world.outer.seen == []


def test_an_answer_of_another_issuer_is_refused(world: World, logins: KeptLogins) -> None:
    async def mixed_up(visit: AuthorizationPrompt) -> None:
        await answer(visit, code="stolen", iss="https://bank.example/")

    assert refused(world, logins, mixed_up) == "Authorization response iss mismatch"
    assert "/token" not in [path for _, path, _ in world.outer.seen]


def test_giant_documents_are_refused(world: World, logins: KeptLogins) -> None:
    world.outer.twists[METADATA] = lambda _: Response(b"{" + b" " * (guarded_http.ANSWER_BYTES + 1))
    assert refused(world, logins) == (
        f"the answer of {world.issuer}{METADATA.removeprefix('/')} is larger than {guarded_http.ANSWER_BYTES} bytes"
    )


def test_an_authorization_server_that_never_answers(
    world: World, logins: KeptLogins, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_: Request) -> Response:
        await asyncio.Event().wait()
        return Response()

    def with_little_time_for_the_next(_: Request) -> None:
        monkeypatch.setattr(guarded_http, "TIMEOUT_S", 0.2)

    world.inner.twists[RESOURCE] = with_little_time_for_the_next
    world.outer.twists[METADATA] = never
    assert refused(world, logins) == f"{world.issuer}{METADATA[1:]} did not answer within 0.2 seconds"


def test_nobody_logs_in(world: World, logins: KeptLogins) -> None:
    async def nobody(_: AuthorizationPrompt) -> None:
        pass

    assert refused(world, logins, nobody, wait_ms=2000) == "there was no login within 2 seconds"


async def answer(visit: AuthorizationPrompt, host: str = "", **fields: str) -> int:
    """Send an answer to the listener of a login as a passer-by would, with its state unless told another."""
    asked = parse_qs(urlsplit(visit.url).query)
    fields = {"state": asked["state"][0], **fields}
    async with httpx2.AsyncClient(trust_env=False) as passer_by:
        headers = {"host": host} if host else {}
        sent = await passer_by.get(asked["redirect_uri"][0], params=fields, headers=headers)
        return sent.status_code


def test_passers_by_neither_slip_in_a_code_nor_end_a_login(world: World, logins: KeptLogins) -> None:
    statuses: list[int] = []

    async def besieged(visit: AuthorizationPrompt) -> None:
        statuses.append(await answer(visit, code="theirs", state="theirs"))
        statuses.append(await answer(visit, error="access_denied", state=""))
        statuses.append(await answer(visit, code="theirs", host="evil.example"))
        statuses.append(await answer(visit, access_token="theirs"))
        place = parse_qs(urlsplit(visit.url).query)["redirect_uri"][0]
        async with httpx2.AsyncClient(trust_env=False) as passer_by:
            statuses.append((await passer_by.post(place)).status_code)
            statuses.append((await passer_by.get(place.replace("callback", "elsewhere"))).status_code)
        await agree(visit)

    async def main() -> None:
        login = await log_in(server_of(world), logins.find_keeper(server_of(world)), besieged)
        assert login.access_token in world.authority.access

    asyncio.run(main())
    assert statuses == [400] * 6


def test_a_refusal_is_told_without_words_of_strangers(world: World, logins: KeptLogins) -> None:
    async def refuse(visit: AuthorizationPrompt) -> None:
        await answer(visit, error="access_denied", error_description="call 555-0100 and read out your code")

    assert refused(world, logins, refuse) == "the authorization server answered access_denied"


def test_an_answer_that_repeats_the_code_does_not_show_it(world: World, logins: KeptLogins) -> None:
    async def repeat(request: Request) -> Response:
        form = await request.form()
        return Response(f"bad code: {form['code']}", status_code=400)

    world.outer.twists["/token"] = repeat
    assert (
        refused(world, logins)
        == f"Token exchange failed (400): {world.issuer}token returned no valid `error`"
    )


def test_a_token_that_would_be_a_header_is_refused(world: World, logins: KeptLogins) -> None:
    tokens = {"access_token": "a\r\nX-Admin: yes", "token_type": "Bearer"}
    world.outer.twists["/token"] = lambda _: JSONResponse(tokens)
    assert refused(world, logins) == "the authorization server returned a token that is not valid"
    assert all("X-Admin" not in sent for _, _, sent in world.inner.seen)


def test_a_server_that_swaps_its_authorization_server_gets_no_token_of_the_old_one(
    world: World, logins: KeptLogins
) -> None:
    async def main() -> None:
        server, keeper = server_of(world), logins.find_keeper(server_of(world))
        world.authority.lifetime = 0
        login = await log_in(server, keeper, agree)
        with another_world() as elsewhere:
            naming(world, elsewhere.issuer)
            async with Hub({"guarded": server}, environment={}, logins=logins) as hub:
                await hub.call_tool("guarded", "whisper", {})
            assert world.authority.refreshes >= 1
            assert elsewhere.outer.seen == []
            visits: list[AuthorizationPrompt] = []

            async def look(visit: AuthorizationPrompt) -> None:
                visits.append(visit)
                await agree(visit)

            with pytest.raises(ServerError):  # its token is none for this server
                await log_in(server, keeper, look)
            assert [(visit.issuer, visit.before) for visit in visits] == [(elsewhere.issuer, world.issuer)]
            assert [sent for *_, sent in elsewhere.outer.seen if "Bearer" in sent] == []
            clients = {client.client_id for client in elsewhere.authority.clients.values()}
            assert login.client["client_id"] not in clients

    asyncio.run(main())


def test_an_entry_may_name_the_only_authorization_server_that_counts(
    world: World, logins: KeptLogins
) -> None:
    async def main(oauth: OAuth) -> None:
        server = replace(server_of(world), oauth=oauth)
        with pytest.raises(LoginFailed) as caught:
            await log_in(server, logins.find_keeper(server), agree)
        assert str(caught.value) == (
            "the server names an authorization server that differs from `oauth.issuer` of its entry"
        )
        assert world.outer.seen == []

    asyncio.run(main(OAuth(client_id="us", client_secret="hush-hush", issuer="https://ours.example")))


def test_no_token_is_ever_part_of_an_address(world: World, logins: KeptLogins) -> None:
    async def main() -> None:
        world.authority.lifetime = 0
        login = await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        async with Hub({"guarded": server_of(world)}, environment={}, logins=logins) as hub:
            await hub.call_tool("guarded", "whisper", {})
        secrets = [*login.secrets, *world.authority.access, *world.authority.refresh]
        targets = [target for _, target, _ in (*world.outer.seen, *world.inner.seen)]
        assert [target for target in targets if any(secret in target for secret in secrets)] == []

    asyncio.run(main())


def test_a_server_that_repeats_its_token_in_an_error_does_not_show_it(
    world: World, logins: KeptLogins
) -> None:
    async def repeat(request: Request) -> Response | None:
        message = json.loads(await request.body())
        token = request.headers.get("authorization", "")
        if message.get("method") != "tools/call" or not token:
            return None
        error = {"code": -32000, "message": f"your token is {token}"}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": error})

    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)
        world.inner.twists["/mcp"] = repeat
        async with Hub({"guarded": server_of(world)}, environment={}, logins=logins) as hub:
            with pytest.raises(ServerRejected) as caught:
                await hub.call_tool("guarded", "whisper", {})
        assert str(caught.value) == "your token is Bearer [REDACTED:server]"

    asyncio.run(main())


DEEP = "[" * 10_000 + "]" * 10_000
TOKEN = '{"access_token": "t", "token_type": "Bearer", "expires_in": %s}'
CLIENT = '{"client_id": "x", "redirect_uris": ["http://127.0.0.1/callback"], "client_id_issued_at": %s}'


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (
            ("/token", 200, TOKEN % f"1{'0' * 400}"),
            "Invalid token response: {}token returned no valid `expires_in`",
        ),
        (("/token", 200, TOKEN % "1e400"), "Invalid token response: {}token returned no valid `expires_in`"),
        (("/token", 200, TOKEN % '"soon"'), "Invalid token response: {}token returned no valid `expires_in`"),
        (("/token", 200, TOKEN % "-1"), "Invalid token response: {}token returned no valid `expires_in`"),
        (("/token", 200, TOKEN % DEEP), "Invalid token response: {}token returned no JSON object"),
        (("/token", 200, "null"), "Invalid token response: {}token returned no JSON object"),
        (
            ("/token", 400, f'{{"error": {DEEP}}}'),
            "Token exchange failed (400): {}token returned no valid `error`",
        ),
        (
            ("/token", 400, '{"error": ["a"]}'),
            "Token exchange failed (400): {}token returned no valid `error`",
        ),
        (
            ("/register", 201, CLIENT % '"soon"'),
            "Invalid registration response: {}register returned no valid `client_id_issued_at`",
        ),
        (
            ("/register", 201, CLIENT % DEEP),
            "Invalid registration response: {}register returned no JSON object",
        ),
        (
            ("/register", 201, "<html>sign in</html>"),
            "Invalid registration response: {}register returned no JSON object",
        ),
        (
            ("/register", 400, f'{{"error": {DEEP}}}'),
            "Registration failed (400): {}register returned no valid `error`",
        ),
        (("/register", 404, "{}"), "Registration failed (404): {}register returned no valid `error`"),
        (
            (METADATA, 200, DEEP),
            "Invalid metadata: {}.well-known/oauth-authorization-server returned no JSON object",
        ),
    ],
)
def test_an_answer_that_is_none_is_a_refusal_that_names_server_and_field(
    world: World, logins: KeptLogins, answer: tuple[str, int, str], why: str
) -> None:
    path, status, text = answer
    world.outer.twists[path] = lambda _: Response(text, status_code=status, media_type="application/json")
    assert refused(world, logins) == why.format(world.issuer)


@pytest.mark.parametrize(
    ("life", "told"),
    [
        (f"1{'0' * 400}", "Invalid token response: {}token returned no valid `expires_in`"),
        ("-1", "Invalid token response: {}token returned no valid `expires_in`"),
        ('"soon"', "the login has ended: {}token returned no valid `expires_in`"),
    ],
)
def test_a_renewed_token_without_a_life_is_refused(
    world: World, logins: KeptLogins, life: str, told: str
) -> None:
    async def main() -> Login:
        return await log_in(server_of(world), logins.find_keeper(server_of(world)), agree)

    login = asyncio.run(main())
    text = TOKEN % life
    world.outer.twists["/token"] = lambda _: Response(text, media_type="application/json")
    with pytest.raises(LoginFailed) as caught:
        asyncio.run(refresh_login(login))
    assert str(caught.value) == told.format(world.issuer)


def test_the_query_of_an_authorization_endpoint_is_kept(world: World, logins: KeptLogins) -> None:
    saying(world, authorization_endpoint=f"{world.issuer}authorize?p=x%20y")
    visits: list[str] = []

    async def visit(shown: AuthorizationPrompt) -> None:
        visits.append(shown.url)
        await agree(shown)

    asyncio.run(log_in(server_of(world), logins.find_keeper(server_of(world)), visit))
    [url] = visits
    names = [name for name, _ in parse_qsl(urlsplit(url).query)]
    assert url.startswith(f"{world.issuer}authorize?p=x%20y&response_type=code&")
    assert names == [
        "p",
        "response_type",
        "client_id",
        "redirect_uri",
        "state",
        "code_challenge",
        "code_challenge_method",
        "resource",
    ]


@pytest.mark.parametrize("more", ["?state=theirs", "?client_id=", "#there", "?p=x#there"])
def test_an_authorization_endpoint_sets_none_of_our_parameters(
    world: World, logins: KeptLogins, more: str
) -> None:
    saying(world, authorization_endpoint=f"{world.issuer}authorize{more}")
    host = world.issuer.rstrip("/")
    assert refused(world, logins) == (
        f"`authorization_endpoint` of {host} has a fragment, or repeats our parameter"
    )


def test_an_idle_connection_to_the_redirect_address_ends_with_the_login(
    world: World, logins: KeptLogins, caplog: pytest.LogCaptureFixture
) -> None:
    idle: list[socket.socket] = []

    async def visit(shown: AuthorizationPrompt) -> None:
        target = urlsplit(parse_qs(urlsplit(shown.url).query)["redirect_uri"][0])
        idle.append(socket.create_connection((target.hostname, target.port)))
        idle[0].send(b"GET / HTTP/1.1\r\n")
        await agree(shown)

    async def main() -> None:
        await log_in(server_of(world), logins.find_keeper(server_of(world)), visit)

    asyncio.run(main())
    idle[0].close()
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
