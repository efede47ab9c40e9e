"""A job writes the name of a host in every form that might be read as another one. None reaches a host without a rule."""

import socket
import subprocess
import sys
from ipaddress import ip_address

import pytest
from tests.support.network import OK, Server, allow, answering, collect, deny, receive_all, run_proxy

HOST = "granted.example"


def connect(proxy, authority: str) -> tuple[bytes, str]:
    """Return the status of the answer to CONNECT, and the reason in its body."""
    answer = proxy.exchange(f"CONNECT {authority} HTTP/1.1\r\n\r\n".encode())
    head, _, body = answer.partition(b"\r\n\r\n")
    return head[9:12], body.decode().strip()


def resolver(*addresses: str):
    """Return a resolver that answers each question with the next address, and the last one for ever."""
    left = list(addresses)

    async def resolve(host, port):
        return [ip_address(text) for text in (left.pop(0) if len(left) > 1 else left[0]).split()]

    return resolve


def assert_refused(authority: str, reason: str, *rules, **terms) -> None:
    """Check that CONNECT is refused, that nothing was connected to, and that the refusal is reported."""
    with Server(collect) as secret:
        target = authority.replace("PORT", str(secret.port))
        reason = reason.replace("PORT", str(secret.port))
        ports = (443, 80, secret.port)
        with run_proxy(*(rules or [allow(HOST, *ports, addresses=())]), **terms) as proxy:
            status, body = connect(proxy, target)
            assert (status, body) == (b"403" if "rule" in reason else b"400", f"Paddock: {reason}")
            (connection,) = proxy.wait_for()
        assert (connection.verdict, connection.reason) == ("refused", reason)
        assert not secret.accepted.acquire(blocking=False)


NO_IPV4 = "is not a host; write an IPv4 address as four decimal numbers"
UNKNOWN = (
    "{0}:PORT is not allowed by any of the user network rules; "
    'add a [[network.rule]] with host = "{1}", effect = "allow" and ports = [PORT] to the user\'s paddock.toml'
)


def leads_to(address: str, real: str = "") -> str:
    return (
        f"{HOST} leads to {address}, which is not a public address; if that is intended, "
        f'add a [[network.rule]] with host = "{HOST}", ports = [PORT], effect = "allow" and addresses = '
        f"""["{real or address}"] to the user's paddock.toml"""
    )


def assert_cannot_lead_to(address: str, real: str = "") -> None:
    assert_refused(f"{HOST}:PORT", leads_to(address, real), resolve=resolver(address))


def test_loopback_as_an_address_has_no_rule():
    assert_refused("127.0.0.1:PORT", UNKNOWN.format("127.0.0.1", "127.0.0.1"))


def test_loopback_of_ipv6_has_no_rule():
    assert_refused("[::1]:PORT", UNKNOWN.format("[::1]", "::1"))


def test_a_decimal_address_is_no_host():
    assert_refused("2130706433:PORT", f'"2130706433" {NO_IPV4}')


def test_an_octal_address_is_no_host():
    assert_refused("0177.0.0.1:PORT", f'"0177.0.0.1" {NO_IPV4}')


def test_a_hexadecimal_address_is_no_host():
    assert_refused("0x7f.0x0.0x0.0x1:PORT", f'"0x7f.0x0.0x0.0x1" {NO_IPV4}')


def test_a_short_address_is_no_host():
    assert_refused("127.1:PORT", f'"127.1" {NO_IPV4}')


def test_an_address_with_a_trailing_dot_is_that_address():
    assert_refused("127.0.0.1.:PORT", UNKNOWN.format("127.0.0.1", "127.0.0.1"))


def test_a_mapped_address_is_the_address_in_it():
    assert_refused("[::ffff:127.0.0.1]:PORT", UNKNOWN.format("127.0.0.1", "127.0.0.1"))


def test_a_mapped_address_does_not_pass_a_denial():
    rules = [allow("*.example", addresses=()), deny("127.0.0.1")]
    assert_refused("[::ffff:7f00:1]:PORT", "127.0.0.1:PORT is denied by user network rule 2", *rules)


def test_a_compatible_address_is_not_public():
    assert_cannot_lead_to("::7f00:1")


def test_nat64_of_loopback_is_loopback():
    assert_cannot_lead_to("64:ff9b::7f00:1", "127.0.0.1")


def test_nat64_of_a_local_network_is_not_public():
    assert_cannot_lead_to("64:ff9b:1::7f00:1")


def test_6to4_of_loopback_is_loopback():
    assert_cannot_lead_to("2002:7f00:1::1", "127.0.0.1")


def test_teredo_is_not_public():
    assert_cannot_lead_to("2001:0:4136:e378:8000:63bf:80ff:fffe")


def test_a_name_that_leads_to_a_mapped_address():
    assert_cannot_lead_to("::ffff:7f00:1", "127.0.0.1")


def test_a_zone_id_is_no_host():
    assert_refused(
        "[fe80::1%25eth0]:PORT", '"fe80::1%25eth0" has a zone id, which only has a meaning on one machine'
    )


def test_a_name_that_leads_to_loopback():
    assert_cannot_lead_to("127.0.0.1")


def test_a_name_that_leads_to_loopback_of_ipv6():
    assert_cannot_lead_to("::1")


def test_a_name_that_leads_to_the_unspecified_address():
    assert_cannot_lead_to("0.0.0.0")


def test_a_name_that_leads_to_the_unspecified_address_of_ipv6():
    assert_cannot_lead_to("::")


def test_a_name_that_leads_to_the_metadata_service():
    assert_cannot_lead_to("169.254.169.254")


def test_a_name_that_leads_to_the_metadata_service_of_ipv6():
    assert_cannot_lead_to("fd00:ec2::254")


def test_a_name_that_leads_to_the_metadata_service_of_azure():
    assert_cannot_lead_to("168.63.129.16")


def test_a_name_that_leads_to_a_private_network():
    assert_cannot_lead_to("10.0.0.1")


def test_a_name_that_leads_to_a_link():
    assert_cannot_lead_to("fe80::1")


def test_a_name_that_leads_to_everybody():
    assert_cannot_lead_to("255.255.255.255")


def test_a_name_that_leads_to_a_group():
    assert_cannot_lead_to("224.0.0.1")


def test_a_name_that_leads_to_a_group_of_ipv6():
    assert_cannot_lead_to("ff0e::1")


def test_a_name_with_one_public_and_one_private_address():
    assert_refused(f"{HOST}:PORT", leads_to("127.0.0.1"), resolve=resolver("1.1.1.1 127.0.0.1", "1.1.1.1"))


def test_the_metadata_service_as_an_address():
    reason = UNKNOWN.format("169.254.169.254", "169.254.169.254").replace(
        " and ports = [PORT]", " and ports = [80]"
    )
    assert_refused("169.254.169.254:80", reason.replace("PORT", "80"))


def test_an_address_of_the_machine_is_not_public_even_if_it_is_global():
    """In a network namespace, where loopback gets a global address."""
    code = """
import resource
from ipaddress import ip_address
from paddock.model.host_names import Authority
from paddock.confinement.network.dial import DialRefusedError, check_addresses
def show(text):
    try:
        check_addresses(Authority("h.example", 443), [ip_address(text)], [])
    except DialRefusedError as problem:
        print(problem)
show("8.8.4.4")
for own in ("8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2606:4700::1"):
    show(own)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
show("8.8.4.4")  # that nothing can be tried is no permission
"""
    script = 'ip link set lo up && ip addr add 8.8.8.8/32 dev lo && ip addr add 2606:4700::1/128 dev lo && exec "$@"'
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", script, "sh", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        f"h.example leads to {own}, which is an address of this machine; if that is intended, "
        f'add a [[network.rule]] with host = "h.example", effect = "allow" and addresses = ["{real}"] '
        "to the user's paddock.toml"
        for own, real in (
            ("8.8.8.8", "8.8.8.8"),
            ("::ffff:808:808", "8.8.8.8"),
            ("64:ff9b::808:808", "8.8.8.8"),
            ("2606:4700::1", "2606:4700::1"),
            ("8.8.4.4", "8.8.4.4"),
        )
    ]


def test_dns_rebinding_between_check_and_connection():
    """The resolver answers with a granted address first and then with another one: it is asked once."""
    with Server(answering(OK)) as server:
        rules = [allow(HOST, server.port, addresses=("127.0.0.1/32",))]
        with run_proxy(*rules, resolve=resolver("127.0.0.1", "127.0.0.2")) as proxy:
            assert connect_and_ask(proxy, server.port) == OK
            assert proxy.wait_for()[0].address == "127.0.0.1"


def test_dns_rebinding_between_two_connections():
    """Each connection resolves and checks anew."""
    with Server(answering(OK)) as server:
        rules = [allow(HOST, server.port, addresses=("127.0.0.1/32",))]
        with run_proxy(*rules, resolve=resolver("127.0.0.1", "127.0.0.2")) as proxy:
            assert connect_and_ask(proxy, server.port) == OK
            told = leads_to("127.0.0.2").replace("PORT", str(server.port))
            assert connect(proxy, f"{HOST}:{server.port}") == (b"403", f"Paddock: {told}")


def connect_and_ask(proxy, port: int) -> bytes:
    with proxy.open_tunnel(f"{HOST}:{port}") as client:
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        return receive_all(client)


def test_a_user_name_in_an_authority():
    assert_refused(f"{HOST}@127.0.0.1:PORT", '"127.0.0.1:PORT" has a user name; leave it out')


def test_a_granted_name_as_a_password():
    assert_refused(f"user:{HOST}@127.0.0.1:PORT", '"127.0.0.1:PORT" has a user name; leave it out')


def test_two_ports():
    assert_refused(f"{HOST}:443:PORT", f'"{HOST}:443:PORT" is not a host and a port')


def test_no_port():
    assert_refused(HOST, f'"{HOST}" has no port')


def test_port_0():
    assert_refused(f"{HOST}:0", f'"{HOST}:0" has no port between 1 and 65535')


def test_a_port_that_the_kernel_would_cut_to_16_bits():
    assert_refused(f"{HOST}:65979", f'"{HOST}:65979" has no port between 1 and 65535')


def test_a_negative_port():
    assert_refused(f"{HOST}:-443", f'"{HOST}:-443" has no port between 1 and 65535')


def test_percent_encoding_in_a_name():
    assert_refused("%67ranted.example:PORT", '"%67ranted.example" is not the name of a host')


def test_a_backslash_in_a_name():
    assert_refused(f"127.0.0.1\\.{HOST}:PORT", f'"127.0.0.1\\.{HOST}" is not the name of a host')


def test_a_long_label():
    name = "a" * 64 + ".example"
    assert_refused(f"{name}:PORT", f'"{name}" is not the name of a host')


def test_a_name_of_10000_characters_is_shortened_in_the_report():
    name = "a" * 10_000
    shown = "a" * 50 + " [... 9900 characters not shown ...] " + "a" * 50
    assert_refused(f"{name}:PORT", f'"{shown}" is not the name of a host')


def test_a_trailing_dot_does_not_pass_a_denial():
    rules = [allow("*.example", 443, addresses=()), deny(HOST)]
    assert_refused(f"{HOST}.:443", f"{HOST}:443 is denied by user network rule 2", *rules)


def test_capital_letters_do_not_pass_a_denial():
    rules = [allow("*.example", 443, addresses=()), deny(HOST)]
    assert_refused("GRANTED.Example:443", f"{HOST}:443 is denied by user network rule 2", *rules)


def test_another_port_does_not_pass_a_denial():
    rules = [allow("*.example", 443, 8443, addresses=()), deny(HOST)]
    assert_refused(f"{HOST}:8443", f"{HOST}:8443 is denied by user network rule 2", *rules)


def test_a_name_above_a_wildcard():
    reason = (
        UNKNOWN.format("example", "example")
        .replace(":PORT", ":443")
        .replace(', effect = "allow" and ports = [PORT]', ' and effect = "allow"')
    )
    assert_refused("example:443", reason, allow("*.example", 443))


def test_a_name_that_ends_like_a_wildcard():
    reason = (
        UNKNOWN.format("badexample", "badexample")
        .replace(":PORT", ":443")
        .replace(', effect = "allow" and ports = [PORT]', ' and effect = "allow"')
    )
    assert_refused("badexample:443", reason, allow("*.example", 443))


def test_a_homograph_in_punycode_is_another_name():
    name = "xn--grnted-3ve.example"  # with a Cyrillic letter
    reason = (
        UNKNOWN.format(name, name)
        .replace(":PORT", ":443")
        .replace(', effect = "allow" and ports = [PORT]', ' and effect = "allow"')
    )
    assert_refused(f"{name}:443", reason)


def test_a_homograph_of_a_denied_name_is_no_way_to_it():
    rules = [allow("*.example", 443, addresses=()), deny("bücher.example")]
    assert_refused(
        "xn--bcher-kva.example:443", "xn--bcher-kva.example:443 is denied by user network rule 2", *rules
    )


@pytest.mark.parametrize("dot", ["\u3002", "\uff0e", "\uff61"])
def test_other_dots_of_unicode(dot):
    """Libraries read these as dots (IDNA 2003, 3.1). A request line with them is none."""
    with run_proxy(allow(HOST)) as proxy:
        assert connect(proxy, f"granted{dot}example:443") == (
            b"400",
            "Paddock: the first line is not a request of HTTP/1.1 or HTTP/1.0",
        )


def test_the_names_of_the_request_are_a_limit():
    reason = f"{HOST}:443 is not among the hosts of this request (other.example); request {HOST}, too"
    with run_proxy(allow("*.example"), names=["other.example"]) as proxy:
        assert connect(proxy, f"{HOST}:443") == (b"403", f"Paddock: {reason}")
