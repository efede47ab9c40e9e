"""Requests to authorization servers. The upstream server names them, so that each address is checked first.

A server may name any address and so make Paddock send requests there. Each address of a host must be public, or as
local as the server itself: on this machine if the server is, in a private network if the server is. The connection goes
to an address that was checked. Only https is allowed, except for a server on this machine. Redirects and proxies are
not followed.
"""

import asyncio
from collections.abc import Sequence

import httpx2

from paddock.confinement.network.dial import DialRefusedError, explain_address, find_addresses
from paddock.confinement.network.http_transport import CheckedTransport, read_url_authority
from paddock.engines.servers.auth.tokens import LoginFailed
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
                return await _send(request, CheckedTransport(self._check_addresses))
        except TimeoutError:
            raise LoginFailed(
                f"{_render_url(request.url)} did not answer within {TIMEOUT_S:g} seconds"
            ) from None
        except DialRefusedError as error:
            raise LoginFailed(f"{_render_url(request.url)} cannot be found: {error}") from None
        except httpx2.HTTPError as error:
            raise LoginFailed(
                f"{_render_url(request.url)} cannot be reached: {type(error).__name__}"
            ) from None

    async def _check_addresses(self, url: httpx2.URL, addresses: Sequence[Address]) -> None:
        """Raise LoginFailed for an address that is not public, unless it is as local as the server."""
        faults = [(address, what) for address in addresses if (what := explain_address(address))]
        if not faults:
            return
        own = await find_addresses(read_url_authority(self._server))
        for address, what in faults:
            if is_public(address):  # of this machine: only for a server with the same name
                alike = url.host == self._server.host
            else:
                alike = any(_is_as_local(address, each) for each in own) and (
                    self._local
                    or not really(address).is_loopback  # a name may resolve to this machine for a moment
                )
            if not alike:
                raise LoginFailed(
                    f"{_render_url(url)} leads to {address}, which is {what}; "
                    "a server may not make Paddock connect to it"
                )


def _is_as_local(address: Address, own: Address) -> bool:
    """Return whether an address is at most as local as the server: on this machine, or in a private network."""
    this, home = really(address), really(own)
    if this.is_loopback or home.is_loopback:
        return this.is_loopback and home.is_loopback
    if this.is_link_local or this.is_multicast or this.is_unspecified or this.is_reserved:
        return False
    return this.is_private and home.is_private


async def _send(request: httpx2.Request, transport: CheckedTransport) -> httpx2.Response:
    """Send a request and return the whole answer, with its type as the only header."""
    url = request.url
    request.headers["accept-encoding"] = "identity"
    async with httpx2.AsyncClient(transport=transport, trust_env=False, timeout=TIMEOUT_S) as client:
        sent = client.build_request(
            request.method, url, content=await request.aread(), headers=request.headers
        )
        answer = await client.send(sent, stream=True, follow_redirects=False)
        try:
            body = bytearray()
            async for chunk in answer.aiter_raw():
                body += chunk
                if len(body) > ANSWER_BYTES:
                    raise LoginFailed(f"the answer of {_render_url(url)} is larger than {ANSWER_BYTES} bytes")
        finally:
            await answer.aclose()
    kept = {name: answer.headers[name] for name in ("content-type",) if name in answer.headers}
    return httpx2.Response(answer.status_code, headers=kept, content=bytes(body), request=request)


def _render_url(url: httpx2.URL) -> str:
    """Return scheme, host and path of an address, shortened; these contain no secret."""
    port = f":{url.port}" if url.port else ""
    return f"{url.scheme}://{url.host}{port}{url.path}"[:200]
