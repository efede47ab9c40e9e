"""`paddock serve http`: where it listens, and what it refuses."""

import resource
import ssl
import subprocess
from pathlib import Path

import httpx2
import pytest
from tests.support.command import run_paddock
from tests.support.http_api import OWNER, TOKEN, ApiPlace
from tests.support.processes import PATIENCE_S


def refusal(place: ApiPlace, *flags: str) -> tuple[int, str]:
    done = run_paddock(place.workspace, "serve", "http", *flags, environment=place.environment)
    return done.returncode, done.stderr.splitlines()[-1]


def test_an_address_that_others_reach_needs_tls_or_a_proxy(place: ApiPlace) -> None:
    code, text = refusal(place, "--http", "0.0.0.0:0")
    assert (code, text) == (
        2,
        "Error: --http 0.0.0.0:0: other machines can reach this address, and tokens would cross the network "
        "unencrypted. Give --tls-cert and --tls-key; or --behind-proxy, if a proxy in front of it encrypts.",
    )


def test_behind_a_proxy_it_listens_there(place: ApiPlace) -> None:
    flags = ("--behind-proxy", "--allowed-host", "paddock.test")
    with place.serve(*flags, address="0.0.0.0:0") as server:
        url = f"http://127.0.0.1:{server.port}/v1/server"
        headers = {"Authorization": f"Bearer {TOKEN}"}
        proxied = httpx2.get(url, headers={**headers, "Host": "paddock.test"}, timeout=PATIENCE_S)
        direct = httpx2.get(url, headers=headers, timeout=PATIENCE_S)
    assert (proxied.status_code, direct.status_code) == (200, 421)


def test_it_may_open_more_files_than_a_shell_allows(place: ApiPlace) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
    try:
        with place.serve() as server, server.client() as api:
            assert api.get("/v1/server").status_code == 200
            limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert limits == (min(16_384, before[1]), before[1])


def test_certificate_and_key_belong_together(place: ApiPlace, tmp_path: Path) -> None:
    (file := tmp_path / "a.pem").touch()
    assert refusal(place, "--tls-cert", str(file)) == (
        2,
        "Error: --tls-cert and --tls-key are given together.",
    )


def test_a_file_that_is_no_certificate_is_refused(place: ApiPlace, tmp_path: Path) -> None:
    (file := tmp_path / "a.pem").write_text("none")
    code, text = refusal(place, "--http", "127.0.0.1:0", "--tls-cert", str(file), "--tls-key", str(file))
    begin = f"{file}: this certificate cannot be used with the key {file}: "
    assert (code, text.startswith(begin), text.endswith("Both are PEM files; the key has no password.")) == (
        1,
        True,
        True,
    ), text


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    files = tmp_path / "cert.pem", tmp_path / "key.pem"
    name = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *name]
    subprocess.run([*request, "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
    return files


def test_it_speaks_tls(place: ApiPlace, certificate: tuple[Path, Path]) -> None:
    cert, key = certificate
    with place.serve("--tls-cert", str(cert), "--tls-key", str(key)) as server:
        assert server.url.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(cert))
        url = f"https://localhost:{server.port}/v1/server"
        headers = {"Authorization": f"Bearer {TOKEN}", "Origin": f"https://localhost:{server.port}"}
        answer = httpx2.get(url, headers=headers, verify=trusted, timeout=PATIENCE_S)
    assert answer.json()["actor"] == "http"


def test_a_token_file_is_made(place: ApiPlace, tmp_path: Path) -> None:
    file = tmp_path / "token"
    with place.serve("--token-file", str(file)) as server, server.client(file.read_text().strip()) as client:
        assert client.get("/v1/server").json()["actor"] == OWNER
    assert file.stat().st_mode & 0o777 == 0o600


def test_metrics_are_for_the_owner(place: ApiPlace) -> None:
    place.settings("[telemetry]\nmetrics = true\n")
    alice = place.make_token("alice")
    with place.serve() as server, server.client() as owner, server.client(alice) as client:
        client.run(language="javascript", code="return 1")
        page = owner.get("/metrics")
        refused = client.problem("GET", "/metrics")
    assert page.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert 'paddock_requests_total{kind="guest",language="javascript",status="ok"} 1.0' in page.text
    assert refused == (
        403,
        "not-permitted",
        "Only the owner's token, which the server was started with, and tokens for metrics read metrics. Make one: "
        "paddock serve token new NAME --metrics-only",
    )
