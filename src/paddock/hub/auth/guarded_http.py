"""Requests to authorization servers. The upstream server names them, so that each address is checked first.

A server may name any address and so make Paddock send requests there. Each address of a host must be public, or as
local as the server itself: on this machine if the server is, in a private network if the server is. The connection goes
to an address that was checked. Only https is allowed, except for a server on this machine. Redirects and proxies are
not followed.
"""

import asyncio
import socket
import ssl
from ipaddress import ip_address

import httpx2

from paddock.hub.auth.tokens import LoginFailed
from paddock.model.addresses import Address, is_port, is_public, really

ANSWER_BYTES = 256 * 1024
"""Maximum size of an answer, in bytes; a larger one is rejected."""
MAX_REQUESTS = 20
"""Maximum number of requests of one login or refresh."""
_MAX_URL_CHARS = 2000
TIMEOUT_S = 15.0
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class AuthorizationHttp:
    """Sends requests to the authorization servers that one upstream server names."""

    def __init__(self, server: str) -> None:
        """Use the address of the upstream server. Raises LoginFailed if it is not valid."""
        try:
            self._server = httpx2.URL(server)
        except httpx2.InvalidURL:
            raise LoginFailed("the `url` of the server is not a valid address; correct it") from None
        self._local = self._server.host in _LOCAL_HOSTS
        self._left = MAX_REQUESTS

    def check_url(self, url: httpx2.URL) -> None:
        """Raise LoginFailed unless Paddock may send a request to `url`, or show it to a person."""
        odd = not url.host or url.userinfo or not is_port(url.port) or len(str(url)) > _MAX_URL_CHARS
        if odd or url.scheme not in ("https", "http"):
            raise LoginFailed(f"the address {_render_url(url)} for the login is not one that Paddock may use")
        if url.scheme == "http" and not (self._local and url.host in _LOCAL_HOSTS):
            raise LoginFailed(f"the address {_render_url(url)} for the login is not https")

    async def send_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the whole answer, within 15 seconds. Raises LoginFailed."""
        self.check_url(request.url)
        self._left -= 1
        if self._left < 0:
            raise LoginFailed(f"the login takes more than {MAX_REQUESTS} requests")
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._try_addresses(request)
        except TimeoutError:
            raise LoginFailed(
                f"{_render_url(request.url)} did not answer within {TIMEOUT_S:g} seconds"
            ) from None

    async def _try_addresses(self, request: httpx2.Request) -> httpx2.Response:
        *others, last = await self._resolve_allowed(request.url)
        for address in others:
            try:
                return await _send_to_address(request, address)
            except httpx2.ConnectError:
                continue
            except httpx2.HTTPError as error:
                raise _make_failure(request, error) from None
        try:
            return await _send_to_address(request, last)
        except httpx2.HTTPError as error:
            raise _make_failure(request, error) from None

    async def _resolve_allowed(self, url: httpx2.URL) -> list[Address]:
        addresses = await _resolve_host(url)
        if not all(map(is_public, addresses)):
            home = await _resolve_host(self._server)
            for address in addresses:
                alike = any(_is_as_local(address, own) for own in home) and (
                    self._local
                    or not really(address).is_loopback  # a name may resolve to this machine for a moment
                )
                if not is_public(address) and not alike:
                    raise LoginFailed(
                        f"{_render_url(url)} leads to {address}, which is not a public address; "
                        "a server may not make Paddock connect to it"
                    )
        return addresses


def _is_as_local(address: Address, own: Address) -> bool:
    """Return whether an address is at most as local as the server: on this machine, or in a private network."""
    this, home = really(address), really(own)
    if this.is_loopback or home.is_loopback:
        return this.is_loopback and home.is_loopback
    if this.is_link_local or this.is_multicast or this.is_unspecified or this.is_reserved:
        return False
    return this.is_private and home.is_private


async def _resolve_host(url: httpx2.URL) -> list[Address]:
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            url.raw_host.decode("ascii").strip("[]"), port, type=socket.SOCK_STREAM
        )
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "its host is not a valid name"
        raise LoginFailed(f"{_render_url(url)} cannot be found: {why}") from None
    if not found:
        raise LoginFailed(f"{_render_url(url)} has no address")
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


async def _send_to_address(request: httpx2.Request, address: Address) -> httpx2.Response:
    url = request.url
    pinned = url.copy_with(host=f"[{address}]" if address.version == 6 else str(address))
    headers = httpx2.Headers(request.headers)
    headers["host"], headers["accept-encoding"] = url.netloc.decode("ascii"), "identity"
    trusted = await asyncio.to_thread(ssl.create_default_context)
    client = httpx2.AsyncClient(verify=trusted, trust_env=False, timeout=TIMEOUT_S)
    names = {"sni_hostname": url.raw_host.decode("ascii")}
    async with (
        client,
        client.stream(
            request.method, pinned, content=await request.aread(), headers=headers, extensions=names
        ) as answer,
    ):
        body = bytearray()
        async for chunk in answer.aiter_raw():
            body += chunk
            if len(body) > ANSWER_BYTES:
                raise LoginFailed(f"the answer of {_render_url(url)} is larger than {ANSWER_BYTES} bytes")
    kept = {name: answer.headers[name] for name in ("content-type",) if name in answer.headers}
    return httpx2.Response(answer.status_code, headers=kept, content=bytes(body), request=request)


def _make_failure(request: httpx2.Request, error: httpx2.HTTPError) -> LoginFailed:
    return LoginFailed(f"{_render_url(request.url)} cannot be reached: {type(error).__name__}")


def _render_url(url: httpx2.URL) -> str:
    """Return scheme, host and path of an address, shortened; these contain no secret."""
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.host}{port}{url.path}"[:200]
