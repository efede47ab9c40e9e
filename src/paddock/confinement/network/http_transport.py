"""HTTP on the rules of `dial` and `outer_proxy`.

ProxyTransport    for hosts that the user named: through the proxy of the environment
send_checked      for hosts that others named: resolved once, checked, connected to a checked address, no proxy
describe_cause    why a request failed, for the author of the address
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import NamedTuple, cast

import httpx2

from paddock.confinement.network.dial import MAX_ADDRESSES, find_addresses
from paddock.confinement.network.outer_proxy import ProxyVariable, default_port, find_proxy_variable
from paddock.model.addresses import MAX_PORT, Address, is_port
from paddock.model.errors import ConfigurationError
from paddock.model.host_names import Authority, quote_host, read_host

Check = Callable[[Sequence[Address]], Awaitable[None]]
"""Raises an error if one of the addresses of a host must not be reached."""
_LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=20)
"""The limits that the library has by default."""
_CLOSED = ("Server disconnected", "peer closed connection")
"""Texts of `httpcore2` and `h11` for a server that closed the connection, for which they have no type and no code. They
decide only how the failure is worded."""


def read_url_authority(url: httpx2.URL) -> Authority:
    """Return host and port of a URL, as programs' connections name them.

    Raises httpx2.InvalidURL for a host in a form that libraries read differently, such as `127.1`.
    """
    try:
        return Authority(read_host(url.raw_host.decode("ascii")), url.port or default_port(url.scheme))
    except ValueError as error:
        raise httpx2.InvalidURL(str(error)) from None


async def send_checked(
    request: httpx2.Request, check: Check, *, timeout_s: float, max_bytes: int
) -> httpx2.Response:
    """Send a request to a host that others named, and return the answer with its type as the only header.

    The host is resolved once. The connection goes to one of its addresses, which `check` has all permitted, and the
    certificate must be valid for the name. A body is cut off soon after `max_bytes`, so that a longer one is recognized
    by its length. No proxy is used, because it would resolve the name again, and no redirect is followed.

    Raises DialRefusedError for a name without an address, TimeoutError, httpx2.TransportError, httpx2.InvalidURL, and
    the errors of `check`.
    """
    authority = read_url_authority(request.url)
    async with asyncio.timeout(timeout_s):
        addresses = await find_addresses(authority)
        await check(addresses)
        context = await asyncio.to_thread(ssl.create_default_context)
        async with httpx2.AsyncHTTPTransport(verify=context, trust_env=False) as transport:
            answer = await _send_to_any(transport, request, authority, addresses[:MAX_ADDRESSES], timeout_s)
            body = bytearray()
            async with aclosing(answer):
                async for chunk in answer.aiter_raw():
                    body += chunk
                    if len(body) > max_bytes:
                        break
    kept = {name: answer.headers[name] for name in ("content-type",) if name in answer.headers}
    return httpx2.Response(answer.status_code, headers=kept, content=bytes(body), request=request)


async def _send_to_any(
    transport: httpx2.AsyncHTTPTransport,
    request: httpx2.Request,
    authority: Authority,
    addresses: Sequence[Address],
    timeout_s: float,
) -> httpx2.Response:
    """Send a request to the first address that accepts a connection. Each has an equal part of the time for that."""
    extensions = {"sni_hostname": authority.host, "timeout": {"connect": timeout_s / len(addresses)}}
    headers = {"accept": "*/*", "user-agent": "paddock", **request.headers, "accept-encoding": "identity"}
    *others, last = (
        httpx2.Request(
            request.method,
            request.url.copy_with(host=quote_host(str(address))),
            headers=headers,  # with the name of the host
            stream=request.stream,
            extensions=extensions,
        )
        for address in addresses
    )
    for aimed in others:
        try:
            return await transport.handle_async_request(aimed)
        except (httpx2.ConnectError, httpx2.ConnectTimeout):
            continue
    return await transport.handle_async_request(last)


class ProxyTransport(httpx2.AsyncBaseTransport):
    """Sends requests to the host of `url` through the environment's proxy for their scheme.

    A server may redirect from http to https, which may have another proxy.
    """

    def __init__(self, url: httpx2.URL, limits: httpx2.Limits = _LIMITS) -> None:
        """Raise ConfigurationError when a variable that applies to `url` names a proxy or certificates in vain.

        Variables for other addresses do not matter, although the library itself would reject all of them.
        """
        self._limits = limits
        self._transports = {url.scheme: _open_transport(url, limits)}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        transport = self._transports.get(request.url.scheme)
        if transport is None:
            try:
                opened = await asyncio.to_thread(_open_transport, request.url, self._limits)
            except ConfigurationError as problem:
                raise httpx2.ProxyError(str(problem)) from None
            transport = self._transports.setdefault(request.url.scheme, opened)
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


def _open_transport(url: httpx2.URL, limits: httpx2.Limits) -> httpx2.AsyncHTTPTransport:
    variable = find_proxy_variable(url.scheme, read_url_authority(url))
    if variable is not None:
        # The texts do not repeat the value: a proxy's address may contain a password.
        name, address = variable.name, _parse_proxy(variable)
        if address is None or not address.host:
            raise ConfigurationError(
                f"{name} is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it"
            )
        if not is_port(address.port):
            raise ConfigurationError(
                f"{name} names port {address.port}, but a port is 1 to {MAX_PORT}; correct it, or unset it"
            )
    try:
        return httpx2.AsyncHTTPTransport(proxy=None if variable is None else variable.address, limits=limits)
    except (ValueError, OSError):
        if not (why := _explain_tls_variable()):
            raise
        raise ConfigurationError(why) from None


class FailedProxy(NamedTuple):
    """A proxy of the environment that made a request fail."""

    variable: str
    address: str
    """Without credentials; may be empty."""

    def explain_failure(self, why: str) -> str:
        """Return the error of a request through the proxy."""
        return f"the proxy{f' {self.address}' if self.address else ''} that {self.variable} names: {why}"

    @property
    def remedy(self) -> str:
        """What a person can do about it."""
        return f"Correct {self.variable}, unset it, or name the host in NO_PROXY"


def find_failed_proxy(url: httpx2.URL, error: Exception) -> FailedProxy | None:
    """Return the proxy that made a request to `url` fail; None if the cause is another.

    A connection whose TLS fails had reached the server.
    """
    if not isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return None
    if any(isinstance(each, ssl.SSLError) for each in _iterate_causes(error)):
        return None
    variable = find_proxy_variable(url.scheme, read_url_authority(url))
    if variable is None:
        return None
    address = _parse_proxy(variable)
    # Without user and password, and without all of it if these cannot be told apart reliably.
    if address is None or "@" in f"{address.path}{address.query.decode()}{address.fragment}":
        return FailedProxy(variable.name, "")
    return FailedProxy(variable.name, f"{address.scheme}://{address.netloc.decode()}")


def describe_cause(error: Exception) -> str:
    """Return why a request failed, for the author of its address.

    The texts of the exceptions are for programmers, and some repeat what was sent or answered.
    """
    for cause in _iterate_causes(error):
        if why := _describe_system_error(cause):
            return why
    match error:
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.LocalProtocolError():
            return "the request is not valid HTTP"
        case httpx2.ProtocolError():
            return "it closed the connection" if str(error).startswith(_CLOSED) else "its answer is not HTTP"
        case httpx2.InvalidURL():
            return "its address is not valid"
        case _:
            return "the connection broke"


def _describe_system_error(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"its certificate is not trusted: {why}; {_explain_trust()}"
        case ssl.SSLError():
            return "the server does not use TLS"
        case socket.gaierror():
            return "its host name is unknown"
        case OSError() if error.errno is not None:
            return os.strerror(error.errno).lower()
        case _:
            return None


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes; of several causes the first one."""
    while error is not None:
        yield error
        several = (
            cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, ExceptionGroup) else None
        )
        error = several.exceptions[0] if several is not None else error.__cause__ or error.__context__


def _parse_proxy(variable: ProxyVariable) -> httpx2.URL | None:
    """Return the address of a proxy; None if it is not valid."""
    try:
        return httpx2.Proxy(variable.address).url
    except (ValueError, httpx2.InvalidURL):
        return None


def _explain_trust() -> str:
    """Return how to trust a certificate, by the variable that httpx2 obeys. A missing SSL_CERT_DIR trusts nothing."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if os.environ.get(name):
            return f"only issuers in {name} are trusted; add its issuer's certificate there, or unset {name}"
    return "SSL_CERT_FILE can name a file with its issuer's certificate"


def _explain_tls_variable() -> str:
    """Return which environment variable names files for TLS that cannot be used, and why; "" if each is in order."""
    log = Path(os.environ.get("SSLKEYLOGFILE", ""))
    if log.name and (log.is_dir() or not os.access(log if log.exists() else log.parent, os.W_OK)):
        return f"SSLKEYLOGFILE names {log}, which cannot be written; correct it, or unset it"
    for name, kind in (("SSL_CERT_FILE", Path.is_file), ("SSL_CERT_DIR", Path.is_dir)):
        place = os.environ.get(name)
        if place and not (kind(Path(place)) and os.access(place, os.R_OK)):
            return f"{name} names {place}, which cannot be read; correct it, or unset it"
        if place and name == "SSL_CERT_FILE":
            try:
                ssl.create_default_context(cafile=place)
            except ssl.SSLError:
                return f"{name} names {place}, which contains no certificates; correct it, or unset it"
    return ""
