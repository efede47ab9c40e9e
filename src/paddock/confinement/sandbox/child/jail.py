"""Inside a jail: the first process sets it up, starts the program, reaps every orphan, and ends after the program.

A jail begins as a copy of its root, which all jails of that root share. This module adds what each jail has for itself:
/proc, empty directories over /tmp, /dev/shm and the folder of scratch, overlays over directories, and masks over hidden
files. The first process is confined as the program is. The program can neither signal it nor read its memory. When it
ends, the kernel ends all other processes of the jail.
"""

import contextlib
import errno
import json
import os
import resource
import signal
import socket
from typing import NamedTuple, NoReturn, Self

from paddock.confinement.sandbox.child.messages import STREAM_COUNT, JobSpec
from paddock.confinement.sandbox.child.mounts import (
    BIND,
    NODEV,
    NOEXEC,
    NOSUID,
    RDONLY,
    REMOUNT,
    attach_mount,
    bind_path,
    clone_mount,
    clone_mount_tree,
    cover_file,
    mount_filesystem,
)
from paddock.confinement.sandbox.child.namespaces import PRIVATE_FOLDERS
from paddock.confinement.sandbox.child.overlay import mount_overlays
from paddock.confinement.sandbox.child.paths import is_below, list_above, open_itself
from paddock.confinement.sandbox.child.post_mortem import has_full_file

STARTED = b"{}"
"""Message after the start of the program: the supervisor then watches it, and serves its calls."""
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


class JailReport(NamedTuple):
    """The last message of a jail's first process."""

    status: int
    """Wait status of the program, as of waitpid(2)."""
    left: int
    """Number of processes that the program left behind and that were killed."""
    user_ms: float
    system_ms: float
    peak_bytes: int
    full_files: int = 0
    """1 if a file in a private directory is as large as a file may be, after a program that failed; else 0."""

    def to_bytes(self) -> bytes:
        """Return this report as a message: JSON, without the encoder, whose memory a fork copies."""
        return str(self._asdict()).replace("'", '"').encode()

    @classmethod
    def from_bytes(cls, message: bytes) -> Self | None:
        """Read a report; return None if the message, which a program may have forged, is malformed."""
        try:
            report = cls(**json.loads(message))
            os.waitstatus_to_exitcode(report.status)
            whole = all(
                type(number) is int
                for number in (report.status, report.left, report.peak_bytes, report.full_files)
            )
            return report if whole and all(0 <= number < _MAX_COUNT for number in report) else None
        except (ValueError, TypeError, OverflowError):
            return None


def open_up() -> int:
    """Mount /proc for the calling process, a jail's first one; return a descriptor of the jail's mounts.

    While the descriptor is open, the jail's last process does not wait for the kernel to remove the mounts. Raises
    OSError.
    """
    mount_filesystem("proc", "/proc", RDONLY | NOSUID | NODEV | NOEXEC)
    if not os.getuid():
        for name in _ROOT_ONLY_PROC_FILES:
            with contextlib.suppress(FileNotFoundError):  # this kernel does not have it
                bind_path("/dev/null", f"/proc/{name}")
    return os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def furnish_jail(spec: JobSpec) -> None:
    """Mount the jail's private directories, and move the granted paths below them to where they belong.

    Other jobs would see files in the root's directories. Needs the capabilities of the root's user namespace. Raises
    OSError.
    """
    folder = os.path.dirname(spec.scratch)
    apart = not folder.startswith(tuple(f"{path}/" for path in PRIVATE_FOLDERS))
    carried = [(path, clone_mount_tree(path)) for path in (*spec.carried, spec.scratch)]
    masks = _make_masks(PRIVATE_FOLDERS[0]) if spec.hidden else (-1, -1)
    for path, size in zip(PRIVATE_FOLDERS, (spec.ceilings.scratch_bytes, _SHARED_MEMORY_BYTES), strict=True):
        mount_filesystem(
            "tmpfs", path, NOSUID | NODEV, f"size={size},nr_inodes={size // _FILE_BYTES + 64},mode=1777"
        )
    if apart:
        mount_filesystem("tmpfs", folder, NOSUID | NODEV, "size=64k,mode=755")
    for path, tree in carried:
        attach_mount(path, tree)
    if apart:
        mount_filesystem("", folder, REMOUNT | BIND | RDONLY | NOSUID | NODEV)
    if spec.overlays:
        _verify_lower(spec)  # an overlay has other devices and inodes
        mount_overlays(spec.overlays, spec.scratch)
    _hide_files(spec, masks)


def _make_masks(folder: str) -> tuple[int, int]:
    """Return descriptors of a file and a directory that nobody may open, on a read-only file system. Raises OSError.

    A private folder will cover its mount.
    """
    mount_filesystem("tmpfs", folder, NOSUID | NODEV | NOEXEC, "size=4k,nr_inodes=4,mode=700")
    os.close(os.open(f"{folder}/file", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0))
    os.mkdir(f"{folder}/directory", 0)
    mount_filesystem("", folder, REMOUNT | RDONLY | NOSUID | NODEV | NOEXEC)
    return open_itself(f"{folder}/file"), open_itself(f"{folder}/directory")


def _hide_files(spec: JobSpec, masks: tuple[int, int]) -> None:
    """Cover each hidden path with a mask. Raises OSError, also if one was replaced since it was found.

    In a writable folder, each directory above a hidden path becomes a mount, which no program can rename: elsewhere the
    next search might not find the path.
    """
    if not spec.hidden:
        return
    # An overlay lets no program rename a directory of the lower one.
    tops = [path for path in spec.searched if path in spec.writable and path not in spec.overlays]
    above = {path: None for hidden in spec.hidden for top in tops for path in list_above(hidden[0], top)}
    for path in sorted(above):  # outer ones first
        folder = open_itself(path)
        cover_file(folder, clone_mount(folder, whole=True))
        os.close(folder)
    for path, device, inode, is_folder in spec.hidden:
        try:
            file = open_itself(path)
        except FileNotFoundError:
            continue
        if not _is_overlaid(path, spec):
            _verify_hidden(path, file, (device, inode))
        cover_file(file, clone_mount(masks[is_folder]))
        os.close(file)
    for mask in masks:
        os.close(mask)


def _verify_lower(spec: JobSpec) -> None:
    """Raise OSError if a hidden file was replaced, before an overlay gives it another identity."""
    for path, device, inode, _ in spec.hidden:
        if _is_overlaid(path, spec):
            with contextlib.suppress(FileNotFoundError):
                file = open_itself(path)
                _verify_hidden(path, file, (device, inode))
                os.close(file)


def _is_overlaid(path: str, spec: JobSpec) -> bool:
    return any(is_below(path, folder) for folder in spec.overlays)


def _verify_hidden(path: str, file: int, identity: tuple[int, int]) -> None:
    facts = os.fstat(file)
    if (facts.st_dev, facts.st_ino) != identity:
        raise OSError(errno.ESTALE, "it was replaced while the program started; run it again", path)


def run_first_process(spec: JobSpec, channel: socket.socket) -> NoReturn:
    """Run the program as a child, send a `JailReport` to `channel`, and exit.

    Kills the processes that the program leaves, and reaps them, so that their cost counts. No other process of the jail
    is left then. Raises OSError if the program cannot be started.
    """
    program = _spawn_program(spec)
    for stream in range(STREAM_COUNT):
        os.close(stream)
    channel.send(STARTED)
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
        full_files=int(status != 0 and has_full_file(PRIVATE_FOLDERS, spec.ceilings.file_bytes)),
    )
    channel.send(report.to_bytes())
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
