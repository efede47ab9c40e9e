"""The main loop of a supervisor: it serves one job after another until the parent disconnects."""

import contextlib
import os
import socket
import time

from paddock.confinement.sandbox.child import lockdown, process_tree, scratch, supervised_calls
from paddock.confinement.sandbox.child.messages import (
    MAX_GUARDED,
    MESSAGE_BYTES,
    STREAM_COUNT,
    JobSpec,
    StartError,
)
from paddock.confinement.sandbox.child.namespaces import MountRootCache
from paddock.confinement.sandbox.child.shim import Shim, is_idle, live_in_jail, rehearse_start
from paddock.confinement.sandbox.child.supervisor import PATIENCE_S, Supervisor

FILTER_NAMES = (
    "job",
    "job-loopback",
    "job-network",
    supervised_calls.METADATA_FILTER,
    supervised_calls.WATCH_FILTER,
    supervised_calls.SOCKET_FILTER,
)
"""The system call filters of jobs."""

_IDLE_S = 0.01
"""Idle time after which a supervisor starts its next shim ahead, in seconds."""
_REMOVE_WITHIN_S = 0.1


def serve_jobs(server: socket.socket, folder: str, fork_server: socket.socket) -> None:
    """Supervise the jobs that arrive over `server`, the socket to the parent, one after another, until it is closed.

    A job is a `run` message with a job spec, three streams and a file for each folder whose protected paths are watched
    (`protected_paths.ProtectedPaths`). A `prepare` message with a job spec may precede it. After the report, scratch
    stays until `release`. `folder` holds the jobs' scratch directories. The `fork_server` removes what takes long, so
    that the next job need not wait. A supervisor that could not kill all processes of a job accepts no other job.
    """
    lockdown.adopt_orphans()
    others, roots = process_tree.OtherThreads(), MountRootCache(live_in_jail)
    clean = True
    last: JobSpec | None = None
    shim: Shim | None = None
    while clean:
        if last is not None and is_idle(server, _IDLE_S):
            # The next job most likely has the grants of the last one.
            with contextlib.suppress(OSError, StartError):
                shim = Shim(last, roots.get_root(last))
                _rehearse(last)
        if not (call := _next_call(server)):
            break
        word, files = call
        spec = last = JobSpec.from_file(os.dup(files[0]))
        if shim is not None and not shim.alive:
            shim.end()
            shim = None
        job = Supervisor(server, spec, roots, shim)
        job.prepare_job(files[0])
        files = files[1:]
        if word == b"prepare":
            if is_idle(server):
                _rehearse(spec)
            if call := _next_call(server):
                files = call[1]
                spec = JobSpec.from_file(os.dup(files[0]))
                job.renew_job()
        try:
            if call:
                report = job.run_job(spec, list(files), others.count_processes(spec.user))
                with contextlib.suppress(OSError):  # the parent may have died
                    server.send(report.to_bytes())
        finally:
            clean = job.end_survivors()
        with contextlib.suppress(ConnectionResetError):  # the parent has died
            while server.recv(MESSAGE_BYTES) not in {b"release", b""}:
                pass
        remove_scratch(spec.scratch, fork_server)
        for path in job.rubbish:
            _hand_over(path, fork_server)
        shim = None
    process_tree.kill_descendants(seconds=PATIENCE_S)  # keepers, and a shim that waits for a job
    server.close()
    os.rmdir(folder)


def _rehearse(spec: JobSpec) -> None:
    """Rehearse a start after a fork of this process; jails are forked by a keeper."""
    if not spec.jail:
        rehearse_start(spec)


def remove_scratch(path: str, fork_server: socket.socket) -> None:
    """Remove a directory. If that takes long, rename it and let the fork server remove it."""
    try:
        scratch.remove_directory(path, until=time.monotonic() + _REMOVE_WITHIN_S)
    except TimeoutError:
        aside = f"{os.path.dirname(path)}-{os.urandom(8).hex()}"
        os.rename(path, aside)
        _hand_over(aside, fork_server)


def _hand_over(path: str, fork_server: socket.socket) -> None:
    try:
        fork_server.send(os.fsencode(path))
    except OSError:  # the fork server has died
        scratch.remove_directory(path)


def _next_call(server: socket.socket) -> tuple[bytes, tuple[int, ...]] | None:
    """Return the parent's next message and its descriptors; None at the end."""
    while True:
        word, files, _, _ = socket.recv_fds(server, MESSAGE_BYTES, 1 + STREAM_COUNT + MAX_GUARDED)
        if files:
            return word, tuple(files)
        if not word:
            return None  # another message is a `kill` that arrived after the end of its job
