"""The processes and the open files of this machine, as /proc tells of them."""

import contextlib
import os
import select
import socket
import time
from collections.abc import Collection
from pathlib import Path

PATIENCE_S = 300
"""How long tests wait for what must come, on the slowest machine."""


def parents() -> dict[int, int]:
    """Return who started each process, by the word of each.

    What a process says of its children (/proc/PID/task/TID/children) leaves out those of a thread that ends meanwhile.
    """
    found: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and not reaped."""
    return [each for each, parent in parents().items() if parent == pid]


def descendants(pid: int) -> list[int]:
    """Return the processes below a process, generation by generation."""
    found, known = [pid], parents()
    for above in found:
        found += [each for each, parent in known.items() if parent == above]
    return found[1:]


def list_started(before: Collection[int]) -> list[int]:
    """Return this process's children that are not in `before`, and all processes below them.

    What an older child starts meanwhile, such as a browser or a database of other tests, does not count.
    """
    own = [pid for pid in children(os.getpid()) if pid not in before]
    return [*own, *(below for pid in own for below in descendants(pid))]


def is_limited(pid: int) -> bool:
    """Return whether a process has a limit on its data; one that is gone has none."""
    try:
        lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    except OSError:
        return False
    return any(line.startswith("Max data size") and "unlimited" not in line for line in lines)


def running_workers(pid: int) -> list[int]:
    """Return the workers below a process that run a program: of the children of a zygote they alone are limited."""
    known = parents()
    return [each for each, zygote in known.items() if known.get(zygote) == pid and is_limited(each)]


def open_files() -> int:
    """Return how many files this process has open, and the one that looks."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - no path is wanted


def watched(pids: list[int]) -> list[int]:
    """Return handles of processes that have not ended; they stay theirs whatever becomes of the numbers."""
    handles: list[int] = []
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # what builds a jail ends by itself
            handles.append(os.pidfd_open(pid))
    return handles


def has_ended(handle: int | socket.socket, seconds: float = PATIENCE_S) -> bool:
    """Wait until the process of a pidfd, or behind a socket, has ended; tell whether it has."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


def all_end(handles: list[int], seconds: float = PATIENCE_S) -> bool:
    """Wait until all processes behind the handles have ended, and close these; tell whether they did."""
    deadline = time.monotonic() + seconds
    try:
        return all(has_ended(handle, max(0, deadline - time.monotonic())) for handle in handles)
    finally:
        for handle in handles:
            os.close(handle)
