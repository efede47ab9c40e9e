"""Requests to authorization servers. The upstream server names them, so that each address is checked first.

A server may name any address and so make Paddock send requests there. Each address of a host must be public, or as
local as the server itself: on this machine if the server is, in a private network if the server is (`send_checked`).
Only https is allowed, except for a server on this machine.
"""

from collections.abc import Sequence

import httpx2

from paddock.confinement.network.dial import DialRefusedError, explain_address, find_addresses
from paddock.confinement.network.http_transport import describe_cause, read_url_authority, send_checked
from paddock.engines.servers.auth.tokens import LoginFailed
from paddock.model.addresses import Address, is_port, is_public, really
from paddock.model.host_names import Authority
from paddock.model.urls import strip_credentials

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
            self._server = read_url_authority(httpx2.URL(server))
        except httpx2.InvalidURL:
            raise LoginFailed("the `url` of the server is not a valid address; correct it") from None
        self._local = self._server.host in _LOCAL_HOSTS
        self._left = MAX_REQUESTS

    def check_url(self, url: httpx2.URL) -> None:
        """Raise LoginFailed unless Paddock may send a request to `url`, or show it to a person."""
        try:
            host = read_url_authority(url).host
        except httpx2.InvalidURL:
            host = ""
        odd = not host or url.userinfo or not is_port(url.port) or len(str(url)) > _MAX_URL_CHARS
        if odd or url.scheme not in ("https", "http"):
            raise LoginFailed(f"the address {_render_url(url)} for the login is not one that Paddock may use")
        if url.scheme == "http" and not (self._local and host in _LOCAL_HOSTS):
            raise LoginFailed(f"the address {_render_url(url)} for the login is not https")

    async def send_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request and return the whole answer, within 15 seconds. Raises LoginFailed."""
        self.check_url(request.url)
        self._left -= 1
        if self._left < 0:
            raise LoginFailed(f"the login takes more than {MAX_REQUESTS} requests")
        shown, authority = _render_url(request.url), read_url_authority(request.url)

        async def check(addresses: Sequence[Address]) -> None:
            if what := await self._explain_refused(authority, addresses):
                raise LoginFailed(f"{shown} leads to {what}; a server may not make Paddock connect to it")

        try:
            answer = await send_checked(request, check, timeout_s=TIMEOUT_S, max_bytes=ANSWER_BYTES)
        except TimeoutError:
            raise LoginFailed(f"{shown} did not answer within {TIMEOUT_S:g} seconds") from None
        except DialRefusedError as error:
            raise LoginFailed(f"{shown} cannot be found: {error}") from None
        except httpx2.HTTPError as error:
            raise LoginFailed(f"{shown} cannot be reached: {describe_cause(error)}") from None
        if len(answer.content) > ANSWER_BYTES:
            raise LoginFailed(f"the answer of {shown} is larger than {ANSWER_BYTES} bytes")
        return answer

    async def _explain_refused(self, authority: Authority, addresses: Sequence[Address]) -> str:
        """Return which address is neither public nor as local as the server, and what it is; "" for none."""
        faults = [(address, what) for address in addresses if (what := explain_address(address))]
        if not faults:
            return ""
        own = await find_addresses(self._server)
        for address, what in faults:
            if is_public(address):  # of this machine: only for a server with the same name
                alike = authority.host == self._server.host
            else:
                alike = any(_is_as_local(address, each) for each in own) and (
                    self._local
                    or not really(address).is_loopback  # a name may resolve to this machine for a moment
                )
            if not alike:
                return f"{address}, which is {what}"
        return ""


def _is_as_local(address: Address, own: Address) -> bool:
    """Return whether an address is at most as local as the server: on this machine, or in a private network."""
    this, home = really(address), really(own)
    if this.is_loopback or home.is_loopback:
        return this.is_loopback and home.is_loopback
    if this.is_link_local or this.is_multicast or this.is_unspecified or this.is_reserved:
        return False
    return this.is_private and home.is_private


def _render_url(url: httpx2.URL) -> str:
    return strip_credentials(str(url))[:200]
