"""Explain to the author of a server's entry why the server could not be reached or broke the connection.

The texts of the exceptions are for programmers, and some repeat what was sent.
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
        """Return the error of a request through the proxy."""
        return f"the proxy{f' {self.address}' if self.address else ''} that {self.variable} names: {why}"

    @property
    def remedy(self) -> str:
        """What a person can do about it."""
        return f"Correct {self.variable}, unset it, or name the host in NO_PROXY"


_CLOSED = ("Server disconnected", "peer closed connection")


def describe_cause(error: Exception) -> str:
    """Return why a request failed, without repeating the request or the answer."""
    causes = (_of_system(each) for each in _iterate_causes(error))
    return next(filter(None, causes), None) or _of_http(error)


def find_proxy(url: httpx2.URL, error: Exception) -> Proxy | None:
    """Return the proxy that made a request to `url` fail; None if the cause is another.

    A connection whose TLS fails had reached the server.
    """
    if not isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return None
    if any(isinstance(each, ssl.SSLError) for each in _iterate_causes(error)):
        return None
    name, value = _choose_proxy(url)
    return Proxy(name, _without_credentials(value)) if value else None


def _without_credentials(value: str) -> str:
    """Return the address of a proxy without user and password; "" if these cannot be told apart reliably."""
    url = _parse_proxy(value)
    if url is None or "@" in f"{url.path}{url.query.decode()}{url.fragment}":
        return ""
    return f"{url.scheme}://{url.netloc.decode()}"


def _parse_proxy(value: str) -> httpx2.URL | None:
    """Return the address of a proxy, which may lack its scheme; None if it is not valid."""
    try:
        return httpx2.Proxy(_with_scheme(value)).url
    except (ValueError, httpx2.InvalidURL):
        return None


def _with_scheme(value: str) -> str:
    return value if "://" in value else f"http://{value}"


def build_client(make: Callable[[httpx2.AsyncBaseTransport], Client], url: httpx2.URL) -> Client:
    """Return the HTTP client that `make` builds on a transport for the server at `url`.

    Raises ConfigurationError when an environment variable that applies to `url` names a proxy or certificates that
    cannot be used. Variables for other addresses do not matter, although the library itself would reject all of them.
    """
    return make(_ProxyTransport(url))


class _ProxyTransport(httpx2.AsyncBaseTransport):
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
    """Return the environment variable that names the proxy for `url`, and its value; two empty strings if none."""
    proxies = getproxies()
    if any(_is_exempt(url, entry.strip()) for entry in proxies.get("no", "").split(",")):
        return "", ""
    found = ((_as_set(f"{scheme}_proxy"), proxies.get(scheme)) for scheme in (url.scheme, "all"))
    return next(((name, value) for name, value in found if value), ("", ""))


def _is_exempt(url: httpx2.URL, entry: str) -> bool:
    """Return whether an entry of NO_PROXY matches `url`: `*`, a domain, an address or a network, as in curl."""
    if not entry or entry == "*":
        return bool(entry)
    try:
        return ip_address(url.host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a host name
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
    """Return why the value of a proxy variable is not valid, and what to write; "" if it is.

    The text does not repeat the value: a proxy's address may contain a password.
    """
    url = _parse_proxy(value)
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


def _as_set(name: str) -> str:
    """Return a variable's name as the environment spells it; both cases count."""
    return name if name in os.environ else name.upper()


def _of_system(error: BaseException) -> str | None:
    match error:
        case ssl.SSLCertVerificationError():
            why = error.verify_message.rstrip(".")
            return f"its certificate is not trusted: {why}; SSL_CERT_FILE can name a file with its issuer's certificate"
        case ssl.SSLError():
            return "the server does not use TLS"
        case socket.gaierror():
            return "its host name is unknown"
        case OSError() if error.errno is not None:
            return os.strerror(error.errno).lower()
        case _:
            return None


def _of_http(error: Exception) -> str:
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


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes; of several causes the first one."""
    while error is not None:
        yield error
        several = (
            cast("BaseExceptionGroup[BaseException]", error) if isinstance(error, ExceptionGroup) else None
        )
        error = several.exceptions[0] if several is not None else error.__cause__ or error.__context__
