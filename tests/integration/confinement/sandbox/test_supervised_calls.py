"""Supervised calls do what the kernel would below writable roots, refuse the rest, and bound what they cost.

Attacks on them are in tests/escape/processes.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.confinement.sandbox.conftest import PATIENCE_S, patiently, wardens
from tests.support.processes import all_end, watched

from paddock.confinement.sandbox.child import process_tree
from paddock.confinement.sandbox.child.lockdown import JOB_UID
from paddock.confinement.sandbox.process import RunningProcess
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import Tier

PYTHON = ("/usr/bin/python3", "-I", "-S", "-c")
LIMITS = ProcessLimits(timeout_ms=600_000, cpu_ms=600_000)
OTHER_USER = 54321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
users = pytest.mark.parametrize("user", [0, pytest.param(OTHER_USER, marks=needs_root)])
PRELUDE = """
import ctypes, errno, json, mmap, os, signal, socket, stat, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {
    "x86_64": {"fchmodat": 268, "fchmodat2": 452, "utimensat": 280, "utime": 132, "utimes": 235, "futimesat": 261},
    "aarch64": {"fchmodat": 53, "fchmodat2": 452, "utimensat": 88},
}[os.uname().machine]

def system(name, *arguments):
    failed = libc.syscall(NUMBERS[name], *arguments) if name in NUMBERS else getattr(libc, name)(*arguments)
    if failed:
        raise OSError(ctypes.get_errno(), name)

def result(call):
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
"""


def give(workspace: Path, user: int) -> ProcessGrants:
    """Make a workspace of a user; return the grants of a program that may write to it."""
    workspace.mkdir()
    os.chown(workspace, user or os.geteuid(), user or os.getegid())
    return ProcessGrants(workspace=workspace, access="workspace-write")


def run(
    program: str,
    grants: ProcessGrants,
    user: int | None,
    *,
    tier: Tier = "landlock",
    supervised: bool = True,
) -> ProcessResult:
    async def scenario() -> ProcessResult:
        async with KernelSandbox(SandboxFacts(tier=tier), tier, user, supervised=supervised) as sandbox:
            return await sandbox.run([*PYTHON, PRELUDE + program], grants, LIMITS)

    return patiently(scenario())


def read(result: ProcessResult) -> object:
    assert (result.status, result.stderr.head) == (Status.OK, "")
    return json.loads(result.stdout.head)


CALLS = """
found = {}
open("file", "w").close()
os.mkdir("folder")
os.symlink("file", "link")
folder, file = os.open(".", os.O_RDONLY), os.open("file", os.O_RDWR)
mode = lambda name="file": oct(os.stat(name).st_mode & 0o7777)
times = lambda name="file": [os.lstat(name).st_atime_ns, os.lstat(name).st_mtime_ns]
def note(name, call, seen):
    call()
    found[name] = seen()
note("chmod", lambda: libc.chmod(b"file", 0o601), mode)
note("chmod of a link", lambda: libc.chmod(b"link", 0o602), mode)
note("chmod of a folder", lambda: libc.chmod(b"folder/", 0o2703), lambda: mode("folder"))
note("chmod by descriptor path", lambda: os.chmod(f"/proc/self/fd/{file}", 0o603), mode)
note("chmod of the workspace", lambda: os.chmod(".", 0o755), lambda: mode("."))
note("fchmod", lambda: os.fchmod(file, 0o604), mode)
note("fchmodat", lambda: system("fchmodat", folder, b"file", 0o605), mode)
note("fchmodat2", lambda: system("fchmodat2", folder, b"file", 0o606, 0), mode)
note("fchmodat2 of a descriptor", lambda: system("fchmodat2", file, b"", 0o607, 0x1000), mode)
for name, call in {
    "chown": lambda: os.chown("file", os.getuid(), os.getgid()),
    "lchown": lambda: os.lchown("link", -1, os.getgid()),
    "fchown": lambda: os.fchown(file, os.getuid(), -1),
    "fchownat": lambda: os.chown("file", -1, -1, dir_fd=folder),
    "chown to another": lambda: os.chown("file", os.getuid() + 1, -1),
}.items():
    found[name] = result(call)
note("utime", lambda: system("utime", b"file", (ctypes.c_long * 2)(1, 2)), times)
note("utimes", lambda: system("utimes", b"file", (ctypes.c_long * 4)(3, 4, 5, 6)), times)
note("futimesat", lambda: system("futimesat", folder, b"file", (ctypes.c_long * 4)(7, 8, 9, 10)), times)
note("utimensat", lambda: libc.utimensat(folder, b"file", (ctypes.c_long * 4)(11, 12, 13, 14), 0), times)
note("utimensat that omits", lambda: libc.utimensat(-100, b"file", (ctypes.c_long * 4)(0, 0x3ffffffe, 15, 16), 0), times)
note("utimensat of a link", lambda: libc.utimensat(-100, b"link", (ctypes.c_long * 4)(17, 0, 18, 0), 0x100), lambda: times("link"))
note("futimens", lambda: libc.futimens(file, (ctypes.c_long * 4)(19, 0, 20, 0)), times)
note("utimensat now", lambda: libc.utimensat(-100, b"file", None, 0), lambda: times()[0] > 10**18)
note("setxattr", lambda: os.setxattr("file", "user.a", b"1"), lambda: os.getxattr("file", "user.a").decode())
note("lsetxattr", lambda: os.setxattr("file", "user.b", b"", follow_symlinks=False), lambda: sorted(os.listxattr("file")))
note("fsetxattr", lambda: os.setxattr(file, "user.a", b"12"), lambda: os.getxattr("file", "user.a").decode())
found["create again"] = result(lambda: os.setxattr(file, "user.a", b"12", os.XATTR_CREATE))
note("removexattr", lambda: os.removexattr("link", "user.a"), lambda: os.listxattr("file"))
note("fremovexattr", lambda: os.removexattr(file, "user.b"), lambda: os.listxattr("file"))
print(json.dumps(found))
"""


@users
def test_each_call_has_its_effect_below_the_workspace(open_path: Path, user: int) -> None:
    by_kernel = read(run(CALLS, give(open_path / "one", user), user, supervised=False))
    assert read(run(CALLS, give(open_path / "two", user), user)) == by_kernel
    assert isinstance(by_kernel, dict)
    assert by_kernel["chmod by descriptor path"] == "0o603"
    assert by_kernel["futimens"] == [19_000_000_000, 20_000_000_000]


ERRORS = """
open("file", "w").close()
os.symlink("missing", "dangling")
os.symlink("loop", "loop")
file, names = os.open("file", os.O_RDONLY), os.open("file", os.O_PATH)
page = mmap.mmap(-1, 8192)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
libc.munmap(ctypes.c_void_p(address + 4096), 4096)
page[4092:4096] = b"file"
libc.chmod.argtypes = [ctypes.c_void_p, ctypes.c_uint]
texts = {name: ctypes.create_string_buffer(text) for name, text in {
    "long": b"f" * 256, "very long": b"./" * 2500 + b"file", "longest": b"./" * 2045 + b"file"}.items()}
def chmod(where):
    if libc.chmod(where, 0o600) < 0:
        raise OSError(ctypes.get_errno(), "chmod")
cases = {
    "null": lambda: chmod(None),
    "low": lambda: chmod(8),
    "of the kernel": lambda: chmod(2**64 - 4096),
    "ends with its page": lambda: chmod(address + 4092),
    "long": lambda: chmod(ctypes.addressof(texts["long"])),
    "longest": lambda: chmod(ctypes.addressof(texts["longest"])),
    "very long": lambda: chmod(ctypes.addressof(texts["very long"])),
    "empty": lambda: os.chmod("", 0o600),
    "missing": lambda: os.chmod("missing", 0o600),
    "below a file": lambda: os.chmod("file/x", 0o600),
    "file as folder": lambda: os.chmod("file/", 0o600),
    "dangling": lambda: os.chmod("dangling", 0o600),
    "loop": lambda: os.chmod("loop", 0o600),
    "no descriptor": lambda: os.fchmod(999, 0o600),
    "negative descriptor": lambda: os.fchmod(-1, 0o600),
    "relative to no descriptor": lambda: system("fchmodat", 999, b"file", 0o600),
    "relative to a file": lambda: system("fchmodat", file, b"file", 0o600),
    "absolute with no descriptor": lambda: system("fchmodat", 999, os.fsencode(os.getcwd() + "/file"), 0o600),
    "flags": lambda: system("fchmodat2", -100, b"file", 0o600, 1),
    "no path": lambda: system("utimensat", -100, None, None, 0),
    "microseconds": lambda: system("utimes", b"file", (ctypes.c_long * 4)(1, 1000000, 1, 0)),
    "times": lambda: system("utimensat", -100, b"file", ctypes.c_void_p(8), 0),
    "attribute without a namespace": lambda: os.setxattr("file", "paddock", b""),
    "empty attribute name": lambda: os.setxattr("file", "", b""),
    "long attribute name": lambda: os.setxattr("file", "user." + "n" * 300, b""),
    "large attribute": lambda: os.setxattr("file", "user.n", b"x" * 65537),
    "missing attribute": lambda: os.removexattr("file", "user.n"),
    "attribute of root": lambda: os.setxattr("file", "trusted.n", b""),
    "replaced attribute": lambda: os.setxattr("file", "user.n", b"", os.XATTR_REPLACE),
}
print(json.dumps({name: result(case) for name, case in cases.items()}))
"""


@users
def test_errors_are_those_of_the_kernel(open_path: Path, user: int) -> None:
    by_kernel = read(run(ERRORS, give(open_path / "one", user), user, supervised=False))
    assert read(run(ERRORS, give(open_path / "two", user), user)) == by_kernel


ANONYMOUS = """
import tempfile
one, other = socket.socketpair()
unlinked = os.open("gone", os.O_CREAT | os.O_RDWR)
os.unlink("gone")
os.mkdir("lost")
lost = os.open("lost", os.O_RDONLY)
os.rmdir("lost")
descriptors = {
    "memory file": os.memfd_create("m"),
    "unlinked": unlinked,
    "unnamed": os.open(".", os.O_TMPFILE | os.O_RDWR, 0o600),
    "removed folder": lost,
    "pipe": os.pipe()[0],
    "socket": one.fileno(),
    "events": os.eventfd(0),
    "input": 0,
    "device": os.open("/dev/null", os.O_RDWR),
}
print(json.dumps({name: result(lambda: os.fchmod(file, 0o640)) for name, file in descriptors.items()}))
"""


@users
def test_of_files_without_a_name_only_regular_ones_can_be_changed(open_path: Path, user: int) -> None:
    assert read(run(ANONYMOUS, give(open_path / "workspace", user), user)) == {
        "memory file": "done",
        "unlinked": "done",
        "unnamed": "done",
        "removed folder": "EPERM",
        "pipe": "EPERM",
        "socket": "EPERM",
        "events": "EPERM",
        "input": "EPERM",
        "device": "EPERM",
    }


def test_what_is_granted_for_reading_cannot_be_changed_and_links_lead_to_what_can(open_path: Path) -> None:
    grants = give(open_path / "read", 0).model_copy(update={"access": "read-only"})
    (open_path / "read" / "file").write_text("")
    program = (
        "scratch = os.environ['TMPDIR']\nopen(f'{scratch}/file', 'w').close()\nos.symlink('file', f'{scratch}/link')\n"
        "os.symlink(f'{scratch}/../tmp', f'{scratch}/around')\nos.symlink('/etc/passwd', f'{scratch}/out')\n"
        "print(json.dumps([result(lambda: os.chmod(path, 0o600)) for path in ('file', f'{scratch}/file', f'{scratch}/link',"
        " f'{scratch}/around/link', f'{scratch}/out', '/', '/proc/self/status', '/usr')]))"
    )
    expected = ["EPERM", "done", "done", "done", "EPERM", "EPERM", "EPERM", "EPERM"]
    assert read(run(program, grants, 0)) == expected


WATCHES = """
libc.inotify_add_watch.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_uint32]
CREATED, ACCESSED, ONLY_FOLDER, DONT_FOLLOW = 0x100, 0x1, 0x01000000, 0x02000000
def watch(path, mask=CREATED, descriptor=None):
    number = libc.inotify_add_watch(watcher if descriptor is None else descriptor, path.encode(), mask)
    if number < 0:
        raise OSError(ctypes.get_errno(), path)
    return number
watcher = libc.inotify_init1(0o4000)
os.mkdir("seen")
os.symlink("seen", "link")
open("file", "w").close()
first, second = watch("seen"), watch(os.environ["TMPDIR"])
again = watch("link") == first
open("seen/made", "w").close()
event = os.read(watcher, 4096)
found = {
    "watches": [first, second, again],
    "event": [int.from_bytes(event[:4], "little"), event[16:].rstrip(bytes(1)).decode()],
    "thread": [],
    "system": result(lambda: watch("/usr/lib")),
    "file": result(lambda: watch("file", ACCESSED)),
    "link itself": result(lambda: watch("link", CREATED | DONT_FOLLOW)),
    "outside": result(lambda: watch("..")),
    "of root": result(lambda: watch("/")),
    "missing": result(lambda: watch("missing")),
    "no folder": result(lambda: watch("file", CREATED | ONLY_FOLDER)),
    "no mask": result(lambda: watch("seen", 0)),
    "no descriptor": result(lambda: watch("seen", CREATED, 999)),
    "no watcher": result(lambda: watch("seen", CREATED, 0)),
}
thread = threading.Thread(target=lambda: found["thread"].append(watch("seen") == first))
thread.start()
thread.join()
print(json.dumps(found))
"""


@pytest.mark.parametrize("user", [0, *(pytest.param(user, marks=needs_root) for user in (OTHER_USER, None))])
def test_watches_work_where_a_program_may_read_and_nowhere_else(open_path: Path, user: int | None) -> None:
    """Also for the default user of root's programs, which owns nothing outside."""
    owner = JOB_UID if user is None else user
    by_kernel = read(run(WATCHES, give(open_path / "one", owner), owner, tier="unconfined"))
    found = read(run(WATCHES, give(open_path / "two", owner), user))
    assert isinstance(by_kernel, dict)
    assert (by_kernel["outside"], by_kernel["of root"]) == ("done", "done")
    assert found == by_kernel | {"outside": "EPERM", "of root": "EPERM"}
    assert by_kernel["event"] == [1, "made"]


def test_a_file_that_is_renamed_meanwhile_is_found(open_path: Path) -> None:
    program = """
os.mkdir("one")
file = os.open("one/file", os.O_CREAT | os.O_RDWR)
done = False
def rename():
    while not done:
        os.rename("one", "two")
        os.rename("two", "one")
thread = threading.Thread(target=rename)
thread.start()
found = {result(lambda: os.fchmod(file, 0o600 + n % 8)) for n in range(100)}
done = True
thread.join()
print(json.dumps(list(found)))
"""
    assert read(run(program, give(open_path / "workspace", 0), 0)) == ["done"]


def test_the_listener_does_not_stay_in_the_job(open_path: Path) -> None:
    program = "print(json.dumps(sorted(os.listdir('/proc/self/fd'))))"
    assert read(run(program, give(open_path / "workspace", 0), 0)) == ["0", "1", "2", "3"]


CALLERS = """
def change(name):
    open(name, "w").close()
    os.chmod(name, 0o611)
def child():
    if not (pid := os.fork()):
        change("child")
        os._exit(0)
    os.waitpid(pid, 0)
def daemon():
    if not (pid := os.fork()):
        os.setsid()
        if not os.fork():
            change("daemon")
            os.write(theirs, b"x")
        os._exit(0)
    os.waitpid(pid, 0)
    os.read(ours, 1)
ours, theirs = os.pipe()
thread = threading.Thread(target=change, args=("thread",))
thread.start()
thread.join()
child()
daemon()
open("program", "w").close()
os.waitpid(os.posix_spawn("/bin/chmod", ["chmod", "611", "program"], {}), 0)
print(json.dumps({name: oct(os.stat(name).st_mode & 0o777) for name in ("thread", "child", "daemon", "program")}))
"""


@users
def test_threads_children_and_daemons_are_served(open_path: Path, user: int) -> None:
    done = read(run(CALLERS, give(open_path / "workspace", user), user))
    assert done == dict.fromkeys(("thread", "child", "daemon", "program"), "0o611")


def test_killed_callers_and_unreadable_ones_leave_the_others_served(open_path: Path) -> None:
    program = """
open("file", "w").close()
pids = []
for _ in range(8):
    pids.append(os.fork())
    if not pids[-1]:
        while True: os.chmod("file", 0o600)
for pid in pids:
    os.chmod("file", 0o600)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
libc.prctl(4, 0, 0, 0, 0)
hidden = result(lambda: os.chmod("file", 0o777)), result(lambda: os.fchmod(os.open("file", os.O_RDWR), 0o777))
libc.prctl(4, 1, 0, 0, 0)
print(json.dumps([hidden, result(lambda: os.chmod("file", 0o611)), oct(os.stat("file").st_mode & 0o777)]))
"""
    assert read(run(program, give(open_path / "workspace", 0), 0)) == [["EACCES", "EACCES"], "done", "0o611"]


@asynccontextmanager
async def running(
    program: str, grants: ProcessGrants
) -> AsyncGenerator[tuple[KernelSandbox, RunningProcess, Path]]:
    """Run a program until it has written to `count` in its workspace."""
    assert grants.workspace is not None
    count = grants.workspace / "count"
    count.write_text("")
    async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock", 0) as sandbox:
        job = await sandbox.launch([*PYTHON, PRELUDE + program], grants, LIMITS)
        assert isinstance(job, RunningProcess), job
        try:
            await grow(count, b"")
            yield sandbox, job, count
        finally:
            job.kill()
            await asyncio.wait_for(asyncio.shield(job.result), PATIENCE_S)


async def grow(count: Path, before: bytes) -> None:
    """Wait until a file has other contents."""
    async with asyncio.timeout(PATIENCE_S):
        while count.read_bytes() == before:  # noqa: ASYNC110, ASYNC240 - a file announces nothing
            await asyncio.sleep(0.005)


def brokers(sandbox: KernelSandbox) -> list[int]:
    """Return the children of supervisors that hold a listener."""
    children = [child for pid in wardens(sandbox) for child in process_tree.list_children(pid)]
    return [pid for pid in children if any("seccomp" in str(each.readlink()) for each in descriptors(pid))]


def descriptors(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/fd").iterdir())


COUNTING = """
n = 0
while True:
    n += 1
    os.chmod("count", 0o600 + n % 8)
    os.pwrite(f, b"%d" % n, 0)
"""
THREADS = "f = os.open('count', os.O_RDWR)\nfor _ in range(4): threading.Thread(target=lambda: exec(COUNTING)).start()"


@pytest.mark.parametrize(
    "program", ["f = os.open('count', os.O_RDWR)" + COUNTING, f"COUNTING = {COUNTING!r}\n{THREADS}"]
)
def test_a_job_pauses_and_continues_in_the_midst_of_calls(open_path: Path, program: str) -> None:
    async def scenario() -> None:
        async with running(program, give(open_path / "workspace", 0)) as (_, job, count):
            for _ in range(5):
                assert await job.end_turn() is not None
                facts = count.stat()
                before = count.read_bytes(), facts.st_ctime_ns
                await asyncio.sleep(0)
                assert (count.read_bytes(), count.stat().st_ctime_ns) == before
                job.begin_turn(600_000, 600_000)
                await grow(count, before[0])

    patiently(scenario())


def test_without_its_broker_a_call_fails_and_does_nothing(open_path: Path) -> None:
    program = """
f = os.open("count", os.O_RDWR)
os.chmod("count", 0o602)
os.pwrite(f, b"1", 0)
while (seen := result(lambda: os.chmod("count", 0o602))) == "done": pass
os.pwrite(f, json.dumps([seen, result(lambda: os.fchmod(f, 0o666)), result(lambda: os.chmod("/etc", 0o777))]).encode(), 0)
signal.pause()
"""

    async def scenario() -> tuple[object, int]:
        async with running(program, give(open_path / "workspace", 0)) as (sandbox, _, count):
            (broker,) = brokers(sandbox)
            os.kill(broker, signal.SIGKILL)
            await grow(count, b"1")
            return json.loads(count.read_bytes()), count.stat().st_mode & 0o777

    assert patiently(scenario()) == (["ENOSYS", "ENOSYS", "ENOSYS"], 0o602)


def test_the_broker_ends_with_its_job_and_with_its_supervisor(open_path: Path) -> None:
    program = "f = os.open('count', os.O_RDWR)" + COUNTING

    async def scenario(*, kill: bool) -> None:
        grants = give(open_path / f"workspace-{kill}", 0)
        async with running(program, grants) as (sandbox, _, _):
            handles = watched(brokers(sandbox))
            if kill:
                for pid in wardens(sandbox):
                    os.kill(pid, signal.SIGKILL)
        assert len(handles) == 1
        assert all_end(handles)

    patiently(scenario(kill=False))
    patiently(scenario(kill=True))


PROVE = """
import asyncio, errno, json, sys
from pathlib import Path
import pyseccomp as seccomp
from paddock.model.process import ProcessGrants
from paddock.confinement.sandbox import tiers

if sys.argv[1] == "without":  # as on a kernel that does not know the flag
    rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)
    rules.add_rule(seccomp.ERRNO(errno.EINVAL), "seccomp", seccomp.Arg(1, seccomp.MASKED_EQ, 8, 8))
    rules.load()

async def main():
    report = await tiers.prove("landlock", 0)
    found = await tiers.examine("landlock", 0)
    layers = [[each.available, each.detail] for each in found.layers if each.name == "supervised calls"]
    async with await tiers.choose("landlock", job_user=0) as sandbox:
        grants = ProcessGrants(workspace=Path(sys.argv[2]), access="read-only")
        ran = await sandbox.run(["sh", "-c", 'touch "$TMPDIR/f" && chmod 600 "$TMPDIR/f"'], grants)
    risks = [risk for risk in report.facts.residual if "mode, times" in risk]
    print(json.dumps([report.proved, report.unsupervised, [n for n, r in report.attempts.items() if not r], layers, ran.status, len(risks)]))

asyncio.run(main())
"""


@pytest.mark.parametrize("listener", ["with", "without"])
def test_supervised_calls_are_proved_and_what_cannot_be_proved_is_said(
    open_path: Path, listener: str
) -> None:
    command = [sys.executable, "-c", PROVE, listener, str(open_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    why = "supervised calls: [Errno 22] seccomp(SECCOMP_FILTER_FLAG_NEW_LISTENER)"
    consequence = "programs in the tier landlock can change files outside that their user owns"
    assert (
        json.loads(done.stdout)
        == {
            "with": [
                True,
                "",
                [],
                [[True, "chmod, chown, utime, setxattr and inotify_add_watch in the tier landlock"]],
                "ok",
                0,
            ],
            "without": [
                True,
                why,
                ["change the mode of a file outside"],
                [[False, f"{why}; {consequence}"]],
                "ok",
                1,
            ],
        }[listener]
    )


WATCH = """
import asyncio, errno, sys
from pathlib import Path
import pyseccomp as seccomp
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants
from paddock.confinement.sandbox.sandbox import KernelSandbox

rules = seccomp.SyscallFilter(defaction=seccomp.ALLOW)  # as Docker's default profile does
rules.add_rule(seccomp.ERRNO(errno.EPERM), "pidfd_getfd")
rules.load()

async def main():
    async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock", 0) as sandbox:
        grants = ProcessGrants(workspace=Path(sys.argv[1]), access="workspace-write")
        program = "import ctypes; l = ctypes.CDLL(None, use_errno=True); w = l.inotify_init()\\n"
        program += "print(l.inotify_add_watch(w, b'.', 256), ctypes.get_errno())"
        print((await sandbox.run(["/usr/bin/python3", "-I", "-S", "-c", program], grants)).stdout.head)

asyncio.run(main())
"""


def test_without_a_copy_of_the_descriptor_nothing_can_be_watched(open_path: Path) -> None:
    command = [sys.executable, "-c", WATCH, str(open_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout.split(), done.stderr) == (["-1", "1"], "")
