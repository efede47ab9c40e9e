"""Unix sockets of jobs with their own network: those in private directories, and abstract ones.

Attacks on them are in tests/escape/processes.
"""

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.integration.confinement.sandbox.conftest import PATIENCE_S, patiently, started, wardens
from tests.support.processes import has_ended

from paddock.confinement.sandbox.child import process_tree
from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult

T = TypeVar("T")
PYTHON = "/usr/bin/python3"
LOOPBACK = ProcessGrants(network="loopback")
LIMITS = ProcessLimits(timeout_ms=600_000, cpu_ms=600_000, processes=1024)
PRELUDE = """
import ctypes, errno, json, mmap, os, signal, socket, stat, sys, tempfile, threading
libc = ctypes.CDLL(None, use_errno=True)
own = tempfile.mkdtemp()

def result(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]

def serve(address, backlog=4096, kind=socket.SOCK_STREAM):
    server = socket.socket(socket.AF_UNIX, kind)
    server.bind(address)
    server.listen(backlog)
    return server

def reach(address, kind=socket.SOCK_STREAM):
    client = socket.socket(socket.AF_UNIX, kind)
    client.connect(address)
    return client
"""


def with_jails(work: Callable[[KernelSandbox], Awaitable[T]]) -> T:
    """Return the result of work with a sandbox of the tier namespaces."""

    async def scenario() -> T:
        async with KernelSandbox(SandboxFacts(tier="namespaces"), "namespaces") as sandbox:
            return await work(sandbox)

    return patiently(scenario())


def run(program: str, grants: ProcessGrants = LOOPBACK, executable: str = PYTHON) -> str:
    """Run a program alone; return its output."""
    options = ["-e", program] if executable != PYTHON else ["-I", "-S", "-c", PRELUDE + program]
    result = with_jails(lambda sandbox: sandbox.run([executable, *options], grants, LIMITS))
    assert (result.status, result.stderr.head) == ("ok", ""), result
    return result.stdout.head


ADDRESSES = """
found = {}
os.chdir(own)
os.makedirs("folder/below")
os.symlink("folder/below", "link")
for name, address, other in (
    ("absolute", own + "/absolute", None),
    ("shared memory", "/dev/shm/" + os.path.basename(own), None),
    ("relative", "relative", own + "/./folder/../relative"),
    ("below", "folder/below/socket", "link/socket"),
    ("through a link", own + "/link/two", "folder/below/two"),
    ("abstract", "\\0" + own, None),
    ("automatic", "", None),
):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        server = serve(address, kind=kind)
        bound = server.getsockname()
        client = reach(other or bound, kind)
        client.send(b"hello")
        at_server = server.accept()[0]
        user = int.from_bytes(at_server.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)[4:8], "little")
        is_given = bound == (address.encode() if name == "abstract" else address) or name == "automatic" and len(bound) == 6
        found[name] = [is_given, client.getpeername() == bound, at_server.recv(9).decode(), user == os.getuid()]
        for each in (server, client, at_server):
            each.close()
        if not isinstance(bound, bytes):
            os.unlink(bound)
print(json.dumps(found))
"""


def test_sockets_in_private_directories_and_abstract_ones_connect():
    found = json.loads(run(ADDRESSES))
    assert found.keys() == {
        *("absolute", "shared memory", "relative", "below", "through a link", "abstract", "automatic"),
    }
    assert {json.dumps(facts) for facts in found.values()} == {'[true, true, "hello", true]'}


SAME_AS_THE_KERNEL = """
import struct
found = {}
os.chdir(own)
os.mkdir("closed")
server = serve("server")
path = lambda text, size=108: struct.pack("=H%ds" % size, socket.AF_UNIX, text)
unmapped = mmap.mmap(-1, mmap.PAGESIZE * 2)
libc.mprotect(ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(unmapped)) + mmap.PAGESIZE), mmap.PAGESIZE, 0)

def call(name, descriptor, address, size=None):
    ctypes.set_errno(0)
    failed = getattr(libc, name)(descriptor, address, len(address) if size is None else size)
    return errno.errorcode[ctypes.get_errno()] if failed else 0

new = lambda kind=socket.SOCK_STREAM, family=socket.AF_UNIX: socket.socket(family, kind).detach()
for name in ("connect", "bind"):
    for size in (0, 1, 2, 3, 9, 110, 111, 128, 129, 4096, -1, -2**31):
        found[f"{name} with {size} bytes"] = call(name, new(), path(b"absent/x", 4096), size)
    found[f"{name} without NUL"] = call(name, new(), path(b"s" * 200, 108))
    found[f"{name} a name of 108 bytes"] = call(name, new(), path(b"n" * 108, 108))
    found[f"{name} at null"] = call(name, new(), None, 16)
    found[f"{name} into a hole"] = call(name, new(), ctypes.c_void_p(8), 16)
    found[f"{name} at the top"] = call(name, new(), ctypes.c_void_p(2**64 - 8), 16)
    for family in (0, 2, 10, 16, 77):
        found[f"{name} family {family}"] = call(name, new(), struct.pack("=H14s", family, b"server"))
    for descriptor in (-1, 999, 2**31 - 1):
        found[f"{name} of {descriptor}"] = call(name, descriptor, path(b"server"))
    found[f"{name} of a file"] = call(name, os.open(".", os.O_RDONLY), path(b"server"))
    found[f"{name} of a path descriptor"] = call(name, os.open(".", os.O_PATH), path(b"server"))
    for target in ("server", "absent", "absent/x", "server/x", "server/", "closed", "x" * 100 + "/x"):
        found[f"{name} {target}"] = call(name, new(), path(target.encode()))
    os.symlink("dangling", name + "-link")
    found[f"{name} a link"] = call(name, new(), path(name.encode() + b"-link"))
    for at in (socket.AF_INET, socket.AF_INET6):
        found[f"{name} inet {at}"] = [call(name, new(family=at), path(b"server"))]
        found[f"{name} inet {at}"] += [call(name, new(family=at), struct.pack("=H", at) + bytes(26), size) for size in (2, 16, 28)]
twice = new()
found["twice"] = [call("connect", twice, path(b"server")) for _ in range(2)]
found["other kind"] = call("connect", new(socket.SOCK_SEQPACKET), path(b"server"))
bound = new()
found["bound twice"] = [call("bind", bound, path(text)) for text in (b"one", b"two")]
found["not listening"] = call("connect", new(), path(b"one"))
pair = socket.socketpair()
found["pair"] = call("connect", pair[0].fileno(), path(b"server"))
os.umask(0o027)
found["umask"] = [call("bind", new(), path(b"three")), stat.S_IMODE(os.stat("three").st_mode), os.stat("three").st_uid == os.getuid()]
full = serve("full", 0)
clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
for client in clients:
    client.setblocking(False)
found["full"] = [call("connect", client.fileno(), path(b"full")) for client in clients]
found["sent"] = [result(reach("server").sendto, b"x", "server"), result(lambda: socket.socket(socket.AF_UNIX).sendto(b"x", "server"))]
inet = socket.create_server(("127.0.0.1", 0))
client = socket.socket()
client.setblocking(False)
found["internet"] = [client.connect_ex(inet.getsockname()), client.connect_ex(inet.getsockname()), client.connect_ex(inet.getsockname())]
found["refused"] = result(socket.create_connection, ("127.0.0.1", 1))
os.rename("closed", "moved")
print(json.dumps(found))
"""


def test_calls_end_as_the_kernel_ends_them():
    """The same program runs outside of any sandbox."""
    outside = subprocess.run(
        [PYTHON, "-I", "-S", "-c", PRELUDE + SAME_AS_THE_KERNEL], capture_output=True, text=True, check=True
    )
    inside, expected = json.loads(run(SAME_AS_THE_KERNEL)), json.loads(outside.stdout)
    assert inside == expected
    assert (expected["twice"], expected["full"]) == ([0, "EISCONN"], [0, "EAGAIN"])
    assert expected["umask"] == [0, 0o750, True]


OUTSIDE = """
found = {}
folder, me = os.open(WORKSPACE, os.O_RDONLY), os.getpid()
os.symlink(WORKSPACE, own + "/link")
names = [WORKSPACE + "/socket", f"/proc/self/fd/{folder}/socket", f"/proc/self/root{WORKSPACE}/socket", "/etc/socket", "/socket"]
found["connect"] = [result(reach, name) for name in names]
found["bind"] = [result(serve, name.replace("socket", "made")) for name in names]
found["links"] = [result(reach, own + "/link/socket"), result(serve, own + "/link/made")]
os.chdir(WORKSPACE)
found["relative"] = [result(reach, name) for name in ("socket", "./socket", "../socket")] + [result(serve, "made")]
print(json.dumps([found, os.path.exists(WORKSPACE + "/made")]))
"""


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp"])
def test_paths_outside_of_private_directories_are_refused(place):
    """A workspace below /tmp lies below a directory that the job has for itself."""
    with tempfile.TemporaryDirectory(dir=place) as name, socket.socket(socket.AF_UNIX) as server:
        workspace = Path(name).resolve()
        os.chown(workspace, os.geteuid(), os.getegid())
        workspace.chmod(0o777)
        server.bind(f"{workspace}/socket")
        server.listen()
        (workspace / "socket").chmod(0o777)
        grants = ProcessGrants(workspace=workspace, access="workspace-write", network="loopback")
        found = json.loads(run(f"WORKSPACE = {str(workspace)!r}\n{OUTSIDE}", grants))
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    facts, was_made = found
    assert was_made is False
    at_workspace = "EPERM" if place == "/var/tmp" else facts["connect"][0]
    assert facts["connect"] == [at_workspace, *["EPERM"] * 4]
    assert set(facts["bind"] + facts["relative"] + facts["links"]) <= {"EPERM", "ENOENT", "EROFS", "EACCES"}


def test_callers_that_hide_are_served():
    program = """
libc.prctl(4, 0, 0, 0, 0)
server = serve(own + "/socket")
print(bool(reach(own + "/socket")))
"""
    assert run(program) == "True\n"


def test_datagram_sockets_stay_refused():
    program = """
kinds = (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, socket.SOCK_RAW | socket.SOCK_CLOEXEC)
print(json.dumps([result(make, socket.AF_UNIX, kind) for make in (socket.socket, socket.socketpair) for kind in kinds]))
"""
    assert json.loads(run(program)) == ["EPERM"] * 8


def test_multiprocessing_works_with_every_start_method():
    program = """
open("work.py", "w").write('''
import multiprocessing

def square(number):
    return number * number

def put(found):
    found["put"] = 1

if __name__ == "__main__":
    for method in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(method)
        with context.Pool(2) as pool, context.Manager() as manager:
            found = manager.dict()
            process = context.Process(target=put, args=(found,))
            process.start()
            process.join()
            print(method, pool.map(square, range(4)), dict(found))
''')
os.execv(sys.executable, [sys.executable, "work.py"])
"""
    found = "[0, 1, 4, 9] {'put': 1}\n"
    assert run(program) == "".join(f"{method} {found}" for method in ("fork", "spawn", "forkserver"))


def test_node_listens_at_a_path():
    program = """
const net = require("net"), path = process.env.TMPDIR + "/socket"
const server = net.createServer((connection) => connection.end("hello")).listen(path, () => {
  net.connect(path).on("data", (data) => console.log(String(data))).on("close", () => server.close())
})
"""
    assert run(program, executable="/usr/bin/node") == "hello\n"


def test_two_hundred_connections_at_once():
    program = """
import asyncio

async def answer(reader, writer):
    writer.write(await reader.readline())
    await writer.drain()
    writer.close()

async def ask(number):
    reader, writer = await asyncio.open_unix_connection(own + "/socket")
    writer.write(b"%d\\n" % number)
    found = int(await reader.readline())
    writer.close()
    return found

async def main():
    await asyncio.start_unix_server(answer, own + "/socket", backlog=300)
    print(sum(await asyncio.gather(*(ask(number) for number in range(200)))))

asyncio.run(main())
"""
    assert run(program) == "19900\n"


def test_calls_that_wait_delay_no_other_call():
    """Connections wait while the queue of their server is full, until there are too many of them."""
    program = """
server, found = serve(own + "/full", 0), []

def wait():
    found.append(result(lambda: bool(reach(own + "/full"))))

threads = [threading.Thread(target=wait) for _ in range(100)]
for thread in threads:
    thread.start()
other = serve(own + "/other")
print(bool(reach(own + "/other")))
connections = [server.accept() for _ in threads]
for thread in threads:
    thread.join()
print(found == [True] * 100)
"""
    assert run(program) == "True\nTrue\n"


def test_too_many_calls_that_wait_fail_and_the_others_go_on():
    program = """
threading.stack_size(65536)
server, found, failed = serve(own + "/full", 0), [], threading.Semaphore(0)

def wait():
    found.append(result(lambda: bool(reach(own + "/full"))))
    if found[-1] != True:
        failed.release()

threads = [threading.Thread(target=wait, daemon=True) for _ in range(300)]
for thread in threads:
    thread.start()
for _ in range(300 - 257):
    failed.acquire()
other = serve(own + "/other")
client = socket.socket(socket.AF_UNIX)
client.setblocking(False)
client.connect(own + "/other")
print(set(found) <= {True, "EAGAIN"}, result(reach, own + "/other"), flush=True)
os._exit(0)
"""
    assert run(program) == "True EAGAIN\n"


def test_a_caller_that_is_killed_leaves_the_others_alone():
    program = """
server = serve(own + "/full", 0)
first = reach(own + "/full")
for _ in range(20):
    ready, done = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(done, b"x")
        reach(own + "/full")
        os._exit(0)
    os.read(ready, 1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
other = serve(own + "/other")
print(bool(reach(own + "/other")))
"""
    assert run(program) == "True\n"


def brokers(sandbox: KernelSandbox) -> list[int]:
    """Return the children of supervisors that hold a listener."""
    children = [child for pid in wardens(sandbox) for child in process_tree.list_children(pid)]
    return [pid for pid in children if any("seccomp" in str(each.readlink()) for each in descriptors(pid))]


async def grow(count: Path, before: bytes) -> None:
    """Wait until a file has other contents."""
    async with asyncio.timeout(PATIENCE_S):
        while count.read_bytes() == before:  # noqa: ASYNC110, ASYNC240 - a file announces nothing
            await asyncio.sleep(0.005)


def count_threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


async def begun(sandbox: KernelSandbox, program: str) -> asyncio.Task[ProcessResult]:
    """Start a program, and wait until it prints."""
    return await started(
        sandbox, f"{PYTHON} -I -S -c {shlex.quote(PRELUDE + program)}", LOOPBACK, limits=LIMITS
    )


FLOOD = """
server = serve(own + "/socket")
def flood(count):
    for number in range(count):
        client = socket.socket(socket.AF_UNIX)
        client.setblocking(False)
        result(client.connect, own + "/socket")
        client.close()
        if number % 2: server.accept()[0].close()
"""


def test_a_flood_of_calls_leaves_nothing_in_the_broker():
    async def measure(sandbox: KernelSandbox, count: int) -> int:
        task = await begun(sandbox, f"{FLOOD}\nflood({count})\nprint(1, flush=True)\nsignal.pause()")
        (broker,) = brokers(sandbox)
        while count_threads(broker) > 4:  # noqa: ASYNC110 - those that have just done a call end
            await asyncio.sleep(0.005)
        found = len(descriptors(broker))
        task.cancel()
        await asyncio.wait([task])
        return found

    async def scenario(sandbox: KernelSandbox) -> None:
        assert await measure(sandbox, 100) == await measure(sandbox, 20_000)

    with_jails(scenario)


def test_a_job_cannot_see_its_broker_and_outlives_it():
    """The broker is another user's process for all that the job can do; without it, calls fail."""
    program = """
serve(own + "/socket")
seen = sorted(name for name in os.listdir("/proc") if name.isdigit())
print(len(seen), flush=True)
while result(lambda: bool(reach(own + "/socket"))) != "ENOSYS":
    pass
print(result(reach, own + "/socket"), result(serve, own + "/other"), (pair := socket.socketpair())[0].send(b"x"))
"""

    async def scenario(sandbox: KernelSandbox) -> object:
        task = await begun(sandbox, program)
        (broker,) = brokers(sandbox)
        handle = os.pidfd_open(broker)
        os.kill(broker, signal.SIGKILL)
        assert has_ended(handle)
        os.close(handle)
        result = await task
        return result.stdout.head + result.stderr.head

    assert with_jails(scenario) == "3\nENOSYS ENOSYS 1\n"


@pytest.mark.parametrize("kill", [False, True])
def test_the_broker_ends_with_its_job_and_with_its_supervisor(kill):
    program = 'serve(own + "/socket")\nprint(1, flush=True)\nsignal.pause()\n'

    async def scenario(sandbox: KernelSandbox) -> None:
        task = await begun(sandbox, program)
        (broker,) = brokers(sandbox)
        handle = os.pidfd_open(broker)
        if kill:
            for pid in wardens(sandbox):
                os.kill(pid, signal.SIGKILL)
        else:
            task.cancel()
        await asyncio.wait([task])
        assert has_ended(handle)
        os.close(handle)

    with_jails(scenario)


def test_a_job_pauses_and_continues_in_the_midst_of_calls(open_path: Path) -> None:
    program = """
server, n = serve(own + "/socket"), 0
count = os.open("count", os.O_RDWR)
while True:
    client, n = reach(own + "/socket"), n + 1
    server.accept()[0].close()
    os.pwrite(count, b"%d" % n, 0)
"""

    async def scenario(sandbox: KernelSandbox) -> None:
        count = open_path / "count"
        count.write_text("")
        grants = ProcessGrants(workspace=open_path, access="workspace-write", network="loopback")
        job = await sandbox.launch([PYTHON, "-I", "-S", "-c", PRELUDE + program], grants, LIMITS)
        assert isinstance(job, RunningProcess), job
        await grow(count, b"")
        for _ in range(3):
            assert await job.end_turn() is not None
            before = count.read_bytes()
            (broker,) = brokers(sandbox)
            assert "State:\tt (tracing stop)" in Path(f"/proc/{broker}/status").read_text()  # noqa: ASYNC240
            job.begin_turn(600_000, 600_000)
            await grow(count, before)
        job.kill()
        await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    with_jails(scenario)


def test_programs_that_name_no_socket_have_no_broker():
    async def scenario(sandbox: KernelSandbox) -> list[int]:
        task = await started(sandbox, "echo 1; sleep 600", LOOPBACK)
        found = brokers(sandbox)
        task.cancel()
        await asyncio.wait([task])
        return found

    assert with_jails(scenario) == []


def test_the_broker_has_one_capability_and_no_descriptor_of_the_machine():
    program = 'serve(own + "/socket")\nprint(1, flush=True)\nsignal.pause()\n'

    async def scenario(sandbox: KernelSandbox) -> tuple[dict[str, str], list[str]]:
        task = await begun(sandbox, program)
        (broker,) = brokers(sandbox)
        lines = Path(f"/proc/{broker}/status").read_text().splitlines()  # noqa: ASYNC240
        status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        links = sorted(str(each.readlink()) for each in descriptors(broker) if int(each.name) > 2)
        task.cancel()
        await asyncio.wait([task])
        return status, links

    status, links = with_jails(scenario)
    assert {
        name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs")
    } == {
        **dict.fromkeys(("CapInh", "CapBnd", "CapAmb"), "0" * 16),
        **dict.fromkeys(("CapPrm", "CapEff"), f"{1 << 19:016x}"),
        "NoNewPrivs": "1",
    }
    assert links == ["/proc", "anon_inode:seccomp notify"]
