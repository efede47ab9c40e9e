"""The grants `loopback` and `hosts`: a network of each job's own, in which its processes find each other alone."""

import asyncio
import socket
import textwrap
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child.loopback import PROXY_ADDRESS
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.gate.network_check import check_network
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants
from paddock.model.sandbox import Examination, Layer, TierReport

from .conftest import patiently, started

LOOPBACK, HOSTS = ProcessGrants(network="loopback"), ProcessGrants(network="hosts")
UNREACHABLE = "[Errno 101] Network is unreachable\n"
REFUSED = "[Errno 111] Connection refused\n"


def jails():
    return KernelSandbox(SandboxFacts(tier="namespaces"), "namespaces")


def count_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


def python(program):
    return ["/usr/bin/python3", "-I", "-S", "-c", "import socket\n" + textwrap.dedent(program)]


def run(program, grants, streams=None):
    """Run a Python program alone; return its output."""

    async def main():
        async with jails() as sandbox:
            return await sandbox.run(python(program), grants, streams=streams)

    return read_output(patiently(main()))


def read_output(result):
    assert (result.status, result.stderr.head) == ("ok", ""), result
    return result.stdout.head


def connecting(address, family="AF_INET"):
    return f"""
        try:
            socket.socket(socket.{family}).connect({address!r})
            print("connected")
        except OSError as error:
            print(error)
        """


@pytest.mark.parametrize("grants", [LOOPBACK, HOSTS])
@pytest.mark.parametrize(("family", "address"), [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
def test_processes_of_a_job_find_each_other(grants, family, address):
    program = f"""
        import os
        server = socket.create_server(({address!r}, 0), family=socket.{family})
        if os.fork() == 0:
            socket.create_connection(server.getsockname()[:2]).sendall(b"hello")
            os._exit(0)
        print(server.accept()[0].recv(9), socket.getaddrinfo("localhost", 80)[0][4][0] in ("127.0.0.1", "::1"))
        """
    assert run(program, grants) == "b'hello' True\n"


def test_datagrams_and_the_list_of_interfaces_stay_in_the_job():
    program = """
        first, second = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        first.bind(("127.0.0.1", 0))
        second.sendto(b"x", first.getsockname())
        print(first.recv(9), socket.if_nameindex())
        """
    assert run(program, LOOPBACK) == "b'x' [(1, 'lo')]\n"


def test_servers_of_the_machine_are_not_there():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert run(connecting(("127.0.0.1", port)), LOOPBACK) == REFUSED
        assert run(connecting(("::ffff:127.0.0.1", port), "AF_INET6"), LOOPBACK) == REFUSED
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize("grants", [LOOPBACK, HOSTS])
def test_nothing_outside_can_be_reached(grants):
    for address in (("192.0.2.1", 443), ("169.254.169.254", 80), ("10.0.0.1", 53)):
        assert run(connecting(address), grants) == UNREACHABLE
    for address in (("2001:db8::1", 443), ("fe80::1", 80), ("fd00:ec2::254", 80)):
        assert run(connecting(address, "AF_INET6"), grants) in {UNREACHABLE, "[Errno 22] Invalid argument\n"}
    program = """
        for address in ("192.0.2.1", "224.0.0.1", "255.255.255.255"):
            try:
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (address, 53))
            except OSError as error:
                print(error)
        """
    assert run(program, grants) in {UNREACHABLE * 3, UNREACHABLE * 2 + "[Errno 13] Permission denied\n"}


@pytest.mark.parametrize("grants", [LOOPBACK, HOSTS])
def test_other_kinds_of_sockets_are_refused(grants):
    program = """
        for family, kind, protocol in (
            (socket.AF_UNIX, socket.SOCK_RAW, 0), (socket.AF_UNIX, socket.SOCK_DGRAM, 0),
            (socket.AF_PACKET, socket.SOCK_RAW, 768), (socket.AF_VSOCK, socket.SOCK_STREAM, 0),
            (socket.AF_ALG, socket.SOCK_SEQPACKET, 0), (socket.AF_NETLINK, socket.SOCK_RAW, 4),
            (socket.AF_NETLINK, socket.SOCK_RAW, 9), (socket.AF_NETLINK, socket.SOCK_RAW, 15),
            (socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58), (44, 3, 0), (45, 5, 0),
        ):
            try:
                socket.socket(family, kind, protocol)
                print("made", family, kind, protocol)
            except PermissionError:
                pass
        """
    assert run(program, grants) == ""


def test_the_network_of_a_job_cannot_be_changed():
    program = """
        import fcntl, struct
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        for number, request in (
            (0x8914, struct.pack("16sH22x", b"lo", 0)),                                        # SIOCSIFFLAGS
            (0x8916, struct.pack("16sHH4s16x", b"lo", 2, 0, socket.inet_aton("192.0.2.1"))),   # SIOCSIFADDR
            (0x890B, bytes(120)),                                                              # SIOCADDRT
        ):
            try:
                fcntl.ioctl(control, number, request)
                print("done", hex(number))
            except PermissionError:
                pass
        """
    assert run(program, LOOPBACK) == ""


@pytest.mark.parametrize("grants", [LOOPBACK, HOSTS])
def test_jobs_do_not_find_each_other(grants):
    """They come one after another in one supervisor, and at the same time."""
    listen = "exec /usr/bin/python3 -c 'import socket, time; socket.create_server((\"127.0.0.1\", 47123)); print(1, flush=True); time.sleep(600)'"

    async def main():
        async with jails() as sandbox:
            first = await started(sandbox, listen, grants)
            at_once = await sandbox.run(python(connecting(("127.0.0.1", 47123))), grants)
            first.cancel()
            await asyncio.wait([first])
            after = await sandbox.run(python(connecting(("127.0.0.1", 47123))), grants)
            return at_once, after

    assert [read_output(result) for result in patiently(main())] == [REFUSED, REFUSED]


def test_no_job_gets_the_network_of_another():
    """The next network is made during a job, whose broker serves calls. Open sockets keep each one, and so its number."""
    program = """
        import os
        with socket.create_server(("127.0.0.1", 0)):  # the broker serves this call
            print(os.readlink("/proc/self/ns/net"))
        """
    opened = []

    async def main():
        streams = Streams(on_proxy_socket=lambda proxy, _: opened.append(proxy))
        async with jails() as sandbox:
            return [await sandbox.run(python(program), HOSTS, streams=streams) for _ in range(3)]

    networks = {read_output(result) for result in patiently(main())}
    for proxy in opened:
        proxy.close()
    assert len(opened) == len(networks) == 3
    assert f"{Path('/proc/self/ns/net').readlink()}\n" not in networks


def test_only_paddock_accepts_at_the_proxy_of_a_job():
    program = f"""
        import os
        print([name for name in os.listdir("/proc/self/fd") if "socket" in os.path.realpath("/proc/self/fd/" + name)])
        try:
            socket.create_server({PROXY_ADDRESS!r})
        except OSError as error:
            print(error.errno)
        connection = socket.create_connection({PROXY_ADDRESS!r})
        connection.sendall(b"question")
        print(connection.recv(99))
        """
    questions = []

    async def main():
        loop, tasks = asyncio.get_running_loop(), []

        async def answer(listener):
            with listener:
                listener.setblocking(False)
                connection, _ = await loop.sock_accept(listener)
                with connection:
                    questions.append(await loop.sock_recv(connection, 99))
                    await loop.sock_sendall(connection, b"answer")

        streams = Streams(on_proxy_socket=lambda proxy, _: tasks.append(loop.create_task(answer(proxy))))
        async with jails() as sandbox:
            result = await sandbox.run(python(program), HOSTS, streams=streams)
        await asyncio.gather(*tasks)
        return result

    assert read_output(patiently(main())) == "[]\n98\nb'answer'\n"
    assert questions == [b"question"]


def test_a_proxy_that_nobody_serves_refuses_connections():
    """Without a receiver the socket is closed, and nothing of the process waits in vain."""
    assert run(connecting(PROXY_ADDRESS), HOSTS) in {REFUSED, "[Errno 104] Connection reset by peer\n"}


def test_names_are_resolved_by_the_proxy_alone():
    program = """
        for name in ("localhost", "example.com"):
            try:
                print(socket.getaddrinfo(name, 443, socket.AF_INET)[0][4][0])
            except socket.gaierror as error:
                print(error.errno == socket.EAI_AGAIN)
        print(__import__("os").path.exists("/etc/resolv.conf"))
        """
    assert run(program, HOSTS) == "127.0.0.1\nTrue\nFalse\n"


@pytest.mark.parametrize("tier", ["landlock", "unconfined"])
@pytest.mark.parametrize("network", ["loopback", "hosts"])
def test_other_tiers_refuse_a_network_of_its_own(tier, network):
    async def main():
        async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:
            return await sandbox.run(["/bin/true"], ProcessGrants(network=network))

    result = patiently(main())
    assert (result.status, result.reason) == (
        "invalid",
        f"network {network} needs the tier namespaces, which gives each program its own network; this is the tier "
        f"{tier}. Make namespaces available (paddock doctor says how), or ask for another network: none, full",
    )


def test_descriptors_do_not_stay():
    """Neither Paddock nor its supervisors keep a socket of a job that has ended."""

    async def main():
        async with jails() as sandbox:
            await sandbox.run(["/bin/true"], HOSTS)
            before = count_descriptors()
            for _ in range(5):
                await sandbox.run(["/bin/true"], HOSTS)
            return before, count_descriptors()

    before, after = patiently(main())
    assert before == after


def test_doctor_attacks_the_proxy_of_a_job(monkeypatch):
    def check(tier):
        report = TierReport(tier=tier, proved=True)
        found = Examination(layers=(), tiers=(report,), minimum="landlock", effective=report)
        return patiently(check_network(found, None))

    assert check("namespaces") == Layer(
        name="network hosts", available=True, detail="a granted host was reached, and 10 attacks were refused"
    )
    why = (
        "loopback and hosts need the tier namespaces, which gives each program its own network, not landlock"
    )
    assert check("landlock") == Layer(name="network hosts", available=False, detail=why)
    monkeypatch.setenv("https_proxy", "http://[::1")
    assert check("namespaces") == Layer(
        name="network hosts",
        available=False,
        detail="https_proxy is not an address such as http://proxy.example:3128",
    )
