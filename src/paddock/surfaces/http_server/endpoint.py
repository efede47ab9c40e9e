"""The address of a server over HTTP, and its token. Imports nothing slow, to report mistakes at once."""

import ipaddress
import os
import secrets
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from paddock.foundation.own_files import read_trusted
from paddock.model.addresses import MAX_PORT
from paddock.model.errors import ConfigurationError
from paddock.surfaces.http_server.hosts import HostNames

MCP_PATH = "/mcp"
_MIN_TOKEN_CHARS = 16
_MAX_TOKEN_BYTES = 64 * 1024


class TlsFiles(NamedTuple):
    """The certificate of a server, with its chain, and its key: two files in PEM."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Endpoint:
    """The address of a server, its token and its names."""

    listener: socket.socket
    token: str
    """The only token; empty for a server that knows its callers' tokens itself."""
    names: HostNames
    """The host names that requests may use."""
    url: str
    """The address of the server."""
    tls: TlsFiles | None = None
    """What it proves itself with; None for plain HTTP."""

    @property
    def is_local(self) -> bool:
        """Whether only processes of this machine can reach it."""
        return ipaddress.ip_address(self.listener.getsockname()[0]).is_loopback


def open_endpoint(
    address: str,
    token: str,
    names: tuple[str, ...],
    *,
    path: str = MCP_PATH,
    tls: TlsFiles | None = None,
) -> Endpoint:
    """Listen on `HOST:PORT`, `[HOST]:PORT` or `PORT` of loopback; port 0 is any free one.

    `names` are further host names that requests may use, `NAME` or `NAME:PORT`. `path` is the path of the address that
    is told. Raises ConfigurationError.
    """
    if tls is not None:
        import ssl  # few servers speak TLS themselves

        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
        except (OSError, ValueError) as problem:
            raise ConfigurationError(
                f"{tls.certificate}: this certificate cannot be used with the key {tls.key}: {problem}. "
                "Both are PEM files; the key has no password."
            ) from None
    listener = _open_listener(address)
    own_address, port = listener.getsockname()[:2]
    own = [f"[{own_address}]" if ":" in own_address else own_address]
    if ipaddress.ip_address(own_address).is_loopback:
        own.append("localhost")
    scheme = "http" if tls is None else "https"
    try:
        known = HostNames.of(own, port, names, scheme=scheme)
    except ConfigurationError:
        listener.close()
        raise
    return Endpoint(listener, token, known, f"{scheme}://{own[0]}:{port}{path}", tls)


def read_token(file: Path) -> str:
    """Return the token in a file that only its owner can read. Create a missing file with a new token.

    Raises ConfigurationError.
    """
    try:
        with open(
            os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as new:  # opens a descriptor
            new.write(secrets.token_urlsafe(32) + "\n")
    except FileExistsError:
        pass
    except OSError as problem:
        raise ConfigurationError(f"{file}: cannot write this token file: {problem.strerror}") from None
    return read_existing_token(file)


def read_existing_token(file: Path) -> str:
    """Return the token in a file that only its owner can read. Raises ConfigurationError.

    The group may read a file of root, as with keys of libpq: a Secret that Kubernetes mounts has the group of the pod.
    """
    try:
        token = read_trusted(file, _MAX_TOKEN_BYTES).decode("ascii").strip()
        facts = file.stat()
        allowed = 0 if facts.st_uid else stat.S_IRGRP
        if facts.st_mode & 0o077 & ~allowed:
            raise ConfigurationError(f"{file}: others can read this token; run: chmod 600 {file}")
    except (OSError, UnicodeDecodeError) as problem:  # NotOursError is an OSError
        why = getattr(problem, "strerror", None) or problem
        raise ConfigurationError(f"{file}: cannot read this token file: {why}") from None
    return check_token(token, str(file))


def check_token(token: str, where: str) -> str:
    """Return a token that is long enough. Raises ConfigurationError."""
    if len(token) < _MIN_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{where}: a token is at least {_MIN_TOKEN_CHARS} ASCII characters without spaces; "
            'make one with: python3 -c "import secrets; print(secrets.token_urlsafe(32))"'
        )
    return token


def _open_listener(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not (port.isascii() and port.isdigit()):
        raise ConfigurationError(f"--http {address}: this is not HOST:PORT; for example 127.0.0.1:8700")
    if len(port) > len(str(MAX_PORT)) or int(port) > MAX_PORT:
        raise ConfigurationError(f"--http {address}: a port is at most {MAX_PORT}")
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen()
    except UnicodeError:
        raise ConfigurationError(f"--http {address}: this is not the name of a host") from None
    except OSError as problem:
        raise ConfigurationError(f"--http {address}: cannot listen there: {problem.strerror}") from problem
    return listener
