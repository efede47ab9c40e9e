"""What a supervisor is asked by the server, one job after another, until it is let go."""

import contextlib
import os
import socket
import time

from paddock.sandbox.child import lockdown, process_tree, scratch
from paddock.sandbox.child.messages import MESSAGE_BYTES, STREAM_COUNT, JobSpec, StartError
from paddock.sandbox.child.namespaces import MountRootCache
from paddock.sandbox.child.shim import Shim, is_idle, live_in_jail, rehearse_start
from paddock.sandbox.child.supervisor import REPORT_WITHIN_S, Supervisor

FILTER_NAMES = ("job", "job-network")
"""The system call filters that orders may name."""

_IDLE_S = 0.01
"""A supervisor that is not called for so long makes its next shim ahead."""
_REMOVE_WITHIN_S = 0.1


def serve_jobs(server: socket.socket, folder: str, fork_server: socket.socket) -> None:
    """Be the supervisor of the jobs that come over `server`, one after another, until it is closed.

    A job is a `run` with an order, three streams and, when it writes to a workspace, a file (`protected.Before`); a
    `prepare` with an order may precede it. After its report, scratch stays until `release`. `folder` holds the jobs'
    scratch directories; what takes long to remove goes to the `fork_server`, for the next job is not to wait. A
    supervisor whose job is not gone to the last process takes no other.
    """
    lockdown.adopt_orphans()
    others, roots = process_tree.OtherThreads(), MountRootCache(live_in_jail)
    clean = True
    last: JobSpec | None = None
    shim: Shim | None = None
    while clean:
        if last is not None and is_idle(server, _IDLE_S):
            shim = _start_shim_ahead(last, roots)
        if not (call := _next_call(server)):
            break
        word, files = call
        order = last = JobSpec.from_file(os.dup(files[0]))
        if shim is not None and not shim.alive:
            shim.end()
            shim = None
        job = Supervisor(server, order, roots, shim)
        job.prepare_job(files[0])
        files = files[1:]
        if word == b"prepare":
            if is_idle(server):
                rehearse_start(order)
            if call := _next_call(server):
                files = call[1]
                order = JobSpec.from_file(os.dup(files[0]))
        try:
            if call:
                report = job.run_job(order, list(files), others.count_processes(order.user))
                with contextlib.suppress(OSError):  # the server may be gone
                    server.send(report.to_bytes())
        finally:
            clean = job.end_last_processes()
        _wait_for_release(server)
        _remove_scratch(order.scratch, fork_server)
        for path in job.rubbish:
            _hand_over(path, fork_server)
        shim = None
    process_tree.kill_descendants(seconds=REPORT_WITHIN_S)  # keepers, and what waits for no job any more
    server.close()
    os.rmdir(folder)


def _remove_scratch(path: str, fork_server: socket.socket) -> None:
    try:
        scratch.remove_directory(path, until=time.monotonic() + _REMOVE_WITHIN_S)
    except TimeoutError:
        aside = f"{os.path.dirname(path)}-{os.urandom(8).hex()}"
        os.rename(path, aside)
        _hand_over(aside, fork_server)


def _hand_over(path: str, fork_server: socket.socket) -> None:
    try:
        fork_server.send(os.fsencode(path))
    except OSError:  # it is gone
        scratch.remove_directory(path)


def _start_shim_ahead(last: JobSpec, roots: MountRootCache) -> Shim | None:
    """Return a shim for a job that is most likely like the last one; None when there can be none."""
    try:
        shim = Shim(last, roots.get_root(last))
    except (OSError, StartError):
        return None
    rehearse_start(last)
    return shim


def _wait_for_release(server: socket.socket) -> None:
    """Return when the server needs scratch no longer, or is gone."""
    with contextlib.suppress(ConnectionResetError):
        while server.recv(MESSAGE_BYTES) not in {b"release", b""}:
            pass


def _next_call(server: socket.socket) -> tuple[bytes, tuple[int, ...]] | None:
    """Return the next word of the server and its descriptors, None at the end."""
    while True:
        word, files, _, _ = socket.recv_fds(server, MESSAGE_BYTES, 2 + STREAM_COUNT)
        if files:
            return word, tuple(files)
        if not word:
            return None  # anything else is a `stop` that came when its job had ended
