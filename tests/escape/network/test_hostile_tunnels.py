"""A job uses a tunnel to a granted host for another one: TLS for another name, other protocols, SOCKS5."""

import socket
import ssl

import pytest
from tests.support.network import (
    Server,
    allow,
    collect,
    deny,
    echo,
    make_authority,
    make_hello,
    receive_all,
    receive_exactly,
    run_outer_proxy,
    run_proxy,
)

HOST = "granted.example"
ALERT = bytes([0x15, 3, 1, 0, 2, 2, 112])


def tunnel_bytes(*parts: bytes, host: str = HOST, rule: str = HOST) -> tuple[bytes, list[bytes], str, int]:
    """Send parts through a tunnel; return what came back, what the host got, the reported reason, and the port."""
    with Server(collect) as server, run_proxy(allow(rule, server.port)) as proxy:
        with proxy.open_tunnel(f"{host}:{server.port}") as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                client.sendall(part)
            client.shutdown(socket.SHUT_WR)
            answer = receive_all(client)
        (connection,) = proxy.wait_for()
        return answer, server.received, connection.reason, server.port


def assert_refused(problem: str, *parts: bytes, **names: str) -> None:
    answer, received, reason, port = tunnel_bytes(*parts, **names)
    assert (answer, received) == (ALERT, [])
    assert reason == f"{names.get('host', HOST)}:{port}: {problem}"


OTHER = "the ClientHello of TLS names another host (SNI)"


def test_the_granted_name_passes():
    hello = make_hello(HOST)
    answer, received, reason, _ = tunnel_bytes(hello)
    assert (answer, b"".join(received), reason) == (b"", hello, "")


def test_another_server_name():
    assert_refused(OTHER, make_hello("secret.example"))


def test_a_name_below_the_granted_one():
    assert_refused(OTHER, make_hello(f"secret.{HOST}"))


def test_another_server_name_below_one_wildcard():
    """The tunnel is to one name: the rule would allow the other one, but not in this tunnel."""
    assert_refused(OTHER, make_hello("other.example"), rule="*.example")


def test_capital_letters_and_a_dot_are_the_same_name():
    hello = make_hello(HOST)
    for name in (b"Granted.EXAMPLE", b"gRANTED.example"):
        changed = hello.replace(HOST.encode(), name)
        assert tunnel_bytes(changed)[1] == [changed]


def test_no_server_name():
    assert_refused("the ClientHello of TLS has no server name (SNI)", make_hello(None))


def test_no_server_name_for_an_address_that_a_rule_names():
    hello = make_hello(None)
    assert tunnel_bytes(hello, host="127.0.0.1", rule="127.0.0.1")[1] == [hello]


def test_a_server_name_for_an_address():
    assert_refused(OTHER, make_hello("secret.example"), host="127.0.0.1", rule="127.0.0.1")


def test_a_hello_in_many_segments():
    hello = make_hello("secret.example")
    assert_refused(OTHER, *[hello[at : at + 1] for at in range(len(hello))])


def split_records(hello: bytes, size: int) -> bytes:
    body = hello[5:]
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(hello[:3] + len(part).to_bytes(2) + part for part in parts)


@pytest.mark.parametrize("size", [1, 2, 50, 100])
def test_a_hello_in_many_records(size):
    """A ClientHello may be split over records, in the middle of the name, too (RFC 8446, 5.1)."""
    assert_refused(OTHER, split_records(make_hello("secret.example"), size))
    granted = split_records(make_hello(HOST), size)
    assert b"".join(tunnel_bytes(granted)[1]) == granted


def test_a_second_hello_in_the_same_record():
    """Nothing may follow in the record, where the host might prefer it."""
    first, second = make_hello(HOST), make_hello("secret.example")
    both = first[5:] + second[5:]
    assert_refused("something follows the ClientHello", first[:3] + len(both).to_bytes(2) + both)


def with_extension(hello: bytes, kind: int, content: bytes, *, first: bool = False) -> bytes:
    """Return a ClientHello with one more extension."""
    body = bytearray(hello[9:])
    at = 34
    at += 1 + body[at]
    at += 2 + int.from_bytes(body[at : at + 2])
    at += 1 + body[at]
    extensions = bytes(body[at + 2 :])
    added = kind.to_bytes(2) + len(content).to_bytes(2) + content
    extensions = added + extensions if first else extensions + added
    message = bytes(body[:at]) + len(extensions).to_bytes(2) + extensions
    record = b"\x01" + len(message).to_bytes(3) + message
    return hello[:3] + len(record).to_bytes(2) + record


def name_list(*names: bytes) -> bytes:
    entries = b"".join(b"\0" + len(name).to_bytes(2) + name for name in names)
    return len(entries).to_bytes(2) + entries


def test_two_server_name_extensions():
    for first in (True, False):
        hello = with_extension(make_hello(HOST), 0, name_list(b"secret.example"), first=first)
        assert_refused("the ClientHello repeats an extension", hello)


def test_two_server_names_in_one_extension():
    hello = with_extension(make_hello(None), 0, name_list(HOST.encode(), b"secret.example"))
    assert_refused("the ClientHello does not have exactly one server name", hello)


def test_a_server_name_with_nul():
    hello = with_extension(make_hello(None), 0, name_list(HOST.encode() + b"\0.secret.example"))
    assert_refused("the ClientHello does not have exactly one server name", hello)


def test_an_empty_server_name():
    hello = with_extension(make_hello(None), 0, name_list(b""))
    assert_refused("the ClientHello has an invalid list of server names", hello)


def test_a_server_name_of_another_kind():
    hello = with_extension(make_hello(None), 0, b"\0\4\1\0\1x")
    assert_refused("the ClientHello has a server name of an unknown kind", hello)


def test_lengths_that_lie():
    hello = bytearray(make_hello(HOST))
    hello[76:78] = b"\xff\xff"  # of the cipher suites
    assert_refused("the ClientHello is cut off", bytes(hello))


def test_a_hello_that_is_too_long():
    record = b"\x16\x03\x01" + (16384).to_bytes(2) + b"\x01\xff\xff\xff" + bytes(16380)
    rest = b"\x16\x03\x01" + (16384).to_bytes(2) + bytes(16384)
    assert_refused("the ClientHello has more than 65536 bytes", record, *[rest] * 4)


def test_an_empty_record():
    assert_refused("this is not TLS", b"\x16\x03\x01\0\0" + make_hello("secret.example"))


def test_another_handshake_message_first():
    hello = bytearray(make_hello("secret.example"))
    hello[5] = 2
    assert_refused("the first message of TLS is not a ClientHello", bytes(hello))


def test_a_hello_that_ends_early():
    assert_refused("the ClientHello is cut off", make_hello("secret.example")[:40])


def test_a_hello_without_extensions():
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\x01" + b"\1\0"
    hello = b"\x16\x03\x01" + (len(body) + 4).to_bytes(2) + b"\x01" + len(body).to_bytes(3) + body
    assert_refused("the ClientHello of TLS has no server name (SNI)", hello)


@pytest.mark.parametrize(
    "data", [b"SSH-2.0-x\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x80\x2e\x01\x03\x01", b"\0"]
)
def test_port_443_is_for_tls_alone(data):
    with (
        Server(collect) as server,
        run_outer_proxy(server.port) as outer,
        run_proxy(allow(HOST), outer=outer) as proxy,
    ):
        with proxy.open_tunnel(f"{HOST}:443") as client:
            client.sendall(data)
            assert receive_all(client) == ALERT
        assert proxy.wait_for()[0].reason == (
            f"{HOST}:443 is granted for TLS only; name another port in the rule for another protocol"
        )
    assert b"".join(server.received) == b""


def test_a_hello_that_comes_with_the_request():
    """What follows CONNECT in the same segment is compared, too."""
    with Server(collect) as server, run_proxy(allow(HOST, server.port)) as proxy:
        data = f"CONNECT {HOST}:{server.port} HTTP/1.1\r\n\r\n".encode() + make_hello("secret.example")
        assert proxy.exchange(data) == b"HTTP/1.1 200 Connection established\r\n\r\n" + ALERT
        assert server.received == []


def test_a_real_client_with_another_server_name(tmp_path):
    authority = make_authority(tmp_path, "secret.example")

    def serve(server, client):
        with authority.server.wrap_socket(client, server_side=True) as secure:
            server.received.append(secure.recv(100))

    with (
        Server(serve) as server,
        run_proxy(allow(HOST, server.port)) as proxy,
        proxy.open_tunnel(f"{HOST}:{server.port}") as client,
        pytest.raises(ssl.SSLError, match=r"(?i)unrecognized.name"),
    ):
        authority.trust().wrap_socket(client, server_hostname="secret.example")
    assert server.received == []


def socks_request(kind: int, host: bytes, port: int, command: int = 1) -> bytes:
    return bytes([5, command, 0, kind]) + host + port.to_bytes(2)


def socks_name(name: bytes) -> bytes:
    return bytes([len(name)]) + name


def assert_socks_refused(request: bytes, code: int, *rules) -> None:
    with Server(collect) as secret:
        request = request.replace(b"PP", secret.port.to_bytes(2))
        with run_proxy(*(rules or [allow(HOST, 443, secret.port)])) as proxy:
            client, found = proxy.open_socks(request)
            with client:
                assert (found, receive_all(client)) == (code, b"")
        assert not secret.accepted.acquire(blocking=False)


def test_socks_to_a_granted_name():
    with Server(echo) as server, run_proxy(allow(HOST, server.port)) as proxy:
        client, code = proxy.open_socks(socks_request(3, socks_name(b"Granted.example."), server.port))
        with client:
            assert code == 0
            client.sendall(b"hello")
            assert receive_exactly(client, 5) == b"hello"


def test_socks_to_another_name():
    assert_socks_refused(b"\5\1\0\3" + socks_name(b"secret.example") + b"PP", 2)


def test_socks_to_an_address():
    assert_socks_refused(b"\5\1\0\1\x7f\0\0\1PP", 2)


def test_socks_to_an_address_as_a_name():
    assert_socks_refused(b"\5\1\0\3" + socks_name(b"127.0.0.1") + b"PP", 2)


def test_socks_to_a_decimal_address_as_a_name():
    assert_socks_refused(b"\5\1\0\3" + socks_name(b"2130706433") + b"PP", 1)


def test_socks_to_an_address_of_ipv6():
    assert_socks_refused(b"\5\1\0\4" + bytes(15) + b"\1PP", 2)


def test_socks_to_a_mapped_address_does_not_pass_a_denial():
    rules = [allow("*.example"), deny("127.0.0.1")]
    assert_socks_refused(b"\5\1\0\4" + bytes(10) + b"\xff\xff\x7f\0\0\1PP", 2, *rules)


def test_socks_to_a_name_with_a_port():
    assert_socks_refused(b"\5\1\0\3" + socks_name(HOST.encode() + b":443") + b"PP", 1)


def test_socks_to_a_name_with_nul():
    assert_socks_refused(b"\5\1\0\3" + socks_name(b"secret.example\0." + HOST.encode()) + b"PP", 1)


def test_socks_to_port_0():
    assert_socks_refused(socks_request(3, socks_name(HOST.encode()), 0), 1)


def test_socks_to_an_empty_name():
    assert_socks_refused(b"\5\1\0\3\0PP", 1)


def test_socks_with_latin_letters():
    assert_socks_refused(b"\5\1\0\3" + socks_name("bücher.example".encode("latin-1")) + b"PP", 1)


def test_socks_udp():
    assert_socks_refused(socks_request(1, bytes(4), 0, command=3), 7)


def test_socks_bind():
    assert_socks_refused(socks_request(1, bytes(4), 0, command=2), 7)


def test_socks_with_an_unknown_kind_of_address():
    assert_socks_refused(socks_request(2, bytes(4), 443), 8)


def test_socks_with_a_password():
    with run_proxy(allow(HOST)) as proxy:
        assert proxy.exchange(b"\5\1\2") == b"\5\xff"


def test_socks_4():
    with run_proxy(allow(HOST)) as proxy:
        data = b"\4\1\0\x50\x7f\0\0\1user\0\r\n\r\n"
        assert proxy.exchange(data).startswith(b"HTTP/1.1 400 Paddock: ")


def test_tls_in_a_socks_tunnel_names_the_granted_host():
    with Server(collect) as server, run_proxy(allow(HOST, server.port)) as proxy:
        client, _ = proxy.open_socks(socks_request(3, socks_name(HOST.encode()), server.port))
        with client:
            client.sendall(make_hello("secret.example"))
            assert receive_all(client) == ALERT
    assert server.received == []


def test_plain_http_in_a_socks_tunnel_names_the_granted_host():
    with (
        Server(collect) as server,
        run_outer_proxy(server.port) as outer,
        run_proxy(allow(HOST, 80), outer=outer) as proxy,
    ):
        client, _ = proxy.open_socks(socks_request(3, socks_name(HOST.encode()), 80))
        with client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: secret.example\r\n\r\n")
            assert b"Paddock: the header field host names another host than the address\n" in receive_all(
                client
            )
    assert server.received == []


def test_tls_to_the_proxy_itself():
    with run_proxy(allow(HOST)) as proxy, proxy.connect() as client:
        client.sendall(make_hello(HOST))
        client.shutdown(socket.SHUT_WR)
        assert receive_all(client).startswith(b"HTTP/1.1 400 ")
