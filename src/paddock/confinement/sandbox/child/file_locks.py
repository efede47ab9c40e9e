"""Release the locks that a frozen job holds on files which it may only read, because others would wait for them.

A lock of flock(2), or of an open file description (F_OFD_SETLK of fcntl(2)), belongs to a description, of which any
process with a copy of the descriptor can release it. A lock of a process (F_SETLK) stays: on a file that is open for
reading alone it can only be a shared one, as SQLite and DuckDB take.
"""

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Sequence

from paddock.confinement.sandbox.child.messages import JobSpec
from paddock.confinement.sandbox.child.system_calls import copy_descriptor

_LOCK = re.compile(rb"^lock:.*(?:FLOCK|OFDLCK)", re.MULTILINE)
"""Lines of /proc/<pid>/fdinfo (proc_pid_fdinfo(5))."""
_OFD_SETLK = 37
_PIDFD_THREAD = os.O_EXCL
_WHOLE_FILE = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
"""struct flock."""


def release_locks(folders: Sequence[str], spec: JobSpec) -> None:
    """Release locks of the processes with these folders below /proc on files that a job may not write.

    A process that ends, or may not be looked into, is left alone.
    """
    roots = sorted({*spec.readable, *spec.carried, *spec.writable}, key=len, reverse=True)
    for folder in folders:
        with contextlib.suppress(OSError):
            _release_process(folder, roots, frozenset(spec.writable))


def _release_process(folder: str, roots: Sequence[str], writable: frozenset[str]) -> None:
    for number in os.listdir(f"{folder}/fd"):
        path = os.readlink(f"{folder}/fd/{number}")
        innermost = next((root for root in roots if f"{path}/".startswith(f"{root.rstrip('/')}/")), "")
        if not path.startswith("/") or innermost in writable:
            continue
        with open(f"{folder}/fdinfo/{number}", "rb") as file:
            if not _LOCK.search(file.read()):
                continue
        # A folder below `task` is that of a thread whose first thread has ended, with its descriptors. Before Linux
        # 6.9 there is no PIDFD_THREAD, so that this fails.
        pid, thread = folder.split("/")[2], folder.rpartition("/")[2]
        process = os.pidfd_open(int(thread), 0 if thread == pid else _PIDFD_THREAD)
        try:
            copy = copy_descriptor(process, int(number))
        finally:
            os.close(process)
        try:
            fcntl.flock(copy, fcntl.LOCK_UN)
            fcntl.fcntl(copy, _OFD_SETLK, _WHOLE_FILE)
        finally:
            os.close(copy)
