"""One POST over https to an address that may be untrusted; the address is checked first.

The name is resolved once. Each of its addresses must be public or in a granted network, and the connection goes to a
checked address, even if the name resolves to another one a moment later. The certificate must be valid for the name.
Redirects and proxies are not followed, because they would lead elsewhere.
"""

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network

import httpx2

from paddock.model.addresses import MAX_PORT, Address, is_port, is_public, really
from paddock.model.errors import SdkError

URL_CHARS = 2_000
ANSWER_BYTES = 64 * 1024
"""Maximum number of bytes that are read of an answer; its content does not matter."""
_TIMEOUT_S = 10.0


class NotSentError(Exception):
    """The POST did not arrive; the text says why and contains no secret."""

    def __init__(self, message: str, *, retryable: bool) -> None:
        super().__init__(message)
        self.retryable = retryable


class _UnreachableError(NotSentError):
    """One of several addresses does not answer."""


def check_url(text: str) -> httpx2.URL:
    """Return the address in a text. Raises SdkError unless it is https with a host and without a user."""
    try:
        url = httpx2.URL(text) if len(text) <= URL_CHARS else None
    except httpx2.InvalidURL:
        url = None
    if url is None or url.scheme != "https" or not url.host or url.userinfo:
        raise SdkError(f"the url must be https://host/path without a user, of at most {URL_CHARS} characters")
    if not is_port(url.port):
        raise SdkError(f"the url names port {url.port}, but a port is 1 to {MAX_PORT}")
    return url.copy_with(fragment=None)


async def send_post(url: httpx2.URL, body: bytes, headers: Mapping[str, str], networks: Sequence[str]) -> int:
    """Send `body` and return the status of the answer, a 2xx. Takes at most 10 seconds. Raises NotSentError."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            addresses = await _resolve_addresses(url, networks)
            for address in addresses[:-1]:
                try:
                    return await _send_to_address(url, body, headers, address)
                except _UnreachableError:
                    continue
            return await _send_to_address(url, body, headers, addresses[-1])
    except TimeoutError:
        raise NotSentError(f"{url.host} did not answer within {_TIMEOUT_S:.0f} s", retryable=True) from None


async def _send_to_address(url: httpx2.URL, body: bytes, headers: Mapping[str, str], address: Address) -> int:
    context = ssl.create_default_context()
    pinned = url.copy_with(host=f"[{address}]" if address.version == 6 else str(address))
    named = {**headers, "host": url.netloc.decode("ascii"), "accept-encoding": "identity"}
    try:
        async with (
            httpx2.AsyncClient(
                verify=context, trust_env=False, follow_redirects=False, timeout=_TIMEOUT_S
            ) as client,
            client.stream(
                "POST",
                pinned,
                content=body,
                headers=named,
                extensions={"sni_hostname": url.raw_host.decode("ascii")},
            ) as answer,
        ):
            status, size = answer.status_code, 0
            async for chunk in answer.aiter_raw():
                size += len(chunk)
                if size > ANSWER_BYTES:
                    break
    except httpx2.ConnectError as error:
        raise _UnreachableError(f"{url.host}: {error}", retryable=True) from None
    except httpx2.HTTPError as error:
        raise NotSentError(f"{url.host}: {type(error).__name__}: {error}", retryable=True) from None
    if not 200 <= status < 300:
        raise NotSentError(f"{url.host} answered {status}", retryable=status == 429 or status >= 500)
    return status


async def _resolve_addresses(url: httpx2.URL, networks: Sequence[str]) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            url.raw_host.decode("ascii"), url.port or 443, type=socket.SOCK_STREAM
        )
    except UnicodeError:
        raise NotSentError(f"{url.host}: this is not the name of a host", retryable=False) from None
    except OSError as error:
        raise NotSentError(f"{url.host}: {error.strerror}", retryable=True) from None
    addresses = [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]
    granted = [ip_network(network) for network in networks]
    for address in addresses:
        if not (is_public(address) or any(really(address) in network for network in granted)):
            what = f"{url.host} leads to {address}, which is not a public address"
            raise NotSentError(
                f"{what}; name its network in `webhook_networks` under [sdk] to allow it", retryable=False
            )
    if not addresses:
        raise NotSentError(f"{url.host} has no address", retryable=True)
    return addresses
