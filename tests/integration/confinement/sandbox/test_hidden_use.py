"""What programs hold where few look counts against their limits, and what is within them is no fault."""

import os
import socket

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

from .conftest import ROOT, patiently

MIB = 1024 * 1024
tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])

WAIT = "\nimport time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: time.sleep(0.01)\nprint('done')\n"
"""Long enough for several looks at what the program holds."""

MODEST = {
    "a memory file that eight processes share": """
import os
file = os.memfd_create("shared")
for _ in range(60): os.write(file, bytes(1 << 20))
for _ in range(8):
    if not os.fork():
        import time
        time.sleep(0.5)
        os._exit(0)
""",
    "memory files with nothing in them": """
import os
files = [os.memfd_create("sparse") for _ in range(8)]
for file in files: os.ftruncate(file, 200 << 20)
""",
    "a large mapping that is not used": """
import mmap
kept = mmap.mmap(-1, 4 << 30)
""",
    "sockets and pipes with nothing in them": """
import os, socket
kept = [socket.socketpair() for _ in range(200)], [os.pipe() for _ in range(100)]
""",
    "a large mapping that is read here and there": """
import mmap
kept = mmap.mmap(-1, 64 << 30, flags=0x4022, prot=mmap.PROT_READ)
for place in range(0, len(kept), 8 << 20): kept[place]
""",
    "some locks on a file": """
import fcntl, os
file = os.open(os.environ["TMPDIR"] + "/file", os.O_RDWR | os.O_CREAT)
for place in range(5000): fcntl.lockf(file, fcntl.LOCK_EX, 1, 2 * place)
""",
    "a temporary file": """
import tempfile
file = tempfile.TemporaryFile()
for _ in range(60): file.write(bytes(1 << 20))
file.flush()
""",
}

BUSY = """
import ctypes, os, threading, time
def work():
    while True: pass
threading.Thread(target=work).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # exit(2), of this thread alone
"""


def run(tier, program, grants=None, **limits):
    async def go():
        said = bytearray()
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT) as sandbox:
            result = await sandbox.run(
                ["/usr/bin/python3", "-I", "-S", "-c", program],
                grants,
                ProcessLimits(**{"memory_bytes": 256 * MIB, "scratch_bytes": 96 * MIB, **limits}),
                Streams(stdout=said.extend, stderr=said.extend),
            )
        return result, bytes(said)

    return patiently(go())


@tiers
@pytest.mark.parametrize("program", MODEST.values(), ids=MODEST)
def test_what_is_within_the_limits_is_no_fault(tier, program):
    result, said = run(tier, program + WAIT)
    assert (result.status, result.limit, said) == ("ok", None, b"done\n")


@tiers
def test_memory_files_of_all_processes_count_together(tier):
    program = """
import os, time
for _ in range(4):
    if not os.fork():
        break
file = os.memfd_create("own")
for _ in range(100): os.write(file, bytes(1 << 20))
time.sleep(20)
"""
    result, _ = run(tier, program, timeout_ms=30_000)
    assert (result.status, result.limit) == ("memory_limit", "memory")
    assert result.usage.peak_bytes > 256 * MIB


@tiers
def test_tables_of_pages_count_as_memory(tier):
    program = """
import mmap, time
nothing = mmap.mmap(-1, 256 << 30, flags=0x4022, prot=mmap.PROT_READ)
for place in range(0, len(nothing), 2 << 20): nothing[place]
time.sleep(20)
"""
    result, _ = run(tier, program, timeout_ms=30_000)
    assert (result.status, result.limit) == ("memory_limit", "memory")
    assert result.usage.peak_bytes > 256 * MIB


@tiers
def test_removed_files_count_with_those_that_have_names(tier):
    program = """
import os, time
for number in range(2):
    path = f"{os.environ['TMPDIR']}/{number}"
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    for _ in range(64): os.write(file, bytes(1 << 20))
    if number: os.unlink(path)
time.sleep(20)
"""
    result, _ = run(tier, program, timeout_ms=30_000)
    assert (result.status, result.limit) == ("output_limit", "scratch")


@tiers
def test_the_time_of_threads_counts_after_the_end_of_the_first_one(tier):
    result, _ = run(tier, BUSY, cpu_ms=500, timeout_ms=30_000)
    assert (result.status, result.limit) == ("timeout", "cpu")
    assert result.usage.cpu_user_ms + result.usage.cpu_system_ms >= 500
    assert result.usage.wall_ms < 15_000


@tiers
def test_processes_that_nobody_collects_count(tier, tmp_path):
    program = """
import os, time
def fork():
    if not os.fork(): os._exit(0)
for _ in range(2000):
    fork()
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
time.sleep(20)
"""
    own = ProcessGrants(workspace=tmp_path, access="workspace-write")
    result, _ = run(tier, program, own, processes=32, timeout_ms=30_000)
    assert (result.status, result.limit) == ("process_limit", "processes")


HIDING = {
    "in flight": """
here, there = socket.socketpair()
for _ in range(8):
    file = os.memfd_create("sent")
    for _ in range(32): os.write(file, bytes(1 << 20))
    socket.send_fds(here, [b"x"], [file])
    os.close(file)
""",
    "unmapped": """
mappings = [mmap.mmap(-1, 32 << 20) for _ in range(8)]
for mapping in mappings:
    for start in range(0, len(mapping), 1 << 20): mapping[start : start + (1 << 20)] = bytes(1 << 20)
    mapping.madvise(mmap.MADV_DONTNEED)
""",
}


@pytest.mark.parametrize("network", ["none", "loopback"])
@pytest.mark.parametrize("program", HIDING.values(), ids=HIDING)
def test_memory_that_others_release_hides_nothing(program, network):
    """Hidden memory shows only in the machine's gauge, which falls when others release theirs."""
    begin = "import mmap, os, socket, sys, time\nprint(flush=True)\nsys.stdin.read()\ntime.sleep(1)\n"
    held = os.memfd_create("held")
    for _ in range(400):
        os.write(held, bytes(MIB))
    ours, theirs = socket.socketpair()

    def release(_):
        os.ftruncate(held, 0)
        ours.close()

    async def go():
        async with KernelSandbox(SandboxFacts(tier="namespaces"), "namespaces", ROOT) as sandbox:
            return await sandbox.run(
                ["/usr/bin/python3", "-I", "-S", "-c", begin + program + "time.sleep(60)"],
                ProcessGrants(network=network),
                ProcessLimits(timeout_ms=60_000, memory_bytes=128 * MIB),
                Streams(stdout=release, channel=theirs),
            )

    with ours, theirs, os.fdopen(held, "rb"):
        result = patiently(go())
    assert (result.status, result.limit) == ("memory_limit", "memory")
