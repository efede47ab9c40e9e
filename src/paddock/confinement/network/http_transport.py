"""HTTP clients on the rules of `dial` and `outer_proxy`.

ProxyTransport    for hosts that the user named: through the proxy of the environment
CheckedTransport  for hosts that others named: resolved once, checked, connected to a checked address, no proxy
"""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import httpx2

from paddock.confinement.network.dial import MAX_ADDRESSES, find_addresses
from paddock.confinement.network.outer_proxy import ProxyVariable, default_port, find_proxy_variable
from paddock.model.addresses import MAX_PORT, Address, is_port
from paddock.model.errors import ConfigurationError
from paddock.model.host_names import Authority

Client = TypeVar("Client", bound=httpx2.AsyncClient)
Check = Callable[[httpx2.URL, Sequence[Address]], Awaitable[None]]
"""Raises an error for a URL whose host has an address that must not be reached."""


def read_url_authority(url: httpx2.URL) -> Authority:
    """Return host and port of a URL."""
    return Authority(url.raw_host.decode("ascii").strip("[]"), url.port or default_port(url.scheme))


class CheckedTransport(httpx2.AsyncBaseTransport):
    """Resolves the host of each request once, checks every address, and connects to the first that answers.

    The certificate must be valid for the name. Raises RefusedError for a name without an address, and the errors of
    `check`.
    """

    def __init__(self, check: Check) -> None:
        self._check = check
        self._inner: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        addresses = await find_addresses(read_url_authority(request.url))
        await self._check(request.url, addresses)
        if self._inner is None:
            context = await asyncio.to_thread(ssl.create_default_context)
            self._inner = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
        *others, last = addresses[:MAX_ADDRESSES]
        for address in others:
            try:
                return await self._inner.handle_async_request(_aim(request, address))
            except httpx2.ConnectError:
                continue
        return await self._inner.handle_async_request(_aim(request, last))

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


def _aim(request: httpx2.Request, address: Address) -> httpx2.Request:
    """Return a request that connects to an address, with the name of its host for TLS and HTTP."""
    url = request.url.copy_with(host=f"[{address}]" if address.version == 6 else str(address))
    headers = httpx2.Headers(request.headers)
    headers["host"] = request.url.netloc.decode("ascii")
    extensions = {**request.extensions, "sni_hostname": request.url.raw_host.decode("ascii")}
    return httpx2.Request(request.method, url, headers=headers, stream=request.stream, extensions=extensions)


def build_client(make: Callable[[httpx2.AsyncBaseTransport], Client], url: httpx2.URL) -> Client:
    """Return the HTTP client that `make` builds on a transport for the host of `url`.

    Raises ConfigurationError when an environment variable that applies to `url` names a proxy or certificates that
    cannot be used. Variables for other addresses do not matter, although the library itself would reject all of them.
    """
    return make(ProxyTransport(url))


class ProxyTransport(httpx2.AsyncBaseTransport):
    """Sends requests through the environment's proxy for their scheme.

    A server may redirect from http to https, which may have another proxy.
    """

    def __init__(self, url: httpx2.URL) -> None:
        self._transports = {url.scheme: _open_transport(url)}

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        transport = self._transports.get(request.url.scheme)
        if transport is None:
            try:
                opened = await asyncio.to_thread(_open_transport, request.url)
            except ConfigurationError as problem:
                raise httpx2.ProxyError(str(problem)) from None
            transport = self._transports.setdefault(request.url.scheme, opened)
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        for transport in self._transports.values():
            await transport.aclose()


def _open_transport(url: httpx2.URL) -> httpx2.AsyncHTTPTransport:
    variable = find_proxy_variable(url.scheme, read_url_authority(url))
    if variable is not None and (why := _explain_variable(variable)):
        raise ConfigurationError(why)
    try:
        return httpx2.AsyncHTTPTransport(proxy=None if variable is None else variable.address)
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
    if any(isinstance(each, ssl.SSLError) for each in iterate_causes(error)):
        return None
    variable = find_proxy_variable(url.scheme, read_url_authority(url))
    return None if variable is None else FailedProxy(variable.name, _without_credentials(variable))


def iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes; of several causes the first one."""
    while error is not None:
        yield error
        several = (
            cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, ExceptionGroup) else None
        )
        error = several.exceptions[0] if several is not None else error.__cause__ or error.__context__


def _without_credentials(variable: ProxyVariable) -> str:
    """Return the address of a proxy without user and password; "" if these cannot be told apart reliably."""
    url = _parse_proxy(variable)
    if url is None or "@" in f"{url.path}{url.query.decode()}{url.fragment}":
        return ""
    return f"{url.scheme}://{url.netloc.decode()}"


def _parse_proxy(variable: ProxyVariable) -> httpx2.URL | None:
    """Return the address of a proxy; None if it is not valid."""
    try:
        return httpx2.Proxy(variable.address).url
    except (ValueError, httpx2.InvalidURL):
        return None


def _explain_variable(variable: ProxyVariable) -> str:
    """Return why the value of a proxy variable is not valid, and what to write; "" if it is.

    The text does not repeat the value: a proxy's address may contain a password.
    """
    name, url = variable.name, _parse_proxy(variable)
    if url is None or not url.host:
        return f"{name} is not the address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it"
    if not is_port(url.port):
        return f"{name} names port {url.port}, but a port is 1 to {MAX_PORT}; correct it, or unset it"
    return ""


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
