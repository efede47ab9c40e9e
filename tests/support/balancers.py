"""HAProxy and nginx on loopback, with the configurations that the pages show."""

import datetime as dt
import ipaddress
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from tests.support.http_api import ApiClient
from tests.support.postgres import find_free_port
from tests.support.processes import PATIENCE_S

DOCS = Path(__file__).resolve().parents[2] / "docs"
HOST = "paddock.example.com"
"""The host name of the pages, which clients send."""
SERVED_BY = "x-served-by"
"""Header that the tests add to an answer: which replica it comes from."""


def read_block(page: str, beginning: str) -> str:
    """Return the only block of text of a page that begins with some words."""
    blocks = re.findall(r"^```text\n(.*?)^```$", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if block.startswith(beginning)]
    return found


def replace_once(text: str, pattern: str, replacement: str) -> str:
    """Replace what a pattern matches, which must be there once."""
    changed, count = re.subn(pattern, lambda _: replacement, text, flags=re.MULTILINE | re.DOTALL)
    assert count == 1, (pattern, count, text)
    return changed


def make_certificate(folder: Path) -> Path:
    """Write a certificate for loopback with its key, `paddock.pem` and `paddock.key`; return the former, which has both."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName(HOST), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "paddock.key").write_bytes(private)
    (folder / "paddock.pem").write_bytes(certificate.public_bytes(Encoding.PEM) + private)
    return folder / "paddock.pem"


class Balancer(ABC):
    """A balancer before replicas at ports of loopback, with TLS."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.ports = tuple(ports)
        self.port = find_free_port()
        self.root = Path(tempfile.mkdtemp(prefix="paddock-balancer-"))
        self.certificate = make_certificate(self.root)
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def write(self) -> list[str]:
        """Write the configuration and return the command that runs it."""

    def __enter__(self) -> Self:
        command = ["setpriv", "--pdeathsig", "KILL", "--", *self.write()]
        with (self.root / "stderr").open("wb") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
        deadline = time.monotonic() + PATIENCE_S
        while not self._accepts():
            assert self._process.poll() is None, (self.root / "stderr").read_text()
            assert time.monotonic() < deadline, "the balancer does not start"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        shutil.rmtree(self.root, ignore_errors=True)

    def _accepts(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    @contextmanager
    def client(self, token: str, **options: Any) -> Iterator[ApiClient]:
        """Open a client with one connection, which is kept, and a token."""
        headers = {"Authorization": f"Bearer {token}", "Host": HOST}
        trust = ssl.create_default_context(cafile=self.certificate)
        limits = httpx2.Limits(max_connections=1, max_keepalive_connections=1)
        with httpx2.Client(
            base_url=f"https://127.0.0.1:{self.port}",
            headers=headers,
            timeout=PATIENCE_S,
            verify=trust,
            limits=limits,
            **options,
        ) as http:
            yield ApiClient(http)

    def find_replica(self, answer: httpx2.Response) -> int:
        """Return the number of the replica that an answer comes from."""
        names = {f"r{index}": index for index in range(len(self.ports))}
        names |= {f"127.0.0.1:{port}": index for index, port in enumerate(self.ports)}
        return names[answer.headers[SERVED_BY].rpartition(", ")[2]]


class PageHaProxy(Balancer):
    """HAProxy with the frontend of deploy.md and the backend of cluster.md."""

    def __init__(self, ports: Sequence[int], *, inter: str) -> None:
        """`inter` is the interval of the checks instead of that of the page."""
        super().__init__(ports)
        self._inter = inter

    def write(self) -> list[str]:
        """Write the configuration: addresses, certificate and interval are of the test, and the rest of the pages."""
        frontend, _, _ = read_block("deploy.md", "frontend paddock").partition("\nbackend ")
        frontend = replace_once(frontend, r"bind :443 ", f"bind 127.0.0.1:{self.port} ")
        frontend = replace_once(frontend, r"/etc/haproxy/paddock\.pem", str(self.certificate))
        backend = read_block("cluster.md", "backend paddock")
        backend = replace_once(backend, r"inter 1s ", f"inter {self._inter} ")
        servers = "".join(f"    server r{index} 127.0.0.1:{port}\n" for index, port in enumerate(self.ports))
        backend = replace_once(backend, r"(^    server replica-\d \S+\n)+", servers)
        # One thread: events of the connections are handled in their order.
        own = f"global\n    nbthread 1\n    stats socket {self._socket} level admin\n"
        marked = f"    http-response set-header {SERVED_BY} %s\n"
        (self.root / "haproxy.cfg").write_text(f"{own}{frontend}\n{backend}{marked}")
        return ["/usr/sbin/haproxy", "-db", "-f", str(self.root / "haproxy.cfg")]

    @property
    def _socket(self) -> Path:
        return self.root / "socket"

    def is_up(self, index: int) -> bool:
        """Return whether a replica gets requests."""
        with socket.socket(socket.AF_UNIX) as asked:
            asked.connect(str(self._socket))
            asked.sendall(b"show stat -1 4 -1\n")
            text = b"".join(iter(lambda: asked.recv(65536), b"")).decode()
        names, *rows = [line.split(",") for line in text.splitlines() if line]
        [row] = [dict(zip(names, each, strict=True)) for each in rows if each[1] == f"r{index}"]
        return row["status"].startswith("UP")


class PageNginx(Balancer):
    """nginx with the server of deploy.md and the upstream of cluster.md."""

    def __init__(self, ports: Sequence[int], *, down: Sequence[int] = ()) -> None:
        """Replicas whose numbers are in `down` are marked as down."""
        super().__init__(ports)
        self._down = down

    def write(self) -> list[str]:
        """Write the configuration: addresses, certificate and directories are of the test, and the rest of the pages."""
        server = read_block("deploy.md", "server {")
        server = replace_once(server, r"listen 443 ", f"listen 127.0.0.1:{self.port} ")
        server = replace_once(server, r"/etc/nginx/paddock\.pem", str(self.certificate))
        server = replace_once(server, r"/etc/nginx/paddock\.key", str(self.root / "paddock.key"))
        marked = f"proxy_pass http://paddock;\n        add_header {SERVED_BY} $upstream_addr always;"
        server = replace_once(server, r"proxy_pass http://127\.0\.0\.1:8700;", marked)
        servers = "".join(
            f"    server 127.0.0.1:{port}{' down' if index in self._down else ''};\n"
            for index, port in enumerate(self.ports)
        )
        upstream = replace_once(
            read_block("cluster.md", "upstream paddock"), r"(^    server \S+\n)+", servers
        )
        temporary = "".join(
            f"{kind}_temp_path {self.root}/{kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;\n" if os.geteuid() == 0 else ""
        (self.root / "nginx.conf").write_text(
            f"{user}daemon off;\nworker_processes 1;\npid {self.root}/pid;\nerror_log {self.root}/error.log;\n"
            f"events {{}}\nhttp {{\naccess_log off;\n{temporary}{upstream}{server}}}\n"
        )
        return ["/usr/sbin/nginx", "-p", str(self.root), "-c", str(self.root / "nginx.conf")]
