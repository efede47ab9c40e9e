"""What every `Sandbox` promises, as checks. They run small programs of the system, and attack."""

import asyncio
import fcntl
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from paddock.confinement.sandbox.checked import prove_sandbox
from paddock.confinement.sandbox.protocol import Sandbox, Streams
from paddock.foundation.files import make_temporary_directory
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.testing.require import require_equal, require_true

T = TypeVar("T")
_PATIENCE_S = 120
_HOLD = "exec 9>>held; flock 9; echo ready;"
"""Takes a lock on a file of the workspace, which is free again when no process has it any more."""


async def check_output_and_exit_code(sandbox: Sandbox) -> None:
    """Check that both streams and the exit code come back, and sinks hear all of it and the end."""
    received: tuple[list[bytes], list[bytes]] = ([], [])
    streams = Streams(stdout=received[0].append, stderr=received[1].append)
    result = await sandbox.run(["/bin/sh", "-c", "printf out; printf err >&2; exit 3"], streams=streams)
    found = (result.status, result.exit_code, result.stdout.head, result.stderr.head)
    require_equal(found, (Status.FAILED, 3, "out", "err"), "a program's exit code and output are its own")
    require_equal([b"".join(each) for each in received], [b"out", b"err"], "sinks get all bytes")
    require_equal([each[-1:] for each in received], [[b""], [b""]], "sinks get an empty piece at the end")
    require_equal(result.sandbox.tier, sandbox.tier, "a result has the tier of its sandbox")
    require_equal((await sandbox.run(["/bin/true"])).status, Status.OK, "exit code 0 is ok")


async def check_one_stream_of_both(sandbox: Sandbox) -> None:
    """Check that with `combined`, standard error is in standard output, in the order of writing."""
    words = ["/bin/sh", "-c", "echo 1; echo 2 >&2; echo 3"]
    result = await sandbox.run(words, streams=Streams(combined=True))
    found = (result.stdout.head, result.stderr.head)
    require_equal(found, ("1\n2\n3\n", ""), "`combined` keeps the order of both streams")


async def check_input_arguments_and_variables(sandbox: Sandbox) -> None:
    """Check that standard input, arguments and variables arrive as they are, and no other variable does."""
    result = await sandbox.run(["/bin/cat"], streams=Streams(stdin=b"in\n\xff"))
    require_equal(result.stdout.total_bytes, 4, "standard input arrives whole")
    odd = "a b\n'\"$HOME"
    result = await sandbox.run(["/usr/bin/printf", "%s", odd])
    require_equal(result.stdout.head, odd, "arguments pass no shell")
    result = await sandbox.run(["/usr/bin/env"], ProcessGrants(environment={"GIVEN": "yes"}))
    lines = result.stdout.head.splitlines()
    require_true("GIVEN=yes" in lines, "variables of the grants arrive")
    usual = ("GIVEN=", "HOME=", "LANG=", "LC_", "PATH=", "PWD=", "SHLVL=", "TMPDIR=", "_=")
    own = {f"{name}={value}" for name, value in os.environ.items()}
    others = [line for line in lines if line in own and not line.startswith(usual)]
    require_equal(others, [], "no variable of this process arrives")


async def check_what_cannot_start(sandbox: Sandbox) -> None:
    """Check that a program that is not there is a result, and so is too much standard input."""
    result = await sandbox.run(["/no/such/program"])
    require_true(result.status in {Status.FAILED, Status.UNAVAILABLE}, "a missing program is a result")
    require_true(result.reason and result.exit_code is None, "its reason says why nothing ran")
    limits = ProcessLimits(stdin_bytes=3)
    result = await sandbox.run(["/bin/cat"], limits=limits, streams=Streams(stdin=b"long"))
    require_equal((result.status, result.limit), (Status.INVALID, "stdin"), "too much input starts nothing")


async def check_limits(sandbox: Sandbox) -> None:
    """Check that time, output and memory end a program, and the result says which."""
    for limits, script, wanted in (
        (ProcessLimits(timeout_ms=300), "sleep 600", (Status.TIMEOUT, "wall")),
        (
            ProcessLimits(stdout_bytes=1000),
            "head -c 100000 /dev/zero; sleep 600",
            (Status.OUTPUT_LIMIT, "stdout"),
        ),
        (
            ProcessLimits(memory_bytes=64 * 1024 * 1024),
            "head -c 1000000000 /dev/zero | tail",
            (Status.MEMORY_LIMIT, "memory"),
        ),
    ):
        result = await _within_patience(sandbox.run(["/bin/sh", "-c", script], limits=limits))
        require_equal((result.status, result.limit), wanted, f"{wanted[1]} is limited")
    limits = ProcessLimits(kept_bytes=10)
    result = await sandbox.run(
        ["/bin/sh", "-c", "printf 12345; printf %0100d 0; printf abcde"], limits=limits
    )
    found = (result.stdout.head, result.stdout.tail, result.stdout.total_bytes, result.stdout.omitted_bytes)
    require_equal(found, ("12345", "abcde", 110, 100), "the two ends of long output stay in memory")


async def check_workspaces(sandbox: Sandbox) -> None:
    """Check that a workspace is hidden, can be read, or can be written to, as granted."""
    with _make_workspace() as workspace:
        (workspace / "file").write_text("content")
        words = [
            "/bin/sh",
            "-c",
            f"cat {workspace}/file; echo new > {workspace}/made; test -e {workspace}/made",
        ]
        for grants, seen, made in (
            (ProcessGrants(), "", False),
            (ProcessGrants(workspace=workspace, access="read-only"), "content", False),
            (ProcessGrants(workspace=workspace, access="workspace-write"), "content", True),
        ):
            result = await sandbox.run(words, grants)
            require_equal(result.stdout.head, seen, f"access {grants.access} reads what it may")
            require_equal((workspace / "made").exists(), made, f"access {grants.access} writes what it may")
        grants = ProcessGrants(workspace=workspace, access="read-only")
        result = await sandbox.run(["/bin/pwd"], grants)
        require_equal(result.stdout.head.strip(), str(workspace), "a program begins in its workspace")


async def check_readable_paths(sandbox: Sandbox) -> None:
    """Check that of two directories beside each other, a program reads the one that is granted."""
    with _make_workspace() as folder:
        for name in ("given", "kept"):
            (folder / name).mkdir()
            (folder / name / "file").write_text(name)
        words = ["/bin/sh", "-c", f"cat {folder}/given/file; cat {folder}/kept/file"]
        result = await sandbox.run(words, ProcessGrants(readable=(folder / "given",)))
        require_equal(result.stdout.head, "given", "what is not granted cannot be read")


async def check_slots(sandbox: Sandbox) -> None:
    """Check that a program finds the files of its slot, what it made can be read after it, and then all is gone."""
    slot = await sandbox.take_slot(ProcessGrants(), ProcessLimits())
    try:
        scratch = slot.scratch
        owner = scratch.stat().st_uid
        (scratch / "in").write_text("content")
        os.chown(scratch / "in", owner, -1)
        words = ["/bin/sh", "-c", f"cat {scratch}/in > {scratch}/out"]
        result = await sandbox.run(words, ProcessGrants(), ProcessLimits(), slot=slot)
        require_equal((result.status, result.stderr.head), (Status.OK, ""), "a program uses its slot")
        require_equal((scratch / "out").read_text(), "content", "what it made can be read")
    finally:
        slot.release()
    slot.release()
    require_true(await _wait_until(lambda: not scratch.exists()), "a released slot is removed")


async def check_stopping(sandbox: Sandbox) -> None:
    """Check that setting `stop` ends a program with all that it started, and the result is `cancelled`."""
    stop = asyncio.Event()
    with _make_workspace() as workspace:
        grants = ProcessGrants(workspace=workspace, access="workspace-write")
        words = ["/bin/sh", "-c", f"{_HOLD} sleep 600 & sleep 600"]
        streams = Streams(stdout=lambda data: stop.set() if data else None)
        result = await _within_patience(sandbox.run(words, grants, streams=streams, stop=stop))
        require_equal(result.status, Status.CANCELLED, "a stopped program is cancelled")
        require_true(_is_free(workspace), "no process of a stopped program is left")
    result = await sandbox.run(["/bin/true"], stop=stop)
    require_equal(result.status, Status.CANCELLED, "what was stopped before does not start")


async def check_cancelling(sandbox: Sandbox) -> None:
    """Check that cancelling the task ends the program before the cancellation goes on."""
    started = asyncio.Event()
    with _make_workspace() as workspace:
        grants = ProcessGrants(workspace=workspace, access="workspace-write")
        streams = Streams(stdout=lambda _: started.set())
        words = ["/bin/sh", "-c", f"{_HOLD} sleep 600"]
        task = asyncio.ensure_future(sandbox.run(words, grants, streams=streams))
        await _within_patience(started.wait())
        task.cancel()
        with suppress(asyncio.CancelledError):
            await _within_patience(task)
        require_true(task.cancelled(), "a cancelled run raises CancelledError")
        require_true(_is_free(workspace), "no process of a cancelled program is left")


async def check_descendants_end(sandbox: Sandbox) -> None:
    """Check that what a program leaves behind ends with it."""
    with _make_workspace() as workspace:
        grants = ProcessGrants(workspace=workspace, access="workspace-write")
        script = f"{_HOLD} setsid sleep 600 >/dev/null 2>&1 & exit 0"
        result = await _within_patience(sandbox.run(["/bin/sh", "-c", script], grants))
        require_equal(result.status, Status.OK, "a program that leaves processes behind has ended")
        require_true(_is_free(workspace), "no process of an ended program is left")


async def check_programs_side_by_side(sandbox: Sandbox) -> None:
    """Check that several programs run at a time, each with its own output."""
    words = [["/usr/bin/printf", "%s", str(number)] for number in range(8)]
    results = await asyncio.gather(*map(sandbox.run, words))
    require_equal([each.stdout.head for each in results], [*map(str, range(8))], "programs do not mix")


async def check_confinement(sandbox: Sandbox) -> None:
    """Check that the canary is refused files, processes and servers outside, and protected paths."""
    report = await prove_sandbox(sandbox)
    require_true(report.proved, f"the tier {report.tier} is proved: {report.why}")


SANDBOX_CHECKS: tuple[Callable[[Sandbox], Awaitable[None]], ...] = (
    check_output_and_exit_code,
    check_one_stream_of_both,
    check_input_arguments_and_variables,
    check_what_cannot_start,
    check_limits,
    check_workspaces,
    check_readable_paths,
    check_slots,
    check_stopping,
    check_cancelling,
    check_descendants_end,
    check_programs_side_by_side,
    check_confinement,
)
"""What every `Sandbox` promises. Each check is awaited, on the event loop of the sandbox."""


async def _within_patience(work: Awaitable[T]) -> T:
    async with asyncio.timeout(_PATIENCE_S):
        return await work


async def _wait_until(condition: Callable[[], bool]) -> bool:
    """Wait for a condition, and return whether it came."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - nothing tells when a directory is gone
                await asyncio.sleep(0.01)
            return True
    return False


@contextmanager
def _make_workspace() -> Generator[Path]:
    """Give a directory that every user may write to."""
    with make_temporary_directory("paddock-check-") as folder:
        folder.chmod(0o755)
        workspace = folder.resolve() / "workspace"
        workspace.mkdir()
        workspace.chmod(0o777)
        yield workspace


def _is_free(workspace: Path) -> bool:
    """Tell whether no process has the file of `_HOLD` any more."""
    with (workspace / "held").open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True
