"""A job sends requests that two parsers could read in two ways. Each is refused, or reaches the granted host alone."""

import socket
import subprocess

import pytest
from tests.support.network import (
    OK,
    Server,
    allow,
    answering,
    collect,
    receive_all,
    receive_exactly,
    receive_head,
    run_outer_proxy,
    run_proxy,
)

from paddock.model.network import HostDecision, NetworkRule

HOST = "granted.example"


def request(
    *lines: str, target: str = f"http://{HOST}:PORT/", method: str = "GET", host: str = f"{HOST}:PORT"
) -> bytes:
    fields = [f"Host: {host}", *lines] if host else lines
    return ("\r\n".join([f"{method} {target} HTTP/1.1", *fields]) + "\r\n\r\n").encode("latin-1")


def assert_refused(data: bytes, reason: str, status: int = 400) -> None:
    """Check that a request is refused and that the granted host has received nothing."""
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        answer = proxy.exchange(data.replace(b"PORT", str(server.port).encode()))
        head, _, body = answer.partition(b"\r\n\r\n")
        expected = f"Paddock: {reason}\n".replace("PORT", str(server.port))
        assert (int(head[9:12]), body.decode()) == (status, expected)
        assert head.endswith(b"Connection: close")
        assert server.received == []


def test_two_hosts():
    assert_refused(request("Host: secret.example"), "the header field host occurs twice")


def test_another_host_than_the_address():
    reason = "the header field host names another host than the address"
    assert_refused(request(host="secret.example"), reason)


def test_a_refused_request_is_recorded_without_its_path_and_query():
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        proxy.exchange(request(target=f"http://{HOST}:{server.port}/v1/x?sig=s3cr3t", host="other.example"))
        [refused] = proxy.wait_for(1)
        assert (refused.host, refused.port, refused.reason) == (
            HOST,
            server.port,
            "the header field host names another host than the address",
        )
        assert "s3cr3t" not in refused.model_dump_json()


def test_another_port_than_the_address():
    reason = "the header field host names another host than the address"
    assert_refused(request(host=f"{HOST}:1"), reason)


def test_no_host():
    assert_refused(request(host=""), "the header field host is missing")


def test_a_length_and_chunks():
    data = request("Content-Length: 4", "Transfer-Encoding: chunked", method="POST") + b"0\r\n\r\n"
    assert_refused(data, "transfer-encoding is not chunked, or not the only length of the body")


def test_chunks_and_a_length():
    data = request("Transfer-Encoding: chunked", "Content-Length: 4", method="POST") + b"0\r\n\r\n"
    assert_refused(data, "transfer-encoding is not chunked, or not the only length of the body")


def test_two_lengths():
    data = request("Content-Length: 0", "Content-Length: 44", method="POST")
    assert_refused(data, "the header field content-length occurs twice")


def test_two_equal_lengths():
    data = request("Content-Length: 0", "Content-Length: 0", method="POST")
    assert_refused(data, "the header field content-length occurs twice")


@pytest.mark.parametrize("length", ["+4", "4, 4", "0x4", "-1", "4 4", "1e2", ""])
def test_a_length_that_is_no_number(length):
    assert_refused(request(f"Content-Length: {length}", method="POST"), "content-length is not a number")


@pytest.mark.parametrize(
    "coding", ["chunked, identity", "gzip, chunked", "xchunked", "chunked\x0b", "identity", '"chunked"']
)
def test_an_obscure_transfer_encoding(coding):
    reason = "transfer-encoding is not chunked, or not the only length of the body"
    if "\x0b" in coding:
        reason = "a header field is invalid"
    assert_refused(request(f"Transfer-Encoding: {coding}", method="POST"), reason)


def test_chunks_in_http_1_0():
    data = request("Transfer-Encoding: chunked", method="POST").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert_refused(data, "transfer-encoding is not chunked, or not the only length of the body")


def test_a_space_before_the_colon():
    assert_refused(request("Transfer-Encoding : chunked", method="POST"), "a header field is invalid")


def test_a_folded_line():
    assert_refused(request("X: a\r\n Host: secret.example"), "a header field is invalid")


def test_a_tab_as_the_first_character():
    assert_refused(request("\tHost: secret.example"), "a header field is invalid")


def test_nul_in_a_field():
    assert_refused(request("X: a\0b"), "a header field is invalid")


def test_a_bare_carriage_return():
    assert_refused(request("X: a\rHost: secret.example"), "a header field is invalid")


def test_a_bare_line_feed():
    assert_refused(request("X: a\nHost: secret.example"), "a line ends without a carriage return")


def test_line_feeds_alone():
    assert_refused(request().replace(b"\r\n", b"\n"), "a line ends without a carriage return")


def test_an_empty_field_name():
    assert_refused(request(": secret.example"), "a header field is invalid")


def test_a_field_without_a_colon():
    assert_refused(request("Host"), "a header field is invalid")


def test_spaces_in_the_first_line():
    first = "the first line is not a request of HTTP/1.1 or HTTP/1.0"
    assert_refused(request(target=f"http://{HOST}:PORT/ http://secret.example/"), first)
    assert_refused(b" " + request(), first)
    assert_refused(request().replace(b"GET ", b"GET  "), first)


def test_an_empty_line_first():
    assert_refused(b"\r\n" + request(), "the first line is not a request of HTTP/1.1 or HTTP/1.0")


def test_http_0_9_and_2():
    first = "the first line is not a request of HTTP/1.1 or HTTP/1.0"
    assert_refused(b"GET /\r\n\r\n", first)
    assert_refused(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", first)


def test_the_proxy_is_no_server():
    assert_refused(request(target="/"), "the target is not an address with http://; use CONNECT for https")


def test_other_schemes():
    for scheme in ("https", "ftp", "file", "gopher", "ws"):
        data = request(target=f"{scheme}://{HOST}:PORT/")
        assert_refused(data, "the target is not an address with http://; use CONNECT for https")


def test_a_user_name_in_an_address():
    data = request(target=f"http://{HOST}:PORT@secret.example/")
    assert_refused(data, '"secret.example" has a user name; leave it out')


def test_a_backslash_before_a_host():
    data = request(target=f"http://secret.example\\@{HOST}:PORT/")
    assert_refused(data, f'"{HOST}:PORT" has a user name; leave it out')


def test_a_fragment_in_an_address():
    data = request(target=f"http://secret.example#@{HOST}:PORT/")
    assert_refused(data, 'the target has a fragment ("#"); leave it out')


def test_an_upgrade():
    data = request("Connection: Upgrade", "Upgrade: websocket")
    assert_refused(data, "the proxy does not upgrade connections; use https or a tunnel (CONNECT)")


def test_an_upgrade_to_http_2():
    data = request("HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA")
    assert_refused(data, "the proxy does not upgrade connections; use https or a tunnel (CONNECT)")


def test_a_connection_field_that_removes_another_one():
    data = request("Connection: close, Host")
    assert_refused(data, "the header field connection names a field that the proxy does not know")


def test_a_head_of_10_megabytes():
    assert_refused(request("X: " + "a" * 10_000_000), "the head has more than 65536 bytes")


def test_a_head_of_many_fields():
    assert_refused(request(*["X: a"] * 300), "there are more than 200 header fields")


def test_connect_with_another_host():
    data = request(method="CONNECT", target=f"{HOST}:PORT", host="secret.example:PORT")
    assert_refused(data, "the header field host names another host than the address")


def test_connect_with_a_body():
    data = request("Content-Length: 30", method="CONNECT", target=f"{HOST}:PORT")
    assert_refused(data, "CONNECT has no body")


def test_connect_that_is_split():
    """A line end in the authority would make a second request of it."""
    data = f"CONNECT {HOST}:PORT\r\nHost: secret.example HTTP/1.1\r\n\r\n".encode()
    assert_refused(data, "the first line is not a request of HTTP/1.1 or HTTP/1.0")


def test_connect_to_a_closed_port():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        with run_proxy(allow(HOST, port)) as proxy:
            answer = proxy.exchange(request(method="CONNECT", target=f"{HOST}:{port}", host=f"{HOST}:{port}"))
            reason = f"cannot connect to {HOST}:{port}: Connection refused"
            assert answer.startswith(b"HTTP/1.1 502 Paddock: ")
            assert answer.endswith(f"\r\n\r\nPaddock: {reason}\n".encode())
            (connection,) = proxy.wait_for()
        assert (connection.verdict, connection.reason) == ("allowed", reason)


def test_a_reason_stays_one_line_of_the_answer():
    """A reason is text of a settings file, and the target is the job's. The status line is ASCII and bounded."""
    reason = "für niemanden\r\nSet-Cookie: a=b\r\n\r\n" + "x" * 4000
    rule = NetworkRule(host=HOST, effect="deny", origin="user", reason=reason)
    with run_proxy(rule) as proxy:
        for data in (
            request(target=f"http://{HOST}/", host=HOST),
            request(method="CONNECT", target=f"{HOST}:443"),
        ):
            head, _, body = proxy.exchange(data.replace(b":PORT", b":443")).partition(b"\r\n\r\n")
            status, *fields = head.split(b"\r\n")
            assert status.startswith(
                b"HTTP/1.1 403 Paddock: f\\xfcr niemanden\\u000d\\u000aSet-Cookie: a=b\\u000d"
            )
            assert len(status) < 1000
            assert [each.partition(b":")[0] for each in fields] == [
                b"Content-Type",
                b"Content-Length",
                b"Connection",
            ]
            assert body.decode().startswith("Paddock: für niemanden\\u000d\\u000aSet-Cookie")
            assert body.count(b"\n") == 1


def test_a_second_request_to_another_host():
    """Requests that come together are decided one by one."""
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        port = str(server.port).encode()
        first = request().replace(b"PORT", port)
        second = request(target="http://secret.example:PORT/", host="secret.example:PORT").replace(
            b"PORT", port
        )
        answer = proxy.exchange(first + second)
        assert answer.startswith(OK + b"HTTP/1.1 403 Paddock: ")
        assert len(server.received) == 1
        assert [each.host for each in proxy.wait_for(2)] == [HOST, "secret.example"]


def test_a_second_request_after_the_rules_changed_their_mind():
    """A kept connection is no grant for the next request."""
    decided = []

    def decide(host, port, request=None):
        decided.append(host)
        allowed = HostDecision(effect="allow", networks=(("127.0.0.0/8",),))
        return allowed if len(decided) == 1 else HostDecision(effect="deny", reason="no more")

    with Server(answering(OK)) as server, run_proxy(decide=decide) as proxy:
        data = request().replace(b"PORT", str(server.port).encode())
        assert proxy.exchange(data * 2).endswith(b"\r\n\r\nPaddock: no more\n")
        assert (decided, len(server.received)) == ([HOST, HOST], 1)


def test_a_redirect_to_an_address_without_a_rule():
    """The client follows it, and its next request is decided."""
    moved = b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/latest/\r\nContent-Length: 0\r\n\r\n"
    with Server(answering(moved)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        url = f"http://{HOST}:{server.port}/"
        done = subprocess.run(
            ["curl", "--silent", "--noproxy", "", "--location", "--proxy", proxy.address, url],
            capture_output=True,
            check=True,
        )
        assert done.stdout.startswith(
            b"Paddock: 169.254.169.254:80 is not allowed by any of the user network rules;"
        )


def test_the_host_gets_a_request_that_was_written_anew():
    """Credentials for the proxy, and what concerns one connection, stay here."""
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        data = request(
            "Proxy-Authorization: Basic c2VjcmV0", "Proxy-Connection: keep-alive", "TE: trailers", "Keep-Alive: 5",
            "Accept: */*", target="HTTP://Granted.Example.:PORT?q=1", host="GRANTED.example:PORT",
        ).replace(b"PORT", str(server.port).encode())  # fmt: skip
        with proxy.connect() as client:
            client.sendall(data)
            assert receive_exactly(client, len(OK)) == OK
        expected = f"GET /?q=1 HTTP/1.1\r\nhost: {HOST}:{server.port}\r\naccept: */*\r\n\r\n"
        assert server.received == [expected.encode()]


def test_no_header_field_names_another_method_than_the_decided_one():
    with Server(answering(OK)) as server:
        rule = allow(HOST, server.port).replace(methods=("POST",))
        data = request(
            "X-HTTP-Method-Override: DELETE", "X_Original_URL: /secret", "Transfer-Encoding: chunked", method="POST"
        )  # fmt: skip
        with run_proxy(rule) as proxy, proxy.connect() as client:
            client.sendall(data.replace(b"PORT", str(server.port).encode()))
            assert receive_exactly(client, len(OK)) == OK
        expected = f"POST / HTTP/1.1\r\nhost: {HOST}:{server.port}\r\ntransfer-encoding: chunked\r\n\r\n"
        assert server.received[0] == expected.encode()


def test_without_rules_on_requests_they_keep_their_header_fields():
    with Server(answering(OK)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        data = request("X-HTTP-Method-Override: DELETE").replace(b"PORT", str(server.port).encode())
        with proxy.connect() as client:
            client.sendall(data)
            assert receive_exactly(client, len(OK)) == OK
        host = f"host: {HOST}:{server.port}"
        expected = f"GET / HTTP/1.1\r\n{host}\r\nx-http-method-override: DELETE\r\n\r\n"
        assert server.received == [expected.encode()]


def test_a_body_is_no_second_request():
    """What follows the length of a body is read as the next request, which is decided."""
    hidden = b"GET http://secret.example/ HTTP/1.1\r\nHost: secret.example\r\n\r\n"
    with Server(collect_one) as server, run_proxy(allow(HOST, server.port)) as proxy:
        head = request(f"Content-Length: {len(hidden)}", method="POST").replace(
            b"PORT", str(server.port).encode()
        )
        with proxy.connect() as client:
            client.sendall(head + hidden)
            assert receive_exactly(client, len(OK)) == OK
        (received,) = server.received
        assert received.endswith(b"\r\n\r\n" + hidden)


def collect_one(server, client):
    head = receive_head(client)
    size = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"content-length")
    )
    server.received.append(head + receive_exactly(client, size))
    client.sendall(OK)


def test_trailers_do_not_reach_the_host():
    body = b"2\r\nab\r\n0\r\n\r\n"

    def answer(server, client):
        receive_head(client)
        server.received.append(receive_exactly(client, len(body)))
        client.sendall(OK)
        server.received.append(client.recv(100))

    with Server(answer) as server, run_proxy(allow(HOST, server.port)) as proxy:
        head = request("Transfer-Encoding: chunked", method="POST").replace(
            b"PORT", str(server.port).encode()
        )
        with proxy.connect() as client:
            client.sendall(head + b"2\r\nab\r\n0\r\nHost: secret.example\r\n\r\n")
            assert receive_exactly(client, len(OK)) == OK
        proxy.wait_for()
        assert server.received[0] == body


@pytest.mark.parametrize(
    "chunk", [b"-1\r\n", b"0x2\r\nab\r\n", b"2 2\r\nab\r\n", b"\r\n", b"f" * 30 + b"\r\n"]
)
def test_an_invalid_chunk(chunk):
    with Server(collect) as server, run_proxy(allow(HOST, server.port)) as proxy:
        head = request("Transfer-Encoding: chunked", method="POST").replace(
            b"PORT", str(server.port).encode()
        )
        assert proxy.exchange(head + chunk).startswith(b"HTTP/1.1 400 Paddock: ")
        proxy.wait_for()
        assert b"".join(server.received).partition(b"\r\n\r\n")[2] == b""


def test_a_host_that_sends_a_length_and_chunks():
    """The length of the chunks is the one that holds; the other one does not reach the job."""
    response = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n"
    )
    with Server(answering(response)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        data = request("Connection: close").replace(b"PORT", str(server.port).encode())
        answer = proxy.exchange(data)
        assert b"Content-Length" not in answer
        assert answer.endswith(b"\r\n\r\n6\r\nabcdef\r\n0\r\n\r\n")


def test_a_host_that_sends_more_than_its_length():
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\n\r\nforged"
    with Server(answering(response)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        answer = proxy.exchange(request().replace(b"PORT", str(server.port).encode()))
        assert answer.endswith(b"\r\n\r\nab")


def test_a_host_that_answers_before_it_has_read_the_body():
    """The job gets the whole answer, although the host closes while the body is on its way."""
    response = b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"

    def answer(server, client):
        receive_head(client)
        client.sendall(response)
        collect(server, client)

    with Server(answer) as server, run_proxy(allow(HOST, server.port)) as proxy:
        head = request("Content-Length: 5000000", method="POST").replace(b"PORT", str(server.port).encode())
        found = proxy.exchange(head + bytes(5_000_000))
        assert found.startswith(b"HTTP/1.1 413 Content Too Large\r\n")
        assert found.endswith(b"\r\n\r\nno")


def test_a_host_that_sends_a_second_response():
    """What a host sends unasked is not the answer to the next request."""
    forged = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged"
    with Server(answering(OK + forged)) as server, run_proxy(allow(HOST, server.port)) as proxy:
        data = request().replace(b"PORT", str(server.port).encode())
        assert b"forged" not in proxy.exchange(data * 2)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nab",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_a_host_that_does_not_speak_http(response):
    def answer(server, client):
        receive_head(client)
        client.sendall(response)

    with Server(answer) as server, run_proxy(allow(HOST, server.port)) as proxy:
        found = proxy.exchange(request().replace(b"PORT", str(server.port).encode()))
        assert found.startswith(b"HTTP/1.1 502 Paddock: ")
        assert f"Paddock: {HOST}:{server.port} does not answer in HTTP/1.1: ".encode() in found


def test_plain_http_in_a_tunnel_names_the_granted_host():
    """A tunnel to port 80 is read as HTTP, so that its Host field is compared, too."""
    with (
        Server(answering(OK)) as server,
        run_outer_proxy(server.port) as outer,
        run_proxy(allow(HOST, 80), outer=outer) as proxy,
    ):
        with proxy.open_tunnel(f"{HOST}:80") as client:
            client.sendall(request(target="/a", host=HOST) + request(target="/b", host="secret.example"))
            answer = receive_all(client)
        assert answer.startswith(OK + b"HTTP/1.1 400 Paddock: ")
        assert answer.endswith(b"Paddock: the header field host names another host than the address\n")
        assert server.received == [f"GET /a HTTP/1.1\r\nhost: {HOST}\r\n\r\n".encode()]


def test_an_absolute_address_in_a_tunnel_names_the_granted_host():
    with (
        Server(answering(OK)) as server,
        run_outer_proxy(server.port) as outer,
        run_proxy(allow("*.example", 80), outer=outer) as proxy,
    ):
        with proxy.open_tunnel(f"{HOST}:80") as client:
            client.sendall(request(target="http://other.example/", host="other.example"))
            assert (
                b"Paddock: a request in the tunnel to granted.example:80 names another host\n"
                in receive_all(client)
            )
        assert server.received == []


def test_other_protocols_in_a_tunnel_to_port_80():
    with (
        Server(collect) as server,
        run_outer_proxy(server.port) as outer,
        run_proxy(allow(HOST, 80), outer=outer) as proxy,
    ):
        with proxy.open_tunnel(f"{HOST}:80") as client:
            client.sendall(b"SSH-2.0-x\r\n\r\n")
            assert receive_all(client).startswith(b"HTTP/1.1 400 ")
        assert server.received == []
