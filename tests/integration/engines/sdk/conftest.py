"""A session whose state is all in one place, for the SDK and what is built on it."""

import contextlib
import datetime as dt
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.session import SessionRunner

from paddock.engines.sdk import webhooks
from paddock.engines.secrets.vault import FileVault
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.rules import PolicySettings
from paddock.policy.settings.schema import (
    ArtifactSettings,
    AuditSettings,
    GuestSettings,
    SdkSettings,
    Settings,
    ToolSettings,
    VaultSettings,
)
from paddock.record.ledger.read import read


class Desk(SessionRunner):
    """A session with all state in one place."""

    def __init__(self, place):
        super().__init__(place / "workspace")
        self.workspace.mkdir()
        self.place = place
        self.vault = FileVault(place / "vault")

    def open(self, sdk=None, rules=(), workers=8, tools=None, **further):
        settings = Settings(
            audit=AuditSettings(directory=self.place / "audit"),
            artifacts=ArtifactSettings(directory=self.place / "artifacts"),
            vault=VaultSettings(backend="file", directory=self.place / "vault"),
            sdk=SdkSettings(
                **{
                    "temporals": self.place / "temporals",
                    "signals": self.place / "signals.db",
                    "webhooks": self.place / "webhooks.json",
                    **(sdk or {}),
                }
            ),
            tools=ToolSettings(**(tools or {})),
            policy=PolicySettings(rule=tuple(rules)),
            guest=GuestSettings(max_workers=workers),
            **further,
        )
        self.start(settings)
        return self

    def run(self, source, *, profile="script", lines=None):
        request = ExecutionRequest(workspace=self.workspace, work=GuestRun(source=source, profile=profile))
        return self.execute(request, on_console=lines)

    def records(self):
        return list(read(self.place / "audit", newest_first=False))


@pytest.fixture
def desk(tmp_path):
    with Desk(tmp_path) as made:
        yield made


def certificate(folder):
    """Write a certificate for this machine, which is its own authority, and return its files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "paddock tests")])
    now = dt.datetime.now(dt.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / "cert.pem").write_bytes(made.public_bytes(form))
    (folder / "key.pem").write_bytes(key.private_bytes(form, kind, serialization.NoEncryption()))
    return folder / "cert.pem", folder / "key.pem"


class Receiver:
    """An HTTPS server that keeps what it is sent and answers as `answers` says, then with 204."""

    def __init__(self, cert, key):
        self.seen, self.answers = [], []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                outer.seen.append(
                    (self.path, dict(self.headers), self.rfile.read(int(self.headers["content-length"])))
                )
                status, headers, body = outer.answers.pop(0) if outer.answers else (204, {}, b"")
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        class Quiet(ThreadingHTTPServer):
            def handle_error(self, *_):
                pass

        self.server = Quiet(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self.server.server_address[1]
        self.url = f"https://localhost:{self.port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(tmp_path, monkeypatch):
    cert, key = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    monkeypatch.setattr(webhooks, "_RETRY_DELAY_S", 0)
    made = Receiver(cert, key)
    yield made
    made.server.shutdown()
    made.server.server_close()
