"""Inside a jail: the first process sets it up, starts the program, reaps every orphan, and ends after the program.

A jail begins as a copy of its root, which all jails of that root share. This module adds what each jail has for itself:
/proc, and empty directories over /tmp, /dev/shm and the folder of scratch. The first process is confined as the program
is. The program can neither signal it nor read its memory. When it ends, the kernel ends all other processes of the
jail.
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
"""Above every possible count or cost; JSON carries smaller integers exactly."""
_SHARED_MEMORY_BYTES = 64 * 1024 * 1024
_FILE_BYTES = 4096
"""Bytes of a tmpfs per file that it may hold: even an empty file takes a kilobyte of kernel memory."""
_ROOT_ONLY_PROC_FILES = (
    "allocinfo", "keys", "kpagecgroup", "kpagecount", "kpageflags", "pagetypeinfo", "slabinfo", "timer_list",
    "vmallocinfo",
)  # fmt: skip
"""Files below /proc about the whole machine, which user 0 may read even without capabilities."""
_LIBC = ctypes.CDLL(None, use_errno=True)


class JailReport(NamedTuple):
    """The last message of a jail's first process."""

    status: int
    """Wait status of the program, as of waitpid(2)."""
    left: int
    """Number of processes that the program left behind and that were killed."""
    user_ms: float
    system_ms: float
    peak_bytes: int

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Read a report; return None if the message, which a program may have forged, is malformed."""
        try:
            report = cls(**json.loads(message))
            os.waitstatus_to_exitcode(report.status)
            whole = all(type(number) is int for number in (report.status, report.left, report.peak_bytes))
            return report if whole and all(0 <= number < _MAX_COUNT for number in report) else None
        except (ValueError, TypeError, OverflowError):
            return None


def open_up() -> int:
    """Mount /proc for the calling process, a jail's first one; return a descriptor of the jail's mounts.

    While the descriptor is open, the jail's last process does not wait for the kernel to remove the mounts. Raises
    OSError.
    """
    _mount_filesystem("proc", "/proc", _RDONLY | _NOSUID | _NODEV | _NOEXEC)
    if not os.getuid():
        for name in _ROOT_ONLY_PROC_FILES:
            with contextlib.suppress(FileNotFoundError):  # this kernel does not have it
                _bind_path("/dev/null", f"/proc/{name}")
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def furnish_jail(spec: JobSpec) -> None:
    """Mount the jail's private directories, and move the granted paths below them to where they belong.

    Other jobs would see files in the root's directories. Needs the capabilities of the root's user namespace. Raises
    OSError.
    """
    folder = os.path.dirname(spec.scratch)
    apart = not folder.startswith(tuple(f"{path}/" for path in PRIVATE_FOLDERS))
    carried = [(path, _clone_mount_tree(path)) for path in (*spec.carried, spec.scratch)]
    for path, size in zip(PRIVATE_FOLDERS, (spec.ceilings.scratch_bytes, _SHARED_MEMORY_BYTES), strict=True):
        _mount_filesystem(
            "tmpfs", path, _NOSUID | _NODEV, f"size={size},nr_inodes={size // _FILE_BYTES + 64},mode=1777"
        )
    if apart:
        _mount_filesystem("tmpfs", folder, _NOSUID | _NODEV, "size=64k,mode=755")
    for path, tree in carried:
        _attach_mount(path, tree)
    if apart:
        _mount_filesystem("", folder, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV)


def run_first_process(spec: JobSpec, channel: socket.socket) -> NoReturn:
    """Run the program as a child, send a `JailReport` to `channel`, and exit.

    Kills the processes that the program leaves, and reaps them, so that their cost counts. No other process of the jail
    is left then. Raises OSError if the program cannot be started.
    """
    program = _spawn_program(spec)
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
    except ProcessLookupError:  # the program has left no process
        pass
    costs = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    report = JailReport(
        status=status,
        left=left,
        user_ms=1000 * sum(cost.ru_utime for cost in costs),
        system_ms=1000 * sum(cost.ru_stime for cost in costs),
        peak_bytes=1024 * max(cost.ru_maxrss for cost in costs),
    )
    channel.send(json.dumps(report._asdict()).encode())
    os._exit(0)


def _spawn_program(spec: JobSpec) -> int:
    """Start the program in a new session, found as execvp(3) does. Uses vfork(2), which copies no memory."""
    name = spec.argv[0]
    paths = [name] if "/" in name else [f"{folder}/{name}" for folder in os.get_exec_path(spec.environment)]
    missing = refused = None
    for path in paths:
        try:
            return os.posix_spawn(path, list(spec.argv), spec.environment, setsid=True)
        except (FileNotFoundError, NotADirectoryError) as error:
            missing = error
        except OSError as error:
            refused = refused or error
    raise refused or missing or FileNotFoundError


def _reap_children(how: int) -> int:
    """Reap children that have ended, or wait for all with `how` 0; return how many."""
    found = 0
    try:
        while os.waitpid(-1, how)[0]:
            found += 1
    except ChildProcessError:
        pass
    return found


def _clone_mount_tree(path: str) -> int:
    """Return a descriptor of a detached copy of the mounts at and below a path."""
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
