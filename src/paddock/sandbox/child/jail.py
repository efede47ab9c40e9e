"""Inside a jail: its first process furnishes it, starts the program, collects every orphan, and ends when that ends.

A jail begins as a copy of its root, which shows what all jails of that root share. What is made here is its own: /proc,
and empty directories in the place of /tmp, /dev/shm and the folder of scratch. The first process is behind all that
confines the program, which can neither signal it nor look into it; when it ends, the kernel ends all others.
"""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import stat
from typing import NamedTuple, NoReturn, Self

from paddock.sandbox.child.lockdown import check_result
from paddock.sandbox.child.messages import STREAM_COUNT, JobSpec
from paddock.sandbox.child.namespaces import PRIVATE_FOLDERS

_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 1, 2, 4, 8, 32, 4096
_OPEN_TREE, _MOVE_MOUNT = 428, 429
"""System call numbers, the same on every architecture."""
_AT_FDCWD, _AT_RECURSIVE, _OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = -100, 0x8000, 1, 4
_MAX_COUNT = 2**53
"""More than any count or cost can be, and what JSON carries exactly."""
_SHARED_MEMORY_BYTES = 64 * 1024 * 1024
_FILE_BYTES = 4096
"""What a file of a directory in memory counts at least: an empty one takes a kilobyte of the kernel's."""
_ROOT_ONLY_PROC_FILES = (
    "allocinfo", "keys", "kpagecgroup", "kpagecount", "kpageflags", "pagetypeinfo", "slabinfo", "timer_list",
    "vmallocinfo",
)  # fmt: skip
"""What the kernel shows below /proc to root's number, whatever that may do: it tells of the whole machine."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class JailReport(NamedTuple):
    """What a jail's first process says in the end."""

    status: int
    """How the program ended, as waitpid(2) has it."""
    left: int
    """Processes that it left behind, which had to be killed."""
    user_ms: float
    system_ms: float
    peak_bytes: int

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Read it; None where there is nothing of the kind, whoever wrote it."""
        try:
            told = cls(**json.loads(message))
            os.waitstatus_to_exitcode(told.status)
            whole = all(type(number) is int for number in (told.status, told.left, told.peak_bytes))
            return told if whole and all(0 <= number < _MAX_COUNT for number in told) else None
        except (ValueError, TypeError, OverflowError):
            return None


def open_up() -> int:
    """Make the calling process, a jail's first one, see itself; return a descriptor of the jail's mounts.

    While somebody holds them, the last process in them does not wait for the kernel to clear them away. Raises OSError.
    """
    _mount_filesystem("proc", "/proc", _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    if not os.getuid():
        for name in _ROOT_ONLY_PROC_FILES:
            with contextlib.suppress(FileNotFoundError):  # of other kernels
                _bind_path("/dev/null", f"/proc/{name}")
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def furnish_jail(order: JobSpec) -> None:
    """Give the jail directories of its own, with what is granted below them.

    What the root has there, other jobs see too. Needs the capabilities of the root's user namespace. Raises OSError.
    """
    folder = os.path.dirname(order.scratch)
    apart = not folder.startswith(tuple(f"{path}/" for path in PRIVATE_FOLDERS))
    carried = [(path, _clone_mount_tree(path)) for path in (*order.carried, order.scratch)]
    for path, size in zip(PRIVATE_FOLDERS, (order.ceilings.scratch_bytes, _SHARED_MEMORY_BYTES), strict=True):
        _mount_filesystem(
            "tmpfs", path, _NOSUID | _NODEV, f"size={size},nr_inodes={size // _FILE_BYTES + 64},mode=1777"
        )
    if apart:
        _mount_filesystem("tmpfs", folder, _NOSUID | _NODEV, "size=64k,mode=755")
    for path, tree in carried:
        _attach_mount(path, tree)
    if apart:
        _mount_filesystem("", folder, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def run_first_process(order: JobSpec, channel: socket.socket) -> NoReturn:
    """Run the program of an order as a child, tell `channel` how it ended (`Told`), and end.

    Processes that it leaves are killed, and collected, so that they count. Then no process but this one is left: all
    others come from its children. Raises OSError when the program cannot be started.
    """
    program = _spawn_program(order)
    for stream in range(STREAM_COUNT):
        os.close(stream)
    channel.send(b"{}")
    while True:
        pid, status = os.wait()
        if pid == program:
            break
    _reap_children(os.WNOHANG)
    left = 0
    try:
        os.kill(-1, signal.SIGKILL)
        left = _reap_children(0)
    except ProcessLookupError:  # the program has left nobody
        pass
    costs = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    told = JailReport(
        status=status,
        left=left,
        user_ms=1000 * sum(cost.ru_utime for cost in costs),
        system_ms=1000 * sum(cost.ru_stime for cost in costs),
        peak_bytes=1024 * max(cost.ru_maxrss for cost in costs),
    )
    channel.send(json.dumps(told._asdict()).encode())
    os._exit(0)


def _spawn_program(order: JobSpec) -> int:
    """Start the program in a session of its own, found as execvp(3) does; vfork(2) copies nothing."""
    name = order.argv[0]
    paths = [name] if "/" in name else [f"{folder}/{name}" for folder in os.get_exec_path(order.environment)]
    missing = refused = None
    for path in paths:
        try:
            return os.posix_spawn(path, list(order.argv), order.environment, setsid=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            refused = refused or error
    raise refused or missing or FileNotFoundError


def _reap_children(how: int) -> int:
    """Collect children that have ended, or all with 0; return how many."""
    found = 0
    try:
        while os.waitpid(-1, how)[0]:
            found += 1
    except ChildProcessError:
        pass
    return found


def _clone_mount_tree(path: str) -> int:
    """Return a copy of what is mounted at a path, and below it, that is not to be seen anywhere yet."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return check_result(f"open_tree {path}", _LIBC.syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags))


def _attach_mount(path: str, tree: int) -> None:
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(path, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))
    moved = _LIBC.syscall(_MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(path), _MOVE_MOUNT_F_EMPTY_PATH)
    check_result(f"move_mount {path}", moved)
    os.close(tree)


def _bind_path(source: str, path: str) -> None:
    bound = _LIBC.mount(os.fsencode(source), os.fsencode(path), None, _BIND, None)
    check_result(f"mount {source} {path}", bound)


def _mount_filesystem(kind: str, path: str, flags: int, options: str = "") -> None:
    name = kind.encode() or None
    mounted = _LIBC.mount(name, os.fsencode(path), name, flags, options.encode() or None)
    check_result(f"mount {kind} {path}", mounted)
