"""A proxy of a job on a loopback socket, and the servers that it may reach, for tests."""

import asyncio
import contextlib
import datetime as dt
import functools
import http.server
import socket
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.processes import PATIENCE_S

from paddock.confinement.network.connector import ProxyTerms
from paddock.confinement.network.outer_proxy import OuterProxy
from paddock.confinement.network.proxy import open_proxy
from paddock.model.host_names import Authority
from paddock.model.network import Connection, NetworkLimits, NetworkRule
from paddock.policy.decisions.network import decide_host, narrow_hosts

LOOPBACK = ("127.0.0.0/8", "::1/128")


def allow(
    host: str, *ports: int, addresses: tuple[str, ...] = LOOPBACK, effect: str = "allow"
) -> NetworkRule:
    """Return a rule of the user; its names may lead to loopback."""
    return NetworkRule(host=host, effect=effect, ports=ports, addresses=addresses, origin="user")


def deny(host: str) -> NetworkRule:
    return NetworkRule(host=host, effect="deny", origin="user")


async def resolve_to_loopback(host, port):
    return [IPv4Address("127.0.0.1")]


@dataclass
class RunningProxy:
    """A proxy that runs in a separate thread."""

    port: int
    connections: list[Connection] = field(default_factory=list)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def add(self, connection: Connection) -> None:
        with self._changed:
            self.connections.append(connection)
            self._changed.notify_all()

    def wait_for(self, number: int = 1) -> list[Connection]:
        """Return the reports once there are `number`."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.connections) >= number, PATIENCE_S), (
                self.connections
            )
            return list(self.connections)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)

    def exchange(self, data: bytes) -> bytes:
        """Send bytes on a new connection and return everything that comes back until its end."""
        with self.connect() as client:
            client.sendall(data)
            return receive_all(client)

    def open_tunnel(self, authority: str) -> socket.socket:
        """Return a connection in a tunnel that was granted."""
        client = self.connect()
        client.sendall(f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
        head = receive_head(client)
        assert head.startswith(b"HTTP/1.1 200 "), head
        return client

    def open_socks(self, request: bytes) -> tuple[socket.socket, int]:
        """Return a connection after a SOCKS5 request, and the code of the reply."""
        client = self.connect()
        client.sendall(b"\x05\x01\x00" + request)
        assert receive_exactly(client, 2) == b"\x05\x00"
        return client, receive_exactly(client, 10)[1]


def receive_exactly(client: socket.socket, number: int) -> bytes:
    data = b""
    while len(data) < number:
        received = client.recv(number - len(data))
        assert received, data
        data += received
    return data


def receive_head(client: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        received = client.recv(1)
        if not received:
            break
        data += received
    return data


def receive_all(client: socket.socket) -> bytes:
    """Return everything until the end; a reset is an end, too."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while received := client.recv(65536):
            parts.append(received)
    return b"".join(parts)


@contextlib.contextmanager
def run_proxy(*rules: NetworkRule, names=None, limits=None, **terms) -> Iterator[RunningProxy]:
    """Serve a proxy on loopback with the rules; names lead to 127.0.0.1 unless `resolve` says otherwise."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    running = RunningProxy(listener.getsockname()[1])
    whole = ProxyTerms(
        on_connection=running.add,
        limits=NetworkLimits(**{"max_rate": 10_000, **(limits or {})}),
        **{
            "decide": functools.partial(decide_host, narrow_hosts(rules, names)),
            "resolve": resolve_to_loopback,
            **terms,
        },
    )
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with open_proxy(listener, whole):
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield running
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
        loop.close()


class Server:
    """A server on loopback that handles each connection in a thread, and keeps what it received."""

    def __init__(
        self, handle: Callable[["Server", socket.socket], None], family: int = socket.AF_INET
    ) -> None:
        self.received: list[bytes] = []
        host = "::1" if family == socket.AF_INET6 else "127.0.0.1"
        self._listener = socket.create_server((host, 0), family=family, backlog=128)
        self.port = self._listener.getsockname()[1]
        self.accepted, self.ended = threading.Semaphore(0), threading.Semaphore(0)
        self._handle = handle
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.accepted.release()
                threading.Thread(target=self._handle_client, args=(client,), daemon=True).start()

    def _handle_client(self, client: socket.socket) -> None:
        client.settimeout(PATIENCE_S)
        with contextlib.suppress(OSError), client:
            try:
                self._handle(self, client)
            finally:
                self.ended.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


def echo(server: Server, client: socket.socket) -> None:
    """Send everything back, until the client ends its side."""
    while data := client.recv(65536):
        server.received.append(data)
        client.sendall(data)


def collect(server: Server, client: socket.socket) -> None:
    """Keep everything that comes."""
    while data := client.recv(65536):
        server.received.append(data)


def answering(response: bytes) -> Callable[[Server, socket.socket], None]:
    """Return a handler that keeps each request without a body, and sends the response to each."""

    def handle(server: Server, client: socket.socket) -> None:
        while head := receive_head(client):
            server.received.append(head)
            client.sendall(response)

    return handle


@contextlib.contextmanager
def run_outer_proxy(port: int) -> Iterator[OuterProxy]:
    """Serve another proxy, which Paddock must use: it leads every authority to one port of loopback."""

    def handle(server: Server, client: socket.socket) -> None:
        server.received.append(receive_head(client))
        with socket.create_connection(("127.0.0.1", port)) as target:
            client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            back = threading.Thread(target=_copy, args=(target, client))
            back.start()
            _copy(client, target)
            back.join()

    with Server(handle) as server:
        yield OuterProxy(Authority("127.0.0.1", server.port))


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def make_hello(server_name: str | None) -> bytes:
    """Return the ClientHello that OpenSSL sends for a server name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    with contextlib.suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=server_name).do_handshake()
    return sent.read()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FileHandler(http.server.SimpleHTTPRequestHandler):
    """Serves the files of a directory; a POST is answered with its body."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


class _WebServer(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True


@contextlib.contextmanager
def serve_directory(
    directory: Path, context: ssl.SSLContext | None = None, handler: type[FileHandler] = FileHandler
) -> Iterator[int]:
    """Serve files over HTTP/1.1, or HTTPS; yields the port."""
    server = _WebServer(("127.0.0.1", 0), functools.partial(handler, directory=str(directory)))
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class TestAuthority:
    """A certificate authority of a test, and the TLS of a server for the given names."""

    __test__ = False
    file: Path
    server: ssl.SSLContext

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.file))


def make_authority(directory: Path, *names: str) -> TestAuthority:
    """Return an authority and a certificate of it for names and addresses."""
    now = dt.datetime.now(dt.UTC)

    def build(subject: str, issuer: str, key) -> x509.CertificateBuilder:
        attribute = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in (subject, issuer)]
        built = x509.CertificateBuilder().subject_name(attribute[0]).issuer_name(attribute[1])
        built = built.public_key(key.public_key()).serial_number(x509.random_serial_number())
        day = dt.timedelta(days=1)
        return built.not_valid_before(now - day).not_valid_after(now + day)

    root, leaf = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = build("Test authority", "Test authority", root)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    alternatives = [_name(name) for name in names]
    certificate = build(names[0], "Test authority", leaf)
    certificate = certificate.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    directory.mkdir(exist_ok=True)
    file, chain = directory / "authority.pem", directory / "server.pem"
    pem = serialization.Encoding.PEM
    file.write_bytes(authority.sign(root, hashes.SHA256()).public_bytes(pem))
    private = leaf.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    chain.write_bytes(certificate.sign(root, hashes.SHA256()).public_bytes(pem) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return TestAuthority(file, context)


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(text))
    except ValueError:
        return x509.DNSName(text)
