"""What `KernelSandbox.run` promises, in the tiers that confine. How it holds against enemies is in tests/escape."""

import asyncio
import contextlib
import errno
import gc
import hashlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from tests.support.processes import descendants, has_ended

from paddock.confinement.sandbox.io import InputWriter, OutputReader
from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.model.capture import decode_stream
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.program import CapturedStream

from .conftest import ROOT, patiently, started

TIERS = ("landlock", "namespaces")
tiers = pytest.mark.parametrize("tier", TIERS)
MIB = 1024 * 1024


def run(tier, argv, grants=None, limits=None, streams=None):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, ROOT) as sandbox:
            return await sandbox.run(argv, grants, limits, streams)

    return patiently(go())


@tiers
def test_s18_a_program_runs_and_its_output_is_there(tier):
    result = run(tier, ["sh", "-c", "echo hello; echo oops >&2; exit 3"])
    assert (result.status, result.limit, result.reason) == ("failed", None, "")
    assert (result.exit_code, result.signal) == (3, None)
    assert result.stdout == CapturedStream(head="hello\n", total_bytes=6)
    assert result.stderr == CapturedStream(head="oops\n", total_bytes=5)
    assert (result.kill, result.survivors, result.violations) == ("none", 0, ())
    assert result.usage.wall_ms > 0
    assert result.usage.processes_peak == 1
    assert result.usage.peak_bytes > MIB
    assert result.sandbox == SandboxFacts(tier=tier)


@tiers
@pytest.mark.parametrize("command", ["F_SETLEASE", "F_NOTIFY", "1040"])
def test_nobody_waits_for_the_lease_or_delegation_of_a_program(tier, command):
    """1040 is F_SETDELEG, which Linux 6.19 has; before, the kernel would answer EINVAL."""
    program = f"import os\nfrom fcntl import *\ntry: fcntl(os.open('.', 0), {command}, bytes(16))\nexcept OSError as e: print(e.errno)"
    result = run(tier, ["/usr/bin/python3", "-I", "-S", "-c", program])
    assert (result.status, result.stdout.head) == ("ok", f"{errno.EPERM}\n")


def test_a_program_that_does_not_fit_in_its_memory_says_so():
    result = run("namespaces", ["sh", "-c", "true"], limits=ProcessLimits(memory_bytes=1))
    assert (result.status, result.limit, result.exit_code) == ("memory_limit", "memory", None)
    assert result.reason == "the program itself does not fit in its memory"


def test_what_is_kept_of_a_program_is_free_before_garbage_is_looked_for():
    async def go():
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
            gc.collect()
            gc.disable()
            try:
                before = kept()  # by this process, which has run other tests
                await sandbox.run(["sh", "-c", "seq 100"])
                return [each for each in kept() if not any(each is other for other in before)]
            finally:
                gc.enable()

    def kept():
        return [
            each for each in gc.get_objects() if isinstance(each, RunningProcess | OutputReader | InputWriter)
        ]

    assert patiently(go()) == []


@tiers
def test_a_program_hears_the_signals_that_paddock_was_started_to_ignore(tier):
    """By nohup(1), or as a job in the background of a script; a shell can never trap what it was started to ignore."""
    numbers = (signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR2)
    heard = "trap 'echo heard' HUP QUIT INT USR2; for name in HUP QUIT INT USR2; do kill -$name $$; done"
    before = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    try:
        result = run(tier, ["sh", "-c", heard])
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
    assert result.stdout.head == "heard\n" * 4


@tiers
def test_p27_death_by_signal_is_no_success(tier):
    result = run(tier, ["sh", "-c", "kill -9 $$"])
    assert (result.status, result.exit_code, result.signal) == ("failed", None, 9)


@tiers
def test_a_missing_program_is_named(tier):
    result = run(tier, ["no-such-program"])
    assert (result.status, result.reason) == ("failed", "no-such-program: No such file or directory")


@tiers
def test_p30_environment_is_what_was_granted_and_scratch(tier, monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    result = run(tier, ["env"], ProcessGrants(environment={"A": "1", "HOME": "/root"}))
    seen = dict(line.split("=", 1) for line in result.stdout.head.splitlines())
    assert seen.pop("A") == "1"
    assert seen.pop("PATH") == "/usr/local/bin:/usr/bin:/bin"
    assert seen.pop("LANG") == "C.UTF-8"
    scratch = seen["TMPDIR"].removesuffix("/tmp")
    assert not Path(scratch).exists()
    assert seen == {
        "HOME": f"{scratch}/home",
        "TMPDIR": f"{scratch}/tmp",
        "TMP": f"{scratch}/tmp",
        "TEMP": f"{scratch}/tmp",
        "XDG_CACHE_HOME": f"{scratch}/home/.cache",
        "XDG_CONFIG_HOME": f"{scratch}/home/.config",
        "XDG_DATA_HOME": f"{scratch}/home/.local/share",
    }


@tiers
def test_workspace_can_be_read_or_written_as_granted(tier, tmp_path):
    (tmp_path / "file").write_text("content")
    script = ["sh", "-c", "cat file; echo more > new"]
    reading = run(tier, script, ProcessGrants(workspace=tmp_path, access="read-only"))
    assert reading.stdout.head == "content"
    assert reading.exit_code != 0
    assert not (tmp_path / "new").exists()
    writing = run(tier, script, ProcessGrants(workspace=tmp_path, access="workspace-write"))
    assert (writing.exit_code, writing.violations) == (0, ())
    assert (tmp_path / "new").read_text() == "more\n"
    hidden = run(tier, ["cat", str(tmp_path / "file")])
    assert (hidden.stdout.head, hidden.exit_code) == ("", 1)


@tiers
def test_protected_paths_are_put_back_and_reported(tier, tmp_path):
    hooks = tmp_path / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "pre-commit").write_text("mine")
    (hooks / "pre-commit").chmod(0o755)
    script = (
        "echo theirs > .git/hooks/pre-commit; mkdir -p .vscode; echo x > .mcp.json; echo fine > ok; exit 0"
    )
    result = run(tier, ["sh", "-c", script], ProcessGrants(workspace=tmp_path, access="workspace-write"))
    prevented = () if tier == "namespaces" else (".git/hooks",)
    assert result.violations == (*prevented, ".mcp.json", ".vscode")
    assert (hooks / "pre-commit").read_text() == "mine"
    assert (hooks / "pre-commit").stat().st_mode & 0o777 == 0o755
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", "ok"]


@tiers
def test_stdin_arrives_whole(tier):
    data = os.urandom(3 * MIB)
    result = run(tier, ["sha256sum"], streams=Streams(stdin=data))
    assert result.stdout.head == f"{hashlib.sha256(data).hexdigest()}  -\n"


def test_too_much_stdin_starts_nothing():
    result = run("landlock", ["cat"], limits=ProcessLimits(stdin_bytes=3), streams=Streams(stdin=b"1234"))
    assert (result.status, result.limit) == ("invalid", "stdin")
    assert result.reason == "standard input has 4 bytes, and at most 3 are allowed"


@pytest.mark.parametrize(
    ("argv", "grants", "reason"),
    [
        ([], ProcessGrants(), "there is no program to run"),
        (["a", "b\0"], ProcessGrants(), "an argument contains a NUL character"),
        (["a"], ProcessGrants(access="read-only"), "access read-only needs a workspace"),
        (["a"], ProcessGrants(readable=(Path("/"),)), "/ can never be granted"),
        (["a"], ProcessGrants(readable=(Path("/proc/self"),)), "/proc/self can never be granted"),
        (["a"], ProcessGrants(workspace=Path("/dev"), access="read-only"), "/dev can never be granted"),
        (["a"], ProcessGrants(writable=(Path("/dev/pts"),)), "/dev/pts can never be granted"),
        (
            ["a"],
            ProcessGrants(writable=(Path("/no/where"),)),
            "/no/where is not an absolute path of a directory",
        ),
    ],
)
def test_grants_that_make_no_sense_are_refused(argv, grants, reason):
    result = run("landlock", argv, grants)
    assert (result.status, result.reason) == ("invalid", reason)


@tiers
@pytest.mark.parametrize("access", ["read-only", "workspace-write"])
def test_a_workspace_in_shared_memory_is_one_like_any_other(tier, access):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        workspace = Path(folder)
        workspace.chmod(0o777)
        (workspace / "file").write_text("kept\n")
        result = run(tier, ["sh", "-c", "pwd; cat file"], ProcessGrants(workspace=workspace, access=access))
    assert (result.status, result.stdout.head, result.stderr.head) == ("ok", f"{workspace}\nkept\n", "")


@tiers
def test_s24_s25_output_is_kept_at_both_ends_and_complete_in_the_sink(tier):
    seen = hashlib.sha256()
    streams = Streams(stdout=seen.update)
    result = run(tier, ["seq", "1", "100000"], limits=ProcessLimits(kept_bytes=100), streams=streams)
    whole = "".join(f"{number}\n" for number in range(1, 100_001))
    assert result.stdout == CapturedStream(
        head=whole[:50],
        tail=whole[-50:],
        total_bytes=len(whole),
        omitted_bytes=len(whole) - 100,
        omitted_line_ends=whole[50:-50].count("\n"),
    )
    assert seen.hexdigest() == hashlib.sha256(whole.encode()).hexdigest()
    exact = run(tier, ["printf", "%0100d", "0"], limits=ProcessLimits(kept_bytes=100))
    assert exact.stdout == CapturedStream(head="0" * 100, total_bytes=100)
    assert not exact.stdout.truncated


def test_256_mib_of_output_cost_less_than_20_mib():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = run("landlock", ["head", "-c", str(256 * MIB), "/dev/zero"])
    assert (result.status, result.stdout.total_bytes) == ("ok", 256 * MIB)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20 * 1024


def test_text_comes_whole_however_pieces_cut_it():
    seen = []
    take = decode_stream(seen.append)
    for byte in "aä€😀".encode():
        take(bytes([byte]))
    assert seen == ["a", "ä", "€", "😀"]


@tiers
def test_s20_p25_timeout_keeps_what_was_written(tier):
    begin = time.monotonic()
    result = run(tier, ["sh", "-c", "echo first; sleep 60"], limits=ProcessLimits(timeout_ms=3000))
    assert time.monotonic() - begin < 30
    assert (result.status, result.limit, result.signal) == ("timeout", "wall", signal.SIGKILL)
    assert result.stdout.head == "first\n"
    assert result.survivors == 0


@tiers
def test_cancelling_the_caller_kills_the_program(tier):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:
            task = await started(sandbox, "echo $$; sleep 60")
            (process,) = sandbox.describe_state().processes
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return process.result.result()

    result = patiently(go())
    assert (result.status, result.survivors) == ("cancelled", 0)
    assert result.kill != "none"


SERVER = """
import asyncio, os, signal
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessLimits

async def main():
    async with KernelSandbox(SandboxFacts(tier="{tier}"), "{tier}") as sandbox:
        say = lambda data: os.write(1, data)
        script = "(setsid sleep 12345 & ); echo started; sleep 12345"
        await sandbox.run(["sh", "-c", script], None, ProcessLimits(timeout_ms=60_000), Streams(stdout=say))

signal.alarm(120)
asyncio.run(main())
"""


@tiers
def test_kill_9_on_the_server_leaves_no_child_behind(tier):
    """The pidfds of everything in the server's session, and below it, all end."""
    server = subprocess.Popen([sys.executable, "-c", SERVER.format(tier=tier)], stdout=subprocess.PIPE)
    with server:
        assert server.stdout.readline() == b"started\n"
        family = descendants(server.pid)
        handles = opened(family)
        server.kill()
    assert len(family) >= 4
    for handle in handles:
        assert has_ended(handle)
        os.close(handle)


@tiers
def test_ctrl_c_on_the_server_leaves_no_child_and_no_scratch_behind(tier, open_path):
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER.format(tier=tier)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(open_path)},
        start_new_session=True,
    )
    with server:
        assert server.stdout.readline() == b"started\n"
        handles = opened(descendants(server.pid))
        os.killpg(server.pid, signal.SIGINT)
        said = server.stderr.read()
    assert said.splitlines()[-1] == b"KeyboardInterrupt"
    assert len(handles) >= 4
    for handle in handles:
        assert has_ended(handle)
        os.close(handle)
    assert list(open_path.iterdir()) == []


def opened(pids):
    """Return handles of those processes that have not ended."""
    handles = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            handles.append(os.pidfd_open(pid))
    return handles


@tiers
def test_a_killed_warden_is_a_lost_job_without_survivors(tier):
    async def go():
        async with KernelSandbox(SandboxFacts(tier=tier), tier) as sandbox:
            task = await started(sandbox, "echo x; sleep 60")
            family = descendants(sandbox.describe_state().fork_server.pid)
            handles = opened(family)
            os.kill(family[0], signal.SIGKILL)
            result = await task
            again = await sandbox.run(["true"])
            return result, handles, again

    result, handles, again = patiently(go())
    assert (result.status, result.reason) == ("lost", "the supervisor of this process died")
    assert again.status == "ok"
    for handle in handles:
        assert has_ended(handle)
        os.close(handle)


@tiers
def test_network_is_none_unless_granted(tier):
    dial = ["/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_INET).close()"]
    assert run(tier, dial).exit_code == 1
    assert run(tier, dial, ProcessGrants(network="full")).exit_code == 0
    unix = ["/usr/bin/python3", "-c", "import socket; socket.socket(socket.AF_UNIX)"]
    assert run(tier, unix, ProcessGrants(network="full")).exit_code == 1
