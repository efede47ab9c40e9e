"""Real clients through the proxy of a job: curl, urllib, httpx2, over HTTP, HTTPS and SOCKS5."""

import os
import subprocess
import urllib.request

import httpx2
import pytest
from tests.support.network import Server, allow, echo, make_authority, run_proxy, serve_directory

NAME = "files.example"
BODY = bytes(range(256)) * 4000


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "data.bin").write_bytes(BODY)
    return tmp_path / "public"


@pytest.fixture
def authority(tmp_path):
    return make_authority(tmp_path / "tls", NAME, "127.0.0.1")


def run_curl(*arguments: str) -> tuple[int, bytes, str]:
    environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    done = subprocess.run(
        ["curl", "--silent", "--show-error", *arguments], env=environment, capture_output=True, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode()


def test_curl_over_http(directory):
    with serve_directory(directory) as port, run_proxy(allow(NAME, port)) as proxy:
        assert run_curl("--proxy", proxy.address, f"http://{NAME}:{port}/data.bin") == (0, BODY, "")
        (connection,) = proxy.wait_for()
    assert connection.model_dump(include={"host", "port", "address", "verdict", "rule", "reason"}) == {
        "host": NAME,
        "port": port,
        "address": "127.0.0.1",
        "verdict": "allowed",
        "rule": "user network rule 1",
        "reason": "",
    }
    assert connection.received_bytes > len(BODY)
    assert connection.sent_bytes > 0


@pytest.mark.parametrize("option", ["--proxy", "--socks5-hostname"])
def test_curl_over_https(directory, authority, option):
    with serve_directory(directory, authority.server) as port, run_proxy(allow(NAME, port)) as proxy:
        address = proxy.address.removeprefix("http://") if option != "--proxy" else proxy.address
        url = f"https://{NAME}:{port}/data.bin"
        assert run_curl(option, address, "--cacert", str(authority.file), url) == (0, BODY, "")


def test_curl_reads_why_it_is_refused():
    with run_proxy(allow(NAME)) as proxy:
        found = run_curl("--proxy", proxy.address, "http://other.example/")
        reason = (
            "other.example:80 is not allowed by any of the user network rules; "
            'add a [[network.rule]] with host = "other.example", effect = "allow" and ports = [80] to the user\'s paddock.toml'
        )
        assert found == (0, f"Paddock: {reason}\n".encode(), "")
        (connection,) = proxy.wait_for()
        assert connection.model_dump(exclude={"wall_ms"}) == {
            "host": "other.example",
            "port": 80,
            "address": "",
            "verdict": "refused",
            "rule": "user network rules",
            "reason": reason,
            "sent_bytes": 0,
            "received_bytes": 0,
        }


def test_curl_is_refused_a_tunnel():
    with run_proxy(allow(NAME)) as proxy:
        assert run_curl("--proxy", proxy.address, "https://other.example/")[::2] == (
            56,
            "curl: (56) CONNECT tunnel failed, response 403\n",
        )


def test_curl_uploads_and_waits_for_100_continue(directory, tmp_path):
    (tmp_path / "upload").write_bytes(BODY)
    with serve_directory(directory) as port, run_proxy(allow(NAME, port)) as proxy:
        for more in (["--header", "Expect: 100-continue"], ["--header", "Expect:"]):
            url = f"http://{NAME}:{port}/"
            sent = f"@{tmp_path / 'upload'}"
            assert run_curl("--proxy", proxy.address, "--data-binary", sent, *more, url) == (0, BODY, "")


def test_curl_keeps_one_connection_for_several_requests(directory):
    with serve_directory(directory) as port, run_proxy(allow(NAME, port)) as proxy:
        url = f"http://{NAME}:{port}/data.bin"
        assert run_curl("--proxy", proxy.address, url, url, url) == (0, BODY * 3, "")
        assert len(proxy.wait_for()) == 1


def test_urllib_over_http_and_https(directory, authority):
    with (
        serve_directory(directory) as plain,
        serve_directory(directory, authority.server) as secure,
        run_proxy(allow(NAME, plain, secure)) as proxy,
    ):
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({"http": proxy.address, "https": proxy.address}),
            urllib.request.HTTPSHandler(context=authority.trust()),
        )
        for url in (f"http://{NAME}:{plain}/data.bin", f"https://{NAME}:{secure}/data.bin"):
            with opener.open(url) as answer:
                assert answer.read() == BODY


@pytest.mark.parametrize("scheme", ["http", "socks5h"])
def test_httpx2_over_http_and_https(directory, authority, scheme):
    with (
        serve_directory(directory) as plain,
        serve_directory(directory, authority.server) as secure,
        run_proxy(allow(NAME, plain, secure)) as proxy,
        httpx2.Client(
            proxy=proxy.address.replace("http", scheme, 1), verify=authority.trust(), trust_env=False
        ) as client,
    ):
        for url in (f"http://{NAME}:{plain}/data.bin", f"https://{NAME}:{secure}/data.bin"):
            for _ in range(3):
                assert client.get(url).content == BODY


def test_a_wrong_certificate_is_the_clients_business(directory, authority):
    with serve_directory(directory, authority.server) as port, run_proxy(allow("*.example", port)) as proxy:
        url = f"https://wrong.example:{port}/"
        with (
            httpx2.Client(proxy=proxy.address, verify=authority.trust(), trust_env=False) as client,
            pytest.raises(httpx2.ConnectError, match="certificate verify failed"),
        ):
            client.get(url)


def test_a_protocol_without_tls_and_its_half_closed_end():
    with Server(echo) as server, run_proxy(allow(NAME, server.port)) as proxy:
        with proxy.open_tunnel(f"{NAME}:{server.port}") as client:
            client.sendall(b"SSH-2.0-test\r\n")
            client.shutdown(1)
            received = b""
            while data := client.recv(1000):
                received += data
        assert received == b"SSH-2.0-test\r\n"
        (connection,) = proxy.wait_for()
        assert (connection.sent_bytes, connection.received_bytes) == (14, 14)


def test_a_server_that_speaks_first():
    def greet(server, client):
        client.sendall(b"220 ready\r\n")
        echo(server, client)

    with (
        Server(greet) as server,
        run_proxy(allow(NAME, server.port)) as proxy,
        proxy.open_tunnel(f"{NAME}:{server.port}") as client,
    ):
        assert client.recv(100) == b"220 ready\r\n"
