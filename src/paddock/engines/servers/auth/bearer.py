"""The token in requests to an upstream server: read from the stored login and renewed when it has expired.

This module never asks a person. If a server requires a login, the call fails at once, and its error says what to do.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable
from http import HTTPStatus
from typing import Protocol

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from paddock.engines.servers.auth.client_config import MACHINE_GRANT, is_scope
from paddock.engines.servers.auth.guarded_http import AuthorizationHttp
from paddock.engines.servers.auth.sdk_flow import drive_flow, make_machine_flow, refresh_login
from paddock.engines.servers.auth.tokens import Login, LoginStore, suggest_remedy
from paddock.engines.servers.calls.call_errors import TRACE
from paddock.engines.servers.config import HttpServer
from paddock.foundation.cancellation import wait_shielded
from paddock.foundation.store_threads import run_in_store_thread
from paddock.model.errors import PaddockError
from paddock.policy.redaction.known import ServerSecrets

_MAX_SCOPE_CHARS = 400


class TokenSource(Protocol):
    """Provides the token."""

    async def get_token(self) -> str:
        """Return the current token; empty if there is none. Raises LoginFailed."""
        ...

    async def renew_token(self, used: str, refused: httpx2.Response) -> str:
        """Return a token other than the refused one; empty if there is none. Raises LoginFailed."""
        ...

    def list_secrets(self) -> tuple[str, ...]:
        """Return the values that no text may contain."""
        ...


class BearerAuth(httpx2.Auth):
    """Puts the token into requests. If the server refuses it, writes the remedy into the call's trace."""

    def __init__(self, name: str, source: TokenSource) -> None:
        self._name = name
        self._source = source

    @property
    def secrets(self) -> ServerSecrets:
        """The current secrets of the login."""
        return ServerSecrets(self._source.list_secrets())

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; after a 401 send it once more with another token."""
        used = await self._report_failure(self._source.get_token())
        if used:
            request.headers["Authorization"] = f"Bearer {used}"
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            self._set_remedy(suggest_remedy(self._name))
            fresh = await self._report_failure(self._source.renew_token(used, response))
            if fresh:
                request.headers["Authorization"] = f"Bearer {fresh}"
                response = yield request
        if response.status_code == HTTPStatus.FORBIDDEN:
            scope = extract_scope_from_www_auth(response) or ""
            if extract_field_from_www_auth(response, "error") == "insufficient_scope" and is_scope(scope):
                self._set_remedy(suggest_remedy(self._name, scope[:_MAX_SCOPE_CHARS]))

    async def _report_failure(self, answer: Awaitable[str]) -> str:
        try:
            return await answer
        except PaddockError as error:
            self._set_remedy(f"{suggest_remedy(self._name)} ({error})")
            return ""

    def _set_remedy(self, text: str) -> None:
        if (trace := TRACE.get()) is not None:
            trace.remedy = text


def make_bearer_auth(server: HttpServer, keeper: LoginStore) -> BearerAuth:
    """Return the authentication for requests to a server."""
    source = (
        ClientCredentialsToken(server, keeper)
        if server.oauth.grant == MACHINE_GRANT
        else StoredLoginToken(keeper)
    )
    return BearerAuth(server.name, source)


class StoredLoginToken:
    """The token of a person's login."""

    def __init__(self, keeper: LoginStore) -> None:
        self._keeper = keeper
        self._login: Login | None = None
        self._known = False

    def list_secrets(self) -> tuple[str, ...]:
        return self._login.secrets if self._login else ()

    async def get_token(self) -> str:
        if not self._known:
            self._login, self._known = await run_in_store_thread(self._keeper.read_login), True
        if self._login is None:
            return ""
        if self._login.has_ended(time.time()):
            return await self._get_newer_token(self._login.access_token)
        return self._login.access_token

    async def renew_token(self, used: str, refused: httpx2.Response) -> str:
        return await self._get_newer_token(used)

    async def _get_newer_token(self, used: str) -> str:
        """Return the token that another process has renewed meanwhile; otherwise renew it."""
        async with self._keeper.hold_lock():
            login = await run_in_store_thread(self._keeper.read_login)
            if login is None or (login.access_token != used and not login.has_ended(time.time())):
                self._login = login
            elif not login.refresh_token:
                return ""
            else:
                # A renewed token that is not stored ends the login: our own cancellation must not interrupt this.
                renewal = asyncio.create_task(self._renew_login(login))
                try:
                    self._login = await asyncio.shield(renewal)
                finally:
                    await wait_shielded(renewal)
        return self._login.access_token if self._login else ""

    async def _renew_login(self, login: Login) -> Login:
        fresh = await refresh_login(login)
        await run_in_store_thread(self._keeper.write_login, fresh)
        return fresh


class ClientCredentialsToken:
    """The token of a client that logs in by itself (RFC 6749, 4.4). It lasts as long as the connection."""

    def __init__(self, server: HttpServer, keeper: LoginStore) -> None:
        self._server = server
        self._keeper = keeper
        self._token = ""
        self._secret = server.oauth.client_secret
        self._turn = asyncio.Lock()

    def list_secrets(self) -> tuple[str, ...]:
        return tuple(value for value in (self._token, self._secret) if value)

    async def get_token(self) -> str:
        return self._token

    async def renew_token(self, used: str, refused: httpx2.Response) -> str:
        async with self._turn:
            if self._token in ("", used):
                self._token = ""
                if not (self._secret or self._server.oauth.private_key):
                    login = await run_in_store_thread(self._keeper.read_login)
                    self._secret = str(login.client.get("client_secret") or "") if login else ""
                    if not self._secret:
                        return ""
                provider = make_machine_flow(self._server, self._secret)
                outside = AuthorizationHttp(self._server.url)
                self._token = await drive_flow(provider, refused, outside, self._server.oauth.scope)
        return self._token
