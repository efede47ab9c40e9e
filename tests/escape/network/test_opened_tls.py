"""TLS that the proxy opens, because a rule looks at requests or adds a header."""

import asyncio
import contextlib
import http.server
import json
import ssl
import subprocess
import threading

import pytest
from tests.support.network import LOOPBACK, make_authority, make_hello, receive_all, receive_head, run_proxy

from paddock.confinement.network.certificates import CertificateAuthority
from paddock.model.network import NetworkRule

HOST, TOKEN = "granted.example", "s3cr3t-token-of-the-vault"
ADD = 'add a [[network.rule]] with host = "granted.example", effect = "allow" and ports = [{port}] to the user\'s paddock.toml'


ADD_PATH = "add its path to `paths` of network rule 1 in the user's paddock.toml"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the request as JSON, without the secret unless the path begins with /echo."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        shown = {"method": self.command, "path": self.path, "header": {**self.headers}}
        self.server.seen.append(shown)
        text = json.dumps(shown)
        body = (text if self.path.startswith("/echo") else text.replace(TOKEN, "***")).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/name":
            self.send_header(TOKEN, "")
        self.end_headers()
        for byte in body if self.path == "/echo/slowly" else [None]:
            self.wfile.write(body if byte is None else bytes([byte]))
            self.wfile.flush()

    do_POST = do_DELETE = do_GET  # noqa: N815 - as the base class names them

    def log_message(self, *_):
        pass


class World:
    """A host with TLS, the rules that are in force, and a client behind the proxy."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self.authority = make_authority(folder / "authority", HOST)
        monkeypatch.setenv("SSL_CERT_FILE", str(self.authority.file))
        from paddock.confinement.network import tls

        tls._make_client_context.cache_clear()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.seen = self.seen = []
        self.server.socket = self.authority.server.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.port = self.server.server_port
        self.base = f"https://{HOST}:{self.port}"
        self.add = ADD.format(port=self.port)

    def allow(self, host=HOST, effect="allow", origin="user", **fields):
        fields = {} if effect == "deny" else {"addresses": LOOPBACK, **fields}
        return NetworkRule(host=host, effect=effect, ports=(self.port,), origin=origin, **fields)

    def deny(self, **fields):
        return NetworkRule(host=HOST, effect="deny", ports=(self.port,), origin="user", **fields)

    @contextlib.contextmanager
    def proxy(self, *rules, secrets=None, ask=None, find=None):
        certificates = CertificateAuthority([rule.host for rule in rules if rule.inspects])
        (self.folder / "bundle.pem").write_text(certificates.certificate)
        find = find or {"TOKEN": TOKEN, **(secrets or {})}.get
        with run_proxy(*rules, certificates=certificates, secret=find, ask=ask) as proxy:
            self.proxy_address = proxy.address
            yield proxy

    def curl(self, *words):
        """Return the exit code of curl, and what it prints."""
        command = [
            "curl",
            "-sS",
            "--cacert",
            self.folder / "bundle.pem",
            "--proxy",
            self.proxy_address,
            *words,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        return done.returncode, done.stdout

    def refusal(self, *words):
        code, out = self.curl(*words)
        assert code == 0
        return out.removeprefix("Paddock: ").strip()


@pytest.fixture
def world(tmp_path, monkeypatch):
    made = World(tmp_path, monkeypatch)
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_header_is_added_outside_and_replaces_the_programs_own(world):
    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:TOKEN}"})):
        own = ("-H", "authorization: mine", "-H", "Authorization: other", "-H", "Accept-Encoding: gzip")
        code, out = world.curl(*own, f"{world.base}/a")
    assert code == 0
    assert TOKEN not in out
    [seen] = world.seen
    assert [value for name, value in seen["header"].items() if name.lower() == "authorization"] == [
        f"Bearer {TOKEN}"
    ]
    assert seen["header"]["accept-encoding"] == "identity"
    assert seen["header"]["host"] == f"{HOST}:{world.port}"


OVERRIDES = (
    *("X-HTTP-Method-Override: DELETE", "x-http-METHOD: DELETE", "X-Method-Override: DELETE"),
    *("X_HTTP_Method_Override: DELETE", "X.HTTP.Method: DELETE", "X-Original-URL: /secret"),
    *("X-Rewrite-URL: /secret", "X-Original-Host: secret.example", "X-HTTP-Host-Override: secret.example"),
    *(
        "X-URL: /secret",
        "X-Http-Path-Override: /secret",
        "X-MS-Original-URL: /secret",
        "X-Script-Name: /public",
    ),
    *("X-Forwarded-Host: secret.example", "X_Forwarded_Prefix: /secret", "Forwarded: host=secret.example"),
    *(
        "X-Forwarded-For: 127.0.0.1",
        "X-Host: secret.example",
        "Content_Length: 9",
        "Transfer_Encoding: chunked",
    ),
)


@pytest.mark.parametrize("rule", [{"methods": ("GET",)}, {"paths": ("/v1/*",)}])
def test_no_header_field_names_another_request_than_the_decided_one(world, rule):
    with world.proxy(world.allow(**rule)):
        fields = [word for each in (*OVERRIDES, "X-Other: kept") for word in ("-H", each)]
        code, _ = world.curl(*fields, "-H", "User-Agent:", "-H", "Accept:", f"{world.base}/v1/a")
    assert code == 0
    assert world.seen == [
        {"method": "GET", "path": "/v1/a", "header": {"host": f"{HOST}:{world.port}", "x-other": "kept"}}
    ]


def test_an_added_header_has_no_second_spelling(world):
    with world.proxy(world.allow(header={"X-Api-Key": "${vault:TOKEN}"})):
        code, _ = world.curl("-H", "X_Api_Key: mine", "-H", "x-api_key: mine", f"{world.base}/a")
    assert code == 0
    [seen] = world.seen
    assert {name: value for name, value in seen["header"].items() if "api" in name.lower()} == {
        "X-Api-Key": TOKEN
    }


def test_each_request_on_a_kept_connection_is_decided(world):
    with world.proxy(world.allow(methods=("GET",), paths=("/v1/*", "/status"))) as proxy:
        paths = [f"{world.base}{path}" for path in ("/v1/a?x=/../b", "/status", "/v2/a", "/v1/b")]
        code, out = world.curl(*paths)
        assert code == 0
        assert [each["path"] for each in world.seen][:2] == ["/v1/a?x=/../b", "/status"]
        assert "/v2/a" not in [each["path"] for each in world.seen]
        where = f"GET {HOST}:{world.port}/v2/a"
        assert f"Paddock: {where} is not allowed by any of the user network rules; {ADD_PATH}" in out
        found = [(each.verdict, each.rule) for each in proxy.wait_for(2)]
        # The connection that was refused a request is ended; a request of another path needs another one.
        assert min(found) == ("allowed", "user network rule 1")
        assert ("refused", "user network rules") in found


@pytest.mark.parametrize("method", ["POST", "DELETE", "get", "GET2"])
def test_other_methods_are_refused(world, method):
    with world.proxy(world.allow(methods=("GET",))):
        world.curl("-X", method, f"{world.base}/")
    assert world.seen == []


@pytest.mark.parametrize(
    "path",
    ["/v1/../secret", "/v1/%2e%2e/secret", "/v1/.%2E/secret", "/v1/%2fsecret", "/v1/%5c..%5csecret", "/v1//secret",
     "/v1/./a", "/v1/%252e%252e/secret", "/v1/%00", "/v1", "/V1/a", "/v1%2fa", "/secret", "//v1/a", "/v1/..", "/x/../v1/a"],
)  # fmt: skip
def test_paths_that_a_server_could_read_in_another_way_are_refused(world, path):
    with world.proxy(world.allow(paths=("/v1/*",))):
        code, out = world.curl("--path-as-is", f"{world.base}{path}")
    assert (code, out.startswith("Paddock: ")) == (0, True)
    assert world.seen == []


def test_a_denial_of_a_path_beats_what_is_allowed(world):
    with world.proxy(world.allow(), world.deny(paths=("/admin", "/admin/*"))):
        assert world.curl(f"{world.base}/a")[0] == 0
        where = f"GET {HOST}:{world.port}/admin/x"
        assert world.refusal(f"{world.base}/admin/x") == f"{where} is denied by user network rule 2"
        assert world.refusal(f"{world.base}/admin").startswith(f"GET {HOST}:{world.port}/admin is denied")
    assert [each["path"] for each in world.seen] == ["/a"]


def test_a_person_is_asked_about_a_request_not_about_its_host(world):
    asked = []

    async def ask(authority, decision):
        asked.append((str(authority), decision.asked_request))
        return decision.asked_request != "POST /no"

    rules = (world.allow(methods=("GET",)), world.allow(methods=("POST",), effect="ask"))
    with world.proxy(*rules, ask=ask):
        assert world.curl(f"{world.base}/a")[0] == 0
        assert asked == []
        for path in ("/yes?a", "/no", "/yes?b", "/no"):
            world.curl("-X", "POST", f"{world.base}{path}")
        where = f"POST {HOST}:{world.port}/no"
        assert world.refusal("-X", "POST", f"{world.base}/no") == (
            f"sending {where} needs a person's approval, says user network rule 2; the answer was no, or there was none"
        )
    assert asked == [(f"{HOST}:{world.port}", "POST /yes"), (f"{HOST}:{world.port}", "POST /no")]
    assert [(each["method"], each["path"]) for each in world.seen] == [
        ("GET", "/a"),
        ("POST", "/yes?a"),
        ("POST", "/yes?b"),
    ]


def test_without_a_person_allowed_requests_are_sent(world):
    rules = (world.allow(methods=("GET",)), world.allow(methods=("POST",), effect="ask"))
    with world.proxy(*rules):
        assert world.curl(f"{world.base}/a")[0] == 0
        where = f"POST {HOST}:{world.port}/a"
        assert world.refusal("-X", "POST", f"{world.base}/a") == (
            f"sending {where} needs a person's approval, says user network rule 2; no person can be asked here"
        )
    assert [each["method"] for each in world.seen] == ["GET"]


@pytest.mark.parametrize("path", ["/echo", "/echo/slowly"])
def test_an_answer_that_contains_the_secret_is_cut_off(world, path):
    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:TOKEN}"})) as proxy:
        code, out = world.curl(f"{world.base}{path}")
        assert code == 18, "the transfer ends early"
        assert TOKEN not in out
    told = f"{HOST}:{world.port} sent back a secret that was added to the request; the answer was cut off"
    assert [(each.verdict, each.reason) for each in proxy.connections] == [("refused", told)]


def test_a_header_field_that_has_the_secret_as_its_name_does_not_come_back(world):
    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:TOKEN}"})) as proxy:
        told = world.refusal(f"{world.base}/name")
    assert (
        told
        == f"{HOST}:{world.port} sent back a secret that was added to the request; the answer was cut off"
    )
    assert [(each.verdict, each.reason) for each in proxy.connections] == [("refused", told)]


def test_a_secret_that_is_missing_sends_nothing(world):
    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:OTHER}"})) as proxy:
        told = world.refusal(f"{world.base}/")
    what = "the vault has no secret OTHER that fits into a header"
    assert told == f"{what}; store it with: paddock vault set OTHER"
    assert world.seen == []
    assert [(each.verdict, each.reason) for each in proxy.connections] == [("refused", told)]


def test_nothing_else_waits_for_the_vault(world):
    """It may be a database that hangs."""

    def find(_name):
        with pytest.raises(RuntimeError, match="no running event loop"):
            asyncio.get_running_loop()
        return TOKEN

    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:TOKEN}"}), find=find):
        assert world.curl(f"{world.base}/")[0] == 0
    [seen] = world.seen
    assert f"Bearer {TOKEN}" in seen["header"].values()


@pytest.mark.parametrize("secret", ["a\r\nX-Other: b", "ä", "a\0b"])
def test_a_secret_cannot_bring_other_header_fields(world, secret):
    with world.proxy(world.allow(header={"Authorization": "Bearer ${vault:BAD}"}), secrets={"BAD": secret}):
        assert world.refusal(f"{world.base}/").startswith("the vault has no secret BAD that fits")
    assert world.seen == []


def test_a_header_of_a_workspace_is_not_added(world):
    rules = (world.allow(), world.allow(origin="workspace", header={"X-Token": "${vault:TOKEN}"}))
    with world.proxy(*rules):
        assert world.curl(f"{world.base}/")[0] == 0
    [seen] = world.seen
    assert [name for name in seen["header"] if name.lower() == "x-token"] == []


def test_a_header_is_not_sent_in_the_clear(world):
    with world.proxy(world.allow(header={"X-Token": "${vault:TOKEN}"})):
        told = world.refusal(f"http://{HOST}:{world.port}/")
    assert (
        told
        == f"{HOST}:{world.port}: the rule adds header fields, which are sent inside of TLS only; use https"
    )


@pytest.mark.parametrize("first", [b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-x\r\n", make_hello("other.example")])
def test_a_tunnel_must_begin_with_the_tls_of_its_host(world, first):
    with world.proxy(world.allow(methods=("GET",))) as proxy, proxy.connect() as client:
        client.sendall(f"CONNECT {HOST}:{world.port} HTTP/1.1\r\nHost: {HOST}:{world.port}\r\n\r\n".encode())
        assert receive_head(client).startswith(b"HTTP/1.1 200")
        client.sendall(first)
        assert receive_all(client) == bytes([0x15, 3, 1, 0, 2, 2, 112])
    assert world.seen == []


@pytest.mark.parametrize(
    "request_",
    [
        "CONNECT other.example:443 HTTP/1.1\r\nHost: other.example:443\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET https://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: {host}\r\nHost: other.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_what_is_inside_must_be_plain_requests_to_the_host(world, request_):
    context = ssl.create_default_context()
    with world.proxy(world.allow(methods=("GET", "PRI"))) as proxy, proxy.connect() as client:
        context.load_verify_locations(world.folder / "bundle.pem")
        host = f"{HOST}:{world.port}"
        client.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        receive_head(client)
        with context.wrap_socket(client, server_hostname=HOST) as secured:
            secured.sendall(request_.format(host=host).encode())
            assert receive_head(secured).split(b" ")[1] in {b"400", b"403"}
    assert world.seen == []


def test_only_http_1_1_is_offered(world):
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with world.proxy(world.allow(methods=("GET",))) as proxy, proxy.connect() as client:
        context.load_verify_locations(world.folder / "bundle.pem")
        client.sendall(f"CONNECT {HOST}:{world.port} HTTP/1.1\r\nHost: {HOST}:{world.port}\r\n\r\n".encode())
        receive_head(client)
        with context.wrap_socket(client, server_hostname=HOST) as secured:
            assert secured.selected_alpn_protocol() == "http/1.1"


def test_the_certificate_of_the_host_is_verified(world, monkeypatch):
    from paddock.confinement.network import tls

    monkeypatch.delenv("SSL_CERT_FILE")
    tls._make_client_context.cache_clear()
    with world.proxy(world.allow(header={"X-Token": "${vault:TOKEN}"})):
        told = world.refusal(f"{world.base}/")
    assert told.startswith(f"{HOST}:{world.port}: TLS with the host failed: ")
    assert world.seen == []


def test_the_authority_signs_for_the_hosts_of_the_rules_alone(world):
    """A program that trusts it, and somebody who got at its key, reach nothing else with it."""
    certificates = CertificateAuthority([HOST, "*.api.example"])
    names = {"sub.api.example": True, HOST: True, "other.example": False, "api.example.org": False}
    for name, is_trusted in names.items():
        trusting = ssl.create_default_context(cadata=certificates.certificate)
        trusting.load_verify_locations(cadata=certificates.certificate)
        serving = certificates.make_context(name)
        assert _shake_hands(serving, trusting, name) is is_trusted, name


def _shake_hands(serving, trusting, name):
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = trusting.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True


def test_tunnels_of_other_rules_stay_closed(world):
    """TLS of a host without such rules is not opened: the program sees the certificate of the host itself."""
    other = world.allow(host="*.other.example", methods=("GET",))
    with world.proxy(world.allow(), other):
        command = [
            "curl",
            "-sS",
            "--cacert",
            world.authority.file,
            "--proxy",
            world.proxy_address,
            f"{world.base}/",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
