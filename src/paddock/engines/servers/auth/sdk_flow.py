"""Adapter for the MCP library's OAuth client; it runs the library's flow step by step.

The library alone would serialize all requests, would ask a person during a call, and would send the refresh token of an
earlier process to the server itself instead of the authorization server.
"""

import logging
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import AnyUrl, BaseModel, ValidationError

from paddock.engines.servers.auth.client_config import merge_scopes
from paddock.engines.servers.auth.guarded_http import AuthorizationHttp
from paddock.engines.servers.auth.tokens import Login, LoginFailed
from paddock.engines.servers.config import HttpServer
from paddock.model.texts import list_faults
from paddock.model.urls import strip_credentials

logging.getLogger("mcp.client.auth").setLevel(
    logging.CRITICAL
)  # it logs what servers answer, tokens included

_MAX_REASON_CHARS = 400
_EARLY_S = 30.0
"""Seconds before its expiry at which a token is renewed; one with a shorter life is renewed at half of it."""


class FlowStorage:
    """Stores values of the library for one flow."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self.client = client

    async def get_tokens(self) -> OAuthToken | None:
        """Return None: each flow starts without tokens."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Do nothing: the flow's context holds the tokens."""

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the registered client, if there is one."""
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store the client that the flow has registered."""
        self.client = client_info


def make_machine_flow(server: HttpServer, secret: str) -> OAuthClientProvider:
    """Return the library's flow for a client that logs in by itself."""
    from mcp.client.auth.extensions import client_credentials as of_machines  # importing it takes 100 ms

    oauth = server.oauth
    if not oauth.private_key:
        return of_machines.ClientCredentialsOAuthProvider(
            server.url, FlowStorage(), oauth.client_id, secret, issuer=oauth.issuer
        )
    signed = of_machines.SignedJWTParameters(
        issuer=oauth.client_id,
        subject=oauth.client_id,
        signing_key=oauth.private_key,
        signing_algorithm=oauth.algorithm,
    )
    sign = signed.create_assertion_provider()

    async def assertion(audience: str) -> str:
        try:
            return await sign(audience)
        except Exception:  # noqa: BLE001 - a key can be wrong in many ways, and the error may repeat it
            raise LoginFailed(f"`privateKey` of the entry is not a PEM key for {oauth.algorithm}") from None

    return of_machines.PrivateKeyJWTOAuthProvider(
        server.url, FlowStorage(), oauth.client_id, assertion, issuer=oauth.issuer
    )


async def drive_flow(
    provider: OAuthClientProvider, refused: httpx2.Response, outside: AuthorizationHttp, scope: str = ""
) -> str:
    """Run the library's flow after a 401 and return the token. `scope` is requested in addition.

    `outside` sends the flow's own requests, and no others are sent. Raises LoginFailed.
    """
    request = httpx2.Request("GET", refused.request.url)
    request.headers["mcp-protocol-version"] = LATEST_PROTOCOL_VERSION
    flow = provider.async_auth_flow(request)
    with translate_errors():
        outgoing = await anext(flow)
        headers = {name: refused.headers[name] for name in ("www-authenticate",) if name in refused.headers}
        if scope:  # the library requests the scope that the 401 names
            parts = [f'scope="{merge_scopes(extract_scope_from_www_auth(refused), scope)}"']
            if place := extract_field_from_www_auth(refused, "resource_metadata"):
                parts.append(f'resource_metadata="{place}"')
            headers["www-authenticate"] = f"Bearer {', '.join(parts)}"
        answer = httpx2.Response(refused.status_code, headers=headers, request=refused.request)
        faults: dict[type[BaseModel], str] = {}
        try:
            while (outgoing := await flow.asend(answer)) is not request:
                answer = await outside.send_request(outgoing)
                faults |= _judge_metadata(answer)
        except OAuthFlowError as error:
            # The library guesses addresses in the place of metadata that it cannot read, and fails there.
            if metadata := next(filter(None, faults.values()), ""):
                raise LoginFailed(f"Invalid metadata: {metadata}") from None
            text, why = _make_printable(str(error)), ""
            cause = error.__cause__ or error.__context__
            if answer.is_error and (code := find_refusal_code(answer)) in _ERROR_CODES:
                why = f": {code}"
            elif isinstance(cause, ValidationError):  # the library could not parse the answer
                why = f": {_describe_fault(cause, answer)}"
            elif isinstance(cause, ValueError):  # of the JSON parser, which names no field
                why = f": {_render_origin(answer)} returned no JSON object"
            elif answer.is_error:
                status = "" if "(" in text else f" ({answer.status_code})"
                why = f"{status}: {_render_origin(answer)} returned no valid `error`"
            raise LoginFailed(f"{text}{why}") from None
        except OverflowError:  # the library adds `expires_in` to the time
            raise _no_valid_life(answer) from None
        finally:
            await flow.aclose()
    tokens = provider.context.current_tokens
    return _check_tokens(tokens, answer).access_token if tokens else ""


async def refresh_login(login: Login) -> Login:
    """Return a login with a renewed token. Raises LoginFailed."""
    with translate_errors():
        provider = _Refresh(login)
        answer = await AuthorizationHttp(login.server).send_request(await provider.make_request())
        try:
            tokens = await provider.read_tokens(answer)
        except OverflowError:
            raise _no_valid_life(answer) from None
    if tokens is None:
        why = find_refusal_code(answer)
        if answer.status_code == HTTPStatus.OK:
            try:
                OAuthToken.model_validate_json(answer.content)
            except ValidationError as error:
                why = _describe_fault(error, answer)
        raise LoginFailed(f"the login has ended: {why}")
    return with_tokens(login, _check_tokens(tokens, answer))


def with_tokens(login: Login, tokens: OAuthToken) -> Login:
    """Return a login with other tokens, which must be checked already."""
    life = tokens.expires_in
    ends = None if life is None else time.time() + life - min(_EARLY_S, life / 2)
    fields = tokens.model_dump(mode="json", exclude_none=True)
    return login.model_copy(update={"tokens": fields, "expires_at": ends})


def _check_tokens(tokens: OAuthToken, answer: httpx2.Response) -> OAuthToken:
    """Return the tokens of an answer. Raises LoginFailed for a token that no header can carry, or that has expired."""
    if not all("!" <= character <= "~" for character in tokens.access_token):
        raise LoginFailed("the authorization server returned a token that is not valid")
    if tokens.expires_in is not None and tokens.expires_in < 0:
        raise _no_valid_life(answer)
    return tokens


def _no_valid_life(answer: httpx2.Response) -> LoginFailed:
    return LoginFailed(f"Invalid token response: {_render_origin(answer)} returned no valid `expires_in`")


class _Refresh(OAuthClientProvider):
    """The library's refresh, starting from a stored login."""

    def __init__(self, login: Login) -> None:
        metadata = OAuthClientMetadata(redirect_uris=[AnyUrl("http://127.0.0.1/callback")])
        super().__init__(login.server, metadata, FlowStorage())
        context = self.context
        context.client_info = OAuthClientInformationFull.model_validate(login.client)
        context.oauth_metadata = OAuthMetadata.model_validate(login.metadata)
        if login.resource:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(login.resource)
        context.current_tokens = OAuthToken.model_validate(login.tokens)
        context.protocol_version = LATEST_PROTOCOL_VERSION

    async def make_request(self) -> httpx2.Request:
        return await self._refresh_token()

    async def read_tokens(self, answer: httpx2.Response) -> OAuthToken | None:
        return self.context.current_tokens if await self._handle_refresh_response(answer) else None


@contextmanager
def translate_errors() -> Generator[None]:
    """Raise LoginFailed in place of the library's errors, because their texts repeat what servers say."""
    try:
        yield
    except OAuthFlowError as error:
        raise LoginFailed(_make_printable(str(error))) from None
    except (ValidationError, ValueError, OverflowError, RecursionError, StopAsyncIteration):
        raise LoginFailed("the authorization server breaks the protocol") from None
    except httpx2.InvalidURL:
        raise LoginFailed("an address that the server names for the login is not valid") from None


def find_refusal_code(answer: httpx2.Response) -> str:
    """Return the error code of an authorization server's refusal (RFC 6749, 5.2), or its status."""
    code: Any = None
    with suppress(ValueError, AttributeError, RecursionError):
        code = answer.json().get("error")
    return code if isinstance(code, str) and code in _ERROR_CODES else f"HTTP {answer.status_code}"


_ERROR_CODES = (
    *("invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type"),
    *("invalid_scope", "invalid_target", "access_denied", "server_error", "temporarily_unavailable"),
    *("invalid_redirect_uri", "invalid_client_metadata"),  # of registrations (RFC 7591, 3.2.2)
)


def _judge_metadata(answer: httpx2.Response) -> dict[type[BaseModel], str]:
    """Return what is wrong with the metadata in an answer, by its kind: "" for valid one. Empty for other answers."""
    if answer.status_code != HTTPStatus.OK:
        return {}
    for name, kind in _METADATA_KINDS.items():
        if f"/.well-known/{name}" in answer.request.url.path:
            try:
                kind.model_validate_json(answer.content)
            except ValidationError as error:
                return {kind: _describe_fault(error, answer)}
            return {kind: ""}
    return {}


_METADATA_KINDS: dict[str, type[BaseModel]] = {
    "oauth-protected-resource": ProtectedResourceMetadata,
    "oauth-authorization-server": OAuthMetadata,
    "openid-configuration": OAuthMetadata,
}
"""Metadata by its well-known name (RFC 9728, RFC 8414, OpenID Connect Discovery)."""


def _describe_fault(error: ValidationError, answer: httpx2.Response) -> str:
    [fault] = list_faults(error)
    field = f"no valid `{_make_printable(str(fault.path[0]))}`" if fault.path else "no JSON object"
    return f"{_render_origin(answer)} returned {field}"


def _render_origin(answer: httpx2.Response) -> str:
    """Return scheme, host and path of the address that answered, as printable ASCII."""
    return _make_printable(strip_credentials(str(answer.request.url)), ends="\n")


def _make_printable(text: str, *, ends: str = ": ") -> str:
    """Return a text up to `ends`, at most 400 characters of printable ASCII. The rest repeats the answer."""
    words = text.partition(ends)[0][:_MAX_REASON_CHARS]
    return "".join(character if " " <= character <= "~" else "?" for character in words)
