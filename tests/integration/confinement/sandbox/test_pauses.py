"""A job can be paused: then nothing of it runs, whatever it has started, and it goes on where it was."""

import asyncio
import fcntl
import os
import signal
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TextIO

import pytest
from tests.integration.confinement.sandbox.conftest import PATIENCE_S, patiently
from tests.support.processes import descendants

from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult

LIMITS = ProcessLimits(timeout_ms=600_000, cpu_ms=600_000)
FOREVER = 600_000
PYTHON = "/usr/bin/python3"
COUNTING: dict[str, str] = {
    "a loop": "import os\nwhile True: os.pwrite(f, b'%d' % n, 0); n += 1",
    "a thread": "import os, threading\ndef run():\n n = 0\n while True: os.pwrite(f, b'%d' % n, 0); n += 1\n"
    "threading.Thread(target=run).start()\nthreading.Event().wait()",
    "a daemon": "import os\nif os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n"
    " while True: os.pwrite(f, b'%d' % n, 0); n += 1\nos.wait(); os.pause() if hasattr(os, 'pause') else "
    "__import__('signal').pause()",
    "its first thread ended": "import ctypes, os, threading\ndef run():\n n = 0\n while True: os.pwrite(f, b'%d' % n, 0); n += 1\n"
    "threading.Thread(target=run).start()\nctypes.CDLL(None).pthread_exit(None)",
    "a child that continues others": "import os, signal\nown = os.getpid()\nif os.fork() == 0:\n while True:\n"
    "  os.kill(own, signal.SIGCONT)\nwhile True: os.pwrite(f, b'%d' % n, 0); n += 1",
    "a stream of children": "import os\nwhile True:\n pid = os.fork()\n if pid == 0: os._exit(0)\n os.waitpid(pid, 0)\n"
    " os.pwrite(f, b'%d' % n, 0); n += 1",
}
"""Programs that write ever higher numbers into a file."""
TIMER = """
import ctypes, os, signal
class Event(ctypes.Structure):  # sigevent(3type)
    _fields_ = [("value", ctypes.c_void_p), ("number", ctypes.c_int), ("notify", ctypes.c_int), ("rest", ctypes.c_char * 48)]
libc = ctypes.CDLL(None)
def send(number, every_ns, first_s, first_ns):
    timer = ctypes.c_void_p()
    assert libc.timer_create(1, ctypes.byref(Event(None, number, 0)), ctypes.byref(timer)) == 0
    assert libc.timer_settime(timer, 0, (ctypes.c_long * 4)(0, every_ns, first_s, first_ns), None) == 0
def count():
    n = 0
    while True: os.pwrite(f, b'%d' % n, 0); n += 1
signal.signal(signal.SIGCONT, lambda *_: None)
signal.signal(signal.SIGHUP, lambda *_: None)
"""
"""Has the kernel send a signal again and again (timer_create(2))."""
COUNTING |= {
    "a timer that continues it": f"{TIMER}\nsend(signal.SIGCONT, 5_000_000, 0, 5_000_000)\ncount()",
    "a child that the end of its parent continues": f"{TIMER}\nif os.fork() == 0:\n r, w = os.pipe()\n"
    " if os.fork() == 0:\n  libc.prctl(1, signal.SIGCONT)\n  os.close(w)\n  count()\n"
    " send(signal.SIGKILL, 0, 0, 100_000_000)\n signal.pause()\nsignal.pause()",
    "a group that a child of another session orphans": f"{TIMER}\nif os.fork() == 0:\n"
    " if os.fork() == 0:\n  os.setpgid(0, 0)\n  if os.fork() == 0: signal.pause()\n  count()\n"
    " send(signal.SIGKILL, 0, 0, 100_000_000)\n signal.pause()\nsignal.pause()",
}
BEGIN = "import os\nf = os.open('count', os.O_RDWR | os.O_CREAT)\nn = 0\n"


@pytest.fixture(params=["namespaces", "landlock"])
def tier(request: pytest.FixtureRequest) -> str:
    return request.param


@asynccontextmanager
async def running(
    tier: str,
    program: str,
    streams: Streams | None = None,
    limits: ProcessLimits = LIMITS,
    grants: ProcessGrants = ProcessGrants(),  # noqa: B008 - a value
) -> AsyncGenerator[RunningProcess]:
    async with KernelSandbox(SandboxFacts(tier=tier), tier=tier, job_user=0) as sandbox:
        job = await sandbox.launch([PYTHON, "-I", "-S", "-c", program], grants, limits, streams)
        assert isinstance(job, RunningProcess), job
        try:
            yield job
        finally:
            job.kill()
            await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)


def read_count(path: Path) -> int:
    try:
        return int(path.read_text() or 0)
    except FileNotFoundError:
        return 0


async def wait_for_count(path: Path, above: int) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while (count := read_count(path)) <= above:  # noqa: ASYNC110 - a file announces nothing
            await asyncio.sleep(0.005)
        return count


@pytest.mark.parametrize("program", COUNTING)
def test_nothing_runs_between_two_turns(tier: str, program: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING[program]) as job:
            count = job.scratch / "count"
            await wait_for_count(count, 0)
            for _ in range(3):
                usage = await job.end_turn()
                assert usage is not None
                before = count.read_bytes()
                await asyncio.sleep(0.05)
                assert count.read_bytes() == before
                job.begin_turn(FOREVER, FOREVER)
                await wait_for_count(count, int(before))

    patiently(scenario())


def test_a_pause_tells_what_was_used_since_the_last_one(tier: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            first = await job.end_turn()
            job.begin_turn(FOREVER, FOREVER)
            second = await job.end_turn()
            assert first is not None
            assert second is not None
            assert second.wall_ms < first.wall_ms + 1000 * PATIENCE_S
            assert first.peak_bytes > 0
            assert job.resident_bytes > 0

    patiently(scenario())


def test_a_job_is_measured_while_it_runs_and_while_it_is_stopped(tier: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            count = job.scratch / "count"
            await wait_for_count(count, 0)
            running_use = await asyncio.gather(job.measure(), job.measure())
            job.pause()
            paused_use = await job.measure()
            job.resume()
            turn = await job.end_turn()
            stopped_use = [await job.measure(), await job.measure()]
            assert turn is not None
            assert running_use[0] == running_use[1]
            uses = [*running_use, paused_use, *stopped_use]
            assert all(use is not None and 1_000_000 < use.memory_bytes < 1_000_000_000 for use in uses)
            times = [use.cpu_ms for use in uses if use is not None]
            assert times == sorted(times)
            assert times[-2] == times[-1] >= turn.cpu_user_ms + turn.cpu_system_ms
            job.begin_turn(FOREVER, FOREVER)
            await wait_for_count(count, int(count.read_bytes()))
            job.kill()
            await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)
            assert await job.measure() is None

    patiently(scenario())


def test_an_interrupt_reaches_the_program_and_its_group(tier: str) -> None:
    program = (
        "import os, signal, time\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nchild = os.fork()\n"
        "if child == 0:\n time.sleep(1000)\ntry:\n signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        " print(flush=True)\n time.sleep(1000)\nexcept KeyboardInterrupt:\n"
        " print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)"
    )
    said: list[bytes] = []
    begun = asyncio.Event()

    async def scenario() -> ProcessResult:
        def take(data: bytes) -> None:
            said.append(data)
            begun.set()

        async with running(tier, program, Streams(stdout=take)) as job:
            await asyncio.wait_for(begun.wait(), PATIENCE_S)
            job.interrupt()
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    result = patiently(scenario())
    assert (result.status, b"".join(said)) == (Status.OK, b"\n-2\n")


def test_an_interrupt_during_a_pause_is_forgotten(tier: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            count = job.scratch / "count"
            await wait_for_count(count, 0)
            assert await job.end_turn() is not None
            job.interrupt()
            job.begin_turn(FOREVER, FOREVER)
            await wait_for_count(count, int(count.read_bytes()))

    patiently(scenario())


def test_a_turn_has_limits_of_its_own(tier: str) -> None:
    async def scenario(timeout_ms: int, cpu_ms: int) -> ProcessResult:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            assert await job.end_turn() is not None
            job.begin_turn(timeout_ms, cpu_ms)
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    ended = patiently(scenario(50, FOREVER)), patiently(scenario(FOREVER, 50))
    assert [(each.status, each.limit) for each in ended] == [
        (Status.TIMEOUT, "wall"),
        (Status.TIMEOUT, "cpu"),
    ]


def test_a_paused_job_can_be_ended(tier: str) -> None:
    async def scenario() -> ProcessResult:
        async with running(tier, BEGIN + COUNTING["a daemon"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            assert await job.end_turn() is not None
            job.kill()
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    result = patiently(scenario())
    assert (result.status, result.survivors) == (Status.CANCELLED, 0)


def test_a_job_that_has_ended_cannot_be_paused(tier: str) -> None:
    async def scenario() -> None:
        async with running(tier, "") as job:
            await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)
            assert await job.end_turn() is None

    patiently(scenario())


def test_a_process_that_stopped_itself_stays_stopped(tier: str) -> None:
    program = (
        "import os, signal, sys\nchild = os.fork()\nif child == 0:\n os.kill(os.getpid(), signal.SIGSTOP)\n print('on', flush=True)\n"
        " os._exit(0)\nos.waitpid(child, os.WUNTRACED)\nprint('stopped', flush=True)\nsys.stdin.read(1)\n"
    )
    said: list[bytes] = []
    begun = asyncio.Event()

    async def scenario() -> None:
        def take(data: bytes) -> None:
            said.append(data)
            begun.set()

        ours, theirs = socket.socketpair()
        with ours, theirs:
            async with running(tier, program, Streams(stdout=take, channel=theirs)) as job:
                await asyncio.wait_for(begun.wait(), PATIENCE_S)
                assert await job.end_turn() is not None
                job.begin_turn(FOREVER, FOREVER)
                assert await job.end_turn() is not None

    patiently(scenario())
    assert b"".join(said) == b"stopped\n"


def test_the_time_of_a_paused_job_stands_still(tier: str) -> None:
    async def scenario() -> tuple[ProcessResult, float]:
        loop = asyncio.get_running_loop()
        async with running(tier, BEGIN + COUNTING["a daemon"], limits=LIMITS.replace(timeout_ms=3000)) as job:
            job.pause()
            began = loop.time()
            await asyncio.sleep(3.5)
            assert not job.result.done()
            count = job.scratch / "count"
            before = read_count(count)
            await asyncio.sleep(0.05)
            assert read_count(count) == before
            paused_ms = (loop.time() - began) * 1000
            job.resume()
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S), paused_ms

    result, paused_ms = patiently(scenario())
    assert (result.status, result.limit, result.survivors) == (Status.TIMEOUT, "wall", 0)
    assert 3000 <= result.usage.wall_ms < paused_ms + 3000


def test_the_time_of_a_turn_stands_still_while_its_job_is_paused(tier: str) -> None:
    exceeded: list[str] = []

    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            job.begin_output(None, exceeded.append, 100)
            job.pause()
            await asyncio.sleep(0.3)
            assert exceeded == []
            job.resume()
            async with asyncio.timeout(PATIENCE_S):
                while not exceeded:  # noqa: ASYNC110 - the timer is the only other task
                    await asyncio.sleep(0.005)

    patiently(scenario())
    assert exceeded == ["wall"]


@pytest.mark.parametrize("program", COUNTING)
def test_a_paused_job_goes_on_where_it_was(tier: str, program: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING[program]) as job:
            count = job.scratch / "count"
            before = await wait_for_count(count, 0)
            for _ in range(3):
                job.pause()
                job.pause()
                job.resume()
                job.resume()
                before = await wait_for_count(count, before)

    patiently(scenario())


def test_a_paused_job_can_be_killed(tier: str) -> None:
    async def scenario() -> ProcessResult:
        async with running(tier, BEGIN + COUNTING["a daemon"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            job.pause()
            job.kill()
            result = await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)
            job.resume()
            return result

    result = patiently(scenario())
    assert (result.status, result.survivors) == (Status.CANCELLED, 0)


def test_the_turn_of_a_paused_job_can_end_and_it_is_paused_no_longer(tier: str) -> None:
    async def scenario() -> None:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            count = job.scratch / "count"
            await wait_for_count(count, 0)
            job.pause()
            assert await job.end_turn() is not None
            job.pause()
            job.resume()
            before = count.read_bytes()
            await asyncio.sleep(0.05)
            assert count.read_bytes() == before
            job.begin_turn(FOREVER, FOREVER)
            await wait_for_count(count, int(before))

    patiently(scenario())


def test_an_interrupt_ends_a_pause(tier: str) -> None:
    async def scenario() -> ProcessResult:
        async with running(tier, BEGIN + COUNTING["a loop"]) as job:
            await wait_for_count(job.scratch / "count", 0)
            job.pause()
            job.interrupt()
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    result = patiently(scenario())
    assert result.status is Status.FAILED
    assert result.stderr.text.endswith("KeyboardInterrupt\n")


KILLED_LATER = """
import threading
threading.Thread(target=threading.Event().wait).start()
print(flush=True)
"""
"""Has two threads."""


def find_program(source: str) -> int:
    """Return the process of a job that runs a program of Python."""
    words = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(os.getpid())}
    [found] = [pid for pid, text in words.items() if text.endswith(f"\0{source}\0".encode())]
    return found


@pytest.mark.parametrize("kind", ["between turns", "paused"])
def test_a_program_that_is_killed_meanwhile_has_ended(tier: str, kind: str) -> None:
    """As by the kernel, when the machine is out of memory."""

    async def scenario() -> ProcessResult:
        said: list[bytes] = []
        async with running(tier, KILLED_LATER, Streams(stdout=said.append)) as job:
            async with asyncio.timeout(PATIENCE_S):
                while not said:  # noqa: ASYNC110 - the program says when it has begun
                    await asyncio.sleep(0.005)
            if kind == "paused":
                job.pause()
            else:
                assert await job.end_turn() is not None
            os.kill(find_program(KILLED_LATER), signal.SIGKILL)
            return await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)

    result = patiently(scenario())
    assert (result.status, result.signal, result.survivors) == (Status.FAILED, 9, 0)


AFTER_THE_FIRST = """
import ctypes, threading, time
def go_on():
    while open("/proc/self/stat").read().rpartition(") ")[2][0] != "Z": time.sleep(0.001)
    print(flush=True)
    signal.pause()
threading.Thread(target=go_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""
LOCKS = {
    "flock": ("fcntl.flock(f, fcntl.LOCK_EX)", "flock"),
    "flock of a process whose first thread has ended": (
        f"fcntl.flock(f, fcntl.LOCK_EX){AFTER_THE_FIRST}",
        "flock",
    ),
    "of an open file description": (
        "fcntl.fcntl(f, 37, struct.pack('hhqqi4x', fcntl.F_RDLCK, 0, 0, 0, 0))",
        "lockf",
    ),
}


@pytest.mark.parametrize("kind", LOCKS)
@pytest.mark.parametrize("access", ["read-only", "workspace-write"])
def test_a_paused_job_holds_no_lock_of_a_file_that_it_may_not_write(
    tier: str, kind: str, access: Literal["read-only", "workspace-write"], open_path: Path
) -> None:
    if AFTER_THE_FIRST in LOCKS[kind][0] and not has_descriptors_of_threads():
        pytest.skip("needs Linux 6.9 (PIDFD_THREAD)")
    take, call = LOCKS[kind]
    (open_path / "file").write_text("text")
    program = (
        f"import fcntl, os, signal, struct\nf = os.open({str(open_path / 'file')!r}, os.O_RDONLY)\n{take}\n"
    )
    said: list[bytes] = []

    async def scenario() -> bool:
        async with running(
            tier,
            f"{program}print(flush=True)\nsignal.pause()",
            Streams(stdout=said.append),
            grants=ProcessGrants(workspace=open_path, access=access),
        ) as job:
            async with asyncio.timeout(PATIENCE_S):
                while not said:  # noqa: ASYNC110 - the program says when it has the lock
                    await asyncio.sleep(0.005)
            with (open_path / "file").open("r+") as file:
                assert not may_lock(call, file)
                assert await job.end_turn() is not None
                if access == "workspace-write":  # a second pause begins after what is done in the first one
                    job.begin_turn(FOREVER, FOREVER)
                    assert await job.end_turn() is not None
                    return may_lock(call, file)
                async with asyncio.timeout(PATIENCE_S):
                    while not may_lock(call, file):  # noqa: ASYNC110 - a lock announces nothing
                        await asyncio.sleep(0.005)
                return True

    assert patiently(scenario()) is (access == "read-only")


def has_descriptors_of_threads() -> bool:
    try:
        os.close(os.pidfd_open(os.getpid(), os.O_EXCL))
    except OSError:
        return False
    return True


def may_lock(call: str, file: TextIO) -> bool:
    try:
        getattr(fcntl, call)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    getattr(fcntl, call)(file, fcntl.LOCK_UN)
    return True
