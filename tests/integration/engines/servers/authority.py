"""An upstream server that wants a login, and its authorization server, both of the MCP library, on loopback.

A test may put an answer of its own in the place of any path, as a server that means harm would.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from tests.support.processes import PATIENCE_S

from paddock.engines.secrets.stored_logins import KeptLogins
from paddock.engines.servers.auth.code_flow import AuthorizationPrompt
from paddock.engines.servers.config import HttpServer
from paddock.policy.settings.schema import Settings

Twist = Callable[[Request], Awaitable[Response | None] | Response | None]


@dataclass
class Authority:
    """Gives tokens to whoever asks, and remembers what it was asked."""

    lifetime: int = 3600
    scopes: list[str] = field(default_factory=list)
    """What is granted besides what is asked for."""
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    revoked: list[str] = field(default_factory=list)
    refreshes: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, _client: Any, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, _client: Any, code: AuthorizationCode) -> OAuthToken:
        del self.codes[code.code]
        return self._tokens(code.client_id, code.scopes, code.resource)

    async def load_refresh_token(self, _client: Any, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        self.refreshes += 1
        return self._tokens(client.client_id, scopes or refresh_token.scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.revoked.append(token.token)

    def _tokens(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = f"access-{secrets.token_urlsafe(24)}", f"refresh-{secrets.token_urlsafe(24)}"
        ends = int(time.time()) + 3600
        self.access[access] = AccessToken(
            token=access, client_id=client, scopes=scopes, expires_at=ends, resource=resource
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client, scopes=scopes, resource=resource
        )
        return OAuthToken(
            access_token=access,
            refresh_token=refresh,
            expires_in=self.lifetime,
            scope=" ".join(scopes) or None,
        )


class Twisted:
    """Lets a test answer in the place of an application, and notes every request."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.twists: dict[str, Twist] = {}
        self.seen: list[tuple[str, str, str]] = []
        """Method, path with query, and `Authorization` of every request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            request = Request(scope, receive)
            target = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            self.seen.append((request.method, target, request.headers.get("authorization", "")))
            if twist := self.twists.get(request.url.path):
                body = await request.body()
                answer = twist(request)
                response = await answer if isinstance(answer, Awaitable) else answer
                if response is not None:
                    await response(scope, receive, send)
                    return
                receive = _again(body, receive)
        await self.app(scope, receive, send)


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read to whoever reads it next."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


@dataclass
class World:
    authority: Authority
    outer: Twisted
    """The authorization server."""
    inner: Twisted
    """The MCP server."""
    issuer: str
    url: str


def server_of(world: World) -> HttpServer:
    return HttpServer("guarded", world.url)


def kept(home: Path, file: str = ".mcp.json") -> KeptLogins:
    settings = Settings.model_validate(
        {"vault": {"backend": "file", "directory": home / "vault"}, "servers": {"state": home / "state"}}
    )
    return KeptLogins(settings, home / file)


async def agree(visit: AuthorizationPrompt) -> None:
    """Open the address, as a browser of a person who says yes."""
    async with httpx2.AsyncClient(follow_redirects=True, trust_env=False) as browser:
        await browser.get(visit.url)


@contextmanager
def world() -> Generator[World]:
    """Run both servers in a thread of their own."""
    made: list[World] = []
    ready, done = threading.Event(), threading.Event()

    async def main() -> None:
        async with _serving() as running:
            made.append(running)
            ready.set()
            await asyncio.to_thread(done.wait)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    try:
        assert ready.wait(PATIENCE_S)
        yield made[0]
    finally:
        done.set()
        thread.join()


@asynccontextmanager
async def _serving() -> AsyncGenerator[World]:
    authority = Authority()
    outer, inner = Twisted(Starlette()), Twisted(Starlette())
    async with listening(outer) as issuer, listening(inner) as home:
        url = f"{home}/mcp"
        registration = ClientRegistrationOptions(enabled=True)
        outer.app = Starlette(
            routes=create_auth_routes(
                authority,
                AnyHttpUrl(issuer),
                client_registration_options=registration,
                revocation_options=RevocationOptions(enabled=True),
            )
        )
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(issuer), resource_server_url=AnyHttpUrl(url), validate_token_resource=True
        )
        server = MCPServer("guarded", auth=settings, token_verifier=authority)
        server.tool(name="whisper")(lambda: "a word")
        app = server.streamable_http_app()
        async with app.router.lifespan_context(app):
            inner.app = app
            yield World(authority, outer, inner, f"{issuer}/", url)


@asynccontextmanager
async def listening(app: ASGIApp) -> AsyncGenerator[str]:
    config = uvicorn.Config(app, host="127.0.0.1", port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    server.config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    ticking = asyncio.create_task(server.main_loop())
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = server.force_exit = True
        await ticking
        await server.shutdown()
