"""Why a server could not be reached, or broke off, in words for whoever wrote its entry.

The words of the exceptions are for programmers, and some repeat what was sent.
"""

import asyncio
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple, TypeVar, cast
from urllib.request import getproxies

import httpx2

from paddock.model.addresses import MAX_PORT, is_port
from paddock.model.errors import ConfigurationError

Client = TypeVar("Client", bound=httpx2.AsyncClient)


class Proxy(NamedTuple):
    """A proxy that an environment variable names."""

    variable: str
    address: str
    """Without credentials; may be empty."""

    def explain_failure(self, why: str) -> str:
        """Return why nothing was reached through it."""
        return f"the proxy{f' {self.address}' if self.address else ''} that {self.variable} names: {why}"

    @property
    def remedy(self) -> str:
        """What a person can do about it."""
        return f"Correct {self.variable}, unset it, or name the host in NO_PROXY"


_CLOSED = ("Server disconnected", "peer closed connection")


def describe_cause(error: Exception) -> str:
    """Return what became of a request or of its answer, without a word of either."""
    told = (_of_system(each) for each in _iterate_causes(error))
    return next(filter(None, told), None) or _of_http(error)


def find_proxy(url: httpx2.URL, error: Exception) -> Proxy | None:
    """Return the proxy of the environment that a request to `url` failed for; None where it was something else.

    A connection that fails its TLS had reached the server.
    """
    if not isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return None
    if any(isinstance(each, ssl.SSLError) for each in _iterate_causes(error)):
        return None
    name, value = _choose_proxy(url)
    return Proxy(name, _without_credentials(value)) if value else None


def _without_credentials(value: str) -> str:
    """Return the address of a proxy without user and password; "" where it is not sure which part they are."""
    url = _parse_proxy(value)
    if url is None or "@" in f"{url.path}{url.query.decode()}{url.fragment}":
        return ""
    return f"{url.scheme}://{url.netloc.decode()}"


def _parse_proxy(value: str) -> httpx2.URL | None:
    """Return the address of a proxy, which may lack its scheme; None for one that is none."""
    try:
        return httpx2.Proxy(_with_scheme(value)).url
    except (ValueError, httpx2.InvalidURL):
        return None


def _with_scheme(value: str) -> str:
    return value if "://" in value else f"http://{value}"


def build_client(make: Callable[[httpx2.AsyncBaseTransport], Client], url: httpx2.URL) -> Client:
    """Return the HTTP client that `make` makes with a transport for the server at `url`.

    Raises ConfigurationError when an environment variable that applies to `url` names a proxy or certificates that
    cannot be used. A proxy for other addresses may be anything: the library itself would read, and reject, them all.
    """
    return make(_ProxyTransport(url))


class _ProxyTransport(httpx2.AsyncBaseTransport):
    """Sends requests through the proxy that the environment names for their scheme.

    A server may redirect from http to https, which can have another proxy.
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
    name, value = _choose_proxy(url)
    if value and (why := _explain_proxy(name, value)):
        raise ConfigurationError(why)
    try:
        return httpx2.AsyncHTTPTransport(proxy=_with_scheme(value) if value else None)
    except (ValueError, OSError):
        if not (why := _explain_tls_variable()):
            raise
        raise ConfigurationError(why) from None


def _choose_proxy(url: httpx2.URL) -> tuple[str, str]:
    """Return the environment variable that names the proxy for `url`, and its value; two empty ones without a proxy."""
    proxies = getproxies()
    if any(_is_exempt(url, entry.strip()) for entry in proxies.get("no", "").split(",")):
        return "", ""
    found = ((_as_set(f"{scheme}_proxy"), proxies.get(scheme)) for scheme in (url.scheme, "all"))
    return next(((name, value) for name, value in found if value), ("", ""))


def _is_exempt(url: httpx2.URL, entry: str) -> bool:
    """Return whether an entry of NO_PROXY names `url`: `*`, a domain, an address or a network, as curl has them."""
    if not entry or entry == "*":
        return bool(entry)
    try:
        return ip_address(url.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a name
        pass
    scheme, _, place = entry.rpartition("://")
    try:
        named = httpx2.URL(f"all://{place}")
    except httpx2.InvalidURL:
        return False
    if scheme not in ("", "all", url.scheme) or named.port not in (None, url.port):
        return False
    domain = named.host.removeprefix("*")
    if not domain:
        return named.host == "*"
    covers_subdomains = not scheme or domain != named.host
    return url.host == domain or (covers_subdomains and url.host.endswith(f".{domain.removeprefix('.')}"))


def _explain_proxy(name: str, value: str) -> str:
    """Return why the value of an environment variable names no proxy, and what to write; "" if it is in order.

    The value is not repeated: a proxy's address may hold a password.
    """
    url = _parse_proxy(value)
    if url is None or not url.host:
        return f"{name} is no address of a proxy; write http://, https:// or socks5:// and HOST:PORT, or unset it"
    if not is_port(url.port):
        return f"{name} names port {url.port}, and a port is 1 to {MAX_PORT}; correct it, or unset it"
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
                return f"{name} names {place}, which holds no certificates; correct it, or unset it"
    return ""


def _as_set(name: str) -> str:
    """Return how a variable is spelled in the environment, where either case counts."""
    return name if name in os.environ else name.upper()


def _of_system(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"its certificate is not trusted: {why}; SSL_CERT_FILE may name who signed it"
        case ssl.SSLError():
            return "no TLS is spoken there"
        case socket.gaierror():
            return "its host name is not known"
        case OSError() if error.errno is not None:
            return os.strerror(error.errno).lower()
        case _:
            return None


def _of_http(error: Exception) -> str:
    match error:
        case httpx2.TimeoutException():
            return "no answer in time"
        case httpx2.LocalProtocolError():
            return "what is to be sent is no HTTP"
        case httpx2.ProtocolError():
            return "it closed the connection" if str(error).startswith(_CLOSED) else "its answer is no HTTP"
        case httpx2.InvalidURL():
            return "its address is none"
        case _:
            return "the connection broke"


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an exception and what caused it; of several causes the first one."""
    while error is not None:
        yield error
        several = (
            cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, ExceptionGroup) else None
        )
        error = several.exceptions[0] if several is not None else error.__cause__ or error.__context__
