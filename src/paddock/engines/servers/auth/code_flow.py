"""A person's login: the authorization code flow with PKCE. It starts only on a person's request.

The login opens an ordinary connection to the server, and the first 401 starts the flow. The server's tools are then
listed with the new token. Therefore a login that is stored has worked.
"""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata
from pydantic import AnyUrl

from paddock.engines.servers.auth.bearer import BearerAuth, TokenSource
from paddock.engines.servers.auth.client_config import merge_scopes
from paddock.engines.servers.auth.guarded_http import AuthorizationHttp
from paddock.engines.servers.auth.loopback import LoopbackListener
from paddock.engines.servers.auth.sdk_flow import (
    FlowStorage,
    drive_flow,
    find_refusal_code,
    make_machine_flow,
    translate_errors,
    with_tokens,
)
from paddock.engines.servers.auth.tokens import Login, LoginFailed, LoginStore
from paddock.engines.servers.calls.call_errors import CallFailed
from paddock.engines.servers.calls.connection import open_connection
from paddock.engines.servers.config import HttpServer
from paddock.foundation.store_threads import run_in_store_thread
from paddock.model.errors import ServerError


@dataclass(frozen=True, slots=True)
class AuthorizationPrompt:
    """The address that a person opens to log in."""

    url: str
    issuer: str
    before: str
    """The authorization server of the stored login, if it was another one; otherwise empty."""


Person = Callable[[AuthorizationPrompt], Awaitable[None]]
"""Shows a person where to log in; does not wait for the login."""


async def log_in(
    server: HttpServer, keeper: LoginStore, person: Person, *, scope: str = "", wait_ms: int = 300_000
) -> Login:
    """Let a person log in, then store and return the login. `scope` is requested in addition to the server's scopes.

    The person has `wait_ms` to log in. Raises LoginFailed or ServerError; then the stored login is unchanged.
    """
    before = await run_in_store_thread(keeper.read_login)
    outside = AuthorizationHttp(server.url)
    async with LoopbackListener(server.oauth.callback_port) as redirect:
        provider = _FlowProvider(server, redirect, person, outside, before)
        wanted = merge_scopes(server.oauth.scope, before.scope if scope and before else "", scope)
        source = _FlowToken(provider, outside, wanted)
        await _list_tools_with(server, source, wait_ms)
    login = provider.make_login()
    await save_login(keeper, login)
    return login


async def log_in_machine(server: HttpServer, secret: str) -> Login:
    """Log in as a client without a person, and return the login once its secret or key has worked.

    Raises LoginFailed or ServerError.
    """
    with translate_errors():
        provider = make_machine_flow(server, secret)
    await _list_tools_with(
        server, _FlowToken(provider, AuthorizationHttp(server.url), server.oauth.scope), server.timeout_ms
    )
    facts = {"issuer": server.oauth.issuer}
    client = {"client_id": server.oauth.client_id, "client_secret": secret}
    return Login(server=server.url, client=client, metadata=facts)


async def save_login(keeper: LoginStore, login: Login) -> None:
    """Store a login; it replaces an older one."""
    async with keeper.hold_lock():
        await run_in_store_thread(keeper.write_login, login)


async def log_out(login: Login) -> None:
    """Revoke a login at its authorization server (RFC 7009), if that offers revocation. Raises LoginFailed."""
    place = login.metadata.get("revocation_endpoint")
    if not place or not login.tokens:
        return
    with translate_errors():
        provider = OAuthClientProvider(
            login.server, OAuthClientMetadata(redirect_uris=[_ANY_REDIRECT]), FlowStorage()
        )
        client = OAuthClientInformationFull.model_validate(login.client)
        provider.context.client_info = client
        token = login.refresh_token or login.access_token
        form, headers = provider.context.prepare_token_auth(
            {"token": token, "client_id": client.client_id}, {}
        )
        answer = await AuthorizationHttp(login.server).send_request(
            httpx2.Request("POST", str(place), data=form, headers=headers)
        )
    if answer.status_code != HTTPStatus.OK:
        raise LoginFailed(f"the authorization server answered {find_refusal_code(answer)}")


_ANY_REDIRECT = AnyUrl("http://127.0.0.1/callback")


async def _list_tools_with(server: HttpServer, source: "_FlowToken", wait_ms: int) -> None:
    """Connect and list the tools with the token of the flow."""
    patient = dataclasses.replace(server, timeout_ms=wait_ms + server.timeout_ms)
    auth = BearerAuth(server.name, source)
    error: Exception | None = None
    try:
        async with (
            asyncio.timeout(wait_ms / 1000),
            open_connection(
                patient, None, probe=True, on_lost=_do_nothing, on_changed=_do_nothing, auth=auth, quiet=True
            ) as connection,
        ):
            try:
                await connection.list_tools(patient.timeout_ms)
            except CallFailed as failed:  # raised here, it would become an exception group
                error = failed.error
    except TimeoutError:
        error = LoginFailed(f"there was no login within {wait_ms / 1000:g} seconds")
    except CallFailed as failed:
        error = failed.error
    except ExceptionGroup as group:
        error = ServerError(f"the connection broke ({type(group.exceptions[0]).__name__})")
    error = source.failed or error
    if error is not None:
        raise error
    if not source.asked:
        raise LoginFailed(f"server {server.name} requires no login")


def _do_nothing() -> None:
    pass


class _FlowToken(TokenSource):
    """The token of the flow. The flow runs once; if the server refuses its token, it is not repeated."""

    def __init__(self, provider: OAuthClientProvider, outside: AuthorizationHttp, scope: str) -> None:
        self._provider = provider
        self._outside = outside
        self._scope = scope
        self._token = ""
        self._turn = asyncio.Lock()
        self.asked = False
        self.failed: LoginFailed | None = None

    async def get_token(self) -> str:
        return self._token

    async def renew_token(self, used: str, refused: httpx2.Response) -> str:
        async with self._turn:
            if not self.asked:
                self.asked = True
                try:
                    self._token = await drive_flow(self._provider, refused, self._outside, self._scope)
                except LoginFailed as error:
                    self.failed = error
                    raise
        return self._token

    def list_secrets(self) -> tuple[str, ...]:
        return (self._token,) if self._token else ()


class _FlowProvider(OAuthClientProvider):
    """The library's flow with Paddock's own choices: the client's identity, and the allowed addresses."""

    def __init__(
        self,
        server: HttpServer,
        redirect: LoopbackListener,
        person: Person,
        outside: AuthorizationHttp,
        before: Login | None,
    ) -> None:
        oauth, uris = server.oauth, [AnyUrl(redirect.uri)]
        method = "client_secret_basic" if oauth.client_secret else "none"
        known = None
        if oauth.client_id:
            known = OAuthClientInformationFull(
                client_id=oauth.client_id,
                client_secret=oauth.client_secret or None,
                token_endpoint_auth_method=method,
                redirect_uris=uris,
                issuer=oauth.issuer or None,
            )
        metadata = OAuthClientMetadata(client_name="Paddock", redirect_uris=uris)
        document = oauth.client_metadata_url or None
        super().__init__(
            server.url,
            metadata,
            FlowStorage(known),
            self._send_browser,
            redirect.wait_for_answer,
            client_metadata_url=document,
        )
        self._server = server
        self._redirect = redirect
        self._person = person
        self._outside = outside
        self._before = str(before.metadata.get("issuer", "")) if before else ""

    def make_login(self) -> Login:
        """Return the login that the flow has produced."""
        context = self.context
        tokens, client, metadata = context.current_tokens, context.client_info, context.oauth_metadata
        if tokens is None or client is None or metadata is None:
            raise LoginFailed("the authorization server returned no token")
        resource = context.protected_resource_metadata
        kept = metadata.model_dump(mode="json", exclude_none=True, include=_KEPT_SERVER_FIELDS)
        login = Login(
            server=self._server.url,
            client=client.model_dump(mode="json", exclude_none=True),
            metadata=kept,
            resource=resource.model_dump(mode="json", exclude_none=True, include=_KEPT_RESOURCE_FIELDS)
            if resource
            else {},
        )
        return with_tokens(login, tokens)

    def _select_authorization_server(self, advertised: list[str]) -> str:
        issuer = self._server.oauth.issuer
        if not issuer:
            return super()._select_authorization_server(advertised)
        for each in advertised:
            if issuers_match(each, issuer):
                return each
        raise OAuthFlowError(
            "the server names an authorization server that differs from `oauth.issuer` of its entry"
        )

    def _expected_issuer(self) -> str:
        """Choose the client's authentication method, too: this is the library's last call before it registers a client.

        An application on a person's machine cannot keep a secret (RFC 8252, 8.5), and the secret of a registration may
        expire. Without a choice the method is `client_secret_basic` (RFC 7591, 2), which some servers reject.
        """
        metadata, method = self.context.oauth_metadata, None
        offered = (metadata and metadata.token_endpoint_auth_methods_supported) or ()
        if "none" in offered:
            method = "none"
        elif "client_secret_post" in offered and "client_secret_basic" not in offered:
            method = "client_secret_post"
        self.context.client_metadata.token_endpoint_auth_method = method
        return super()._expected_issuer()

    async def _perform_authorization(self) -> httpx2.Request:
        """Check the address before a person is sent to it."""
        metadata, issuer = self.context.oauth_metadata, self._server.oauth.issuer
        if metadata is None:
            raise OAuthFlowError("the server's authorization server publishes no metadata (RFC 8414)")
        if issuer and not issuers_match(str(metadata.issuer), issuer):
            raise OAuthFlowError("the authorization server differs from `oauth.issuer` of the entry")
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise OAuthFlowError("the authorization server does not offer PKCE with S256 (RFC 7636)")
        client, methods = self.context.client_info, metadata.token_endpoint_auth_methods_supported or ()
        if client is not None and client.client_secret:
            registered = client.client_id == self._server.oauth.client_id
            # A registration without a method leaves the choice to what the server offers (RFC 7591, 2).
            if registered or client.token_endpoint_auth_method is None:
                post = "client_secret_post" in methods and "client_secret_basic" not in methods
                client.token_endpoint_auth_method = "client_secret_post" if post else "client_secret_basic"
        for place in (metadata.authorization_endpoint, metadata.token_endpoint):
            self._outside.check_url(httpx2.URL(str(place)))
        return await super()._perform_authorization()

    async def _send_browser(self, url: str) -> None:
        metadata = self.context.oauth_metadata
        issuer = str(metadata.issuer) if metadata else ""
        if metadata is not None:
            # The endpoint's own query is kept (RFC 6749, 3.1). No parameter may occur twice.
            endpoint = str(metadata.authorization_endpoint)
            parts, parameters = urlsplit(endpoint), url.removeprefix(f"{endpoint}?")
            own = parse_qs(parts.query, keep_blank_values=True)
            if parts.fragment or own.keys() & parse_qs(parameters).keys():
                raise LoginFailed(
                    f"`authorization_endpoint` of {parts.scheme}://{parts.netloc} has a fragment, "
                    "or repeats our parameter"
                )
            if parts.query:
                url = f"{endpoint}&{parameters}"
        changed = self._before and not issuers_match(issuer, self._before)
        self._redirect.expect_state(url)
        await self._person(AuthorizationPrompt(url, issuer, self._before if changed else ""))


_KEPT_SERVER_FIELDS = {"issuer", "authorization_endpoint", "token_endpoint", "revocation_endpoint"}
_KEPT_RESOURCE_FIELDS = {"resource", "authorization_servers"}
