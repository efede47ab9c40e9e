"""The fork server: a small process that runs V8 with the bootstrap, and forks guest workers.

After fork(2) a child has only the thread that called it. Therefore V8's thread forks, between two tasks, and the child
continues with a live isolate. The main thread only waits and holds no lock that a child could need.

    parent -> fork server   one byte, with the worker's socket and standard error as descriptors
    fork server -> parent   {"born": pid} with a pidfd, or {"unborn": 1} if the fork failed; {"dead": pid, ...} once for
                            every worker, with its cost

The control socket is SOCK_SEQPACKET, which keeps messages separate. When it is closed, the fork server ends, and the
kernel kills its workers (PR_SET_PDEATHSIG).
"""

import gc
import json
import os
import select
import signal
import socket
import sys

from paddock.confinement.sandbox.child import lockdown
from paddock.engines.javascript.child import bootstrap, v8, worker

FLAGS = ("--single-threaded", "--disallow-code-generation-from-strings")
PROFILES = {"guest": (*FLAGS, "--jitless"), "guest-jit": (*FLAGS, "--no-maglev")}
"""Without Maglev, V8's middle compiler: long loops would stay in its code, which is a quarter slower, and it would be
another compiler to trust."""

_PASSED_DESCRIPTORS = 2

_READY_REPORT = b'{"ready": %d, "landlock": %d}'
_STARTED_REPORT = b'{"born": %d}'
_FAILED_REPORT = b'{"unborn": 1}'
_EXIT_REPORT = b'{"dead": %d, "code": %d, "cpu_ms": %.3f, "peak_bytes": %d}'
"""The encoder of `json` would write to many pages that a forked worker shares; each write copies one."""


class WorkerForkServer:
    """The fork server behind one control socket."""

    def __init__(self, control: socket.socket, profile: str, library_directory: str) -> None:
        self._control = control
        self._rules = lockdown.prepare_rules(profile)
        isolate = v8.Isolate(v8.load(library_directory, PROFILES[profile]))
        self._guest = worker.Guest(isolate, bootstrap.source(), bootstrap.libraries())
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._data_bytes = worker.data_segment(os.open("/proc/self/status", os.O_RDONLY))
        self._workers: dict[int, int] = {}
        """Pid by pidfd."""

    def serve(self) -> None:
        """Fork on request and report exits until the parent disconnects."""
        gc.freeze()
        self._guest.hand_over(self._fork_on_request)
        while True:
            signal.pause()

    def _fork_on_request(self) -> tuple[worker.Channel, int]:
        """Serve requests on V8's thread; return only in a forked worker."""
        self._send(_READY_REPORT % (os.getpid(), self._rules.landlock_abi))
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._reap(descriptor)
                elif (started := self._take_request()) is not None:
                    return started

    def _take_request(self) -> tuple[worker.Channel, int] | None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 16, _PASSED_DESCRIPTORS)
        except ConnectionResetError:  # the parent died with unread reports
            message, descriptors = b"", []
        if not message:
            os._exit(0)
        try:
            pid = os.fork()
        except OSError as error:  # only this request fails; the other workers continue
            os.write(descriptors[1], str(error).encode())
            pid = -1
        if pid == 0:
            return self._become_worker(*descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid < 0:
            self._send(_FAILED_REPORT)
            return None
        pidfd = os.pidfd_open(pid)
        self._workers[pidfd] = pid
        self._poll.register(pidfd, select.POLLIN)
        try:
            socket.send_fds(self._control, [_STARTED_REPORT % pid], [pidfd])
        except OSError:  # the parent has died; ending this process kills the worker
            os._exit(0)
        return None

    def _become_worker(self, connection: int, errors: int) -> tuple[worker.Channel, int]:
        lockdown.die_with_parent()
        os.dup2(errors, 2)
        lockdown.close_all_except(connection, self._rules.ruleset)
        channel = worker.Channel(socket.SocketType(fileno=connection))
        lockdown.shed_powers(self._rules)
        lockdown.seal_process(self._rules)
        return channel, self._data_bytes

    def _reap(self, pidfd: int) -> None:
        pid = self._workers.pop(pidfd)
        self._poll.unregister(pidfd)
        os.close(pidfd)
        _, status, usage = os.wait4(pid, 0)
        cpu_ms = (usage.ru_utime + usage.ru_stime) * 1000
        self._send(_EXIT_REPORT % (pid, os.waitstatus_to_exitcode(status), cpu_ms, usage.ru_maxrss * 1024))

    def _send(self, report: bytes) -> None:
        try:
            self._control.send(report)
        except OSError:
            os._exit(0)


def main() -> None:
    """Run the fork server: `python -I -S -c ... CONTROL_FD PROFILE LIBRARY_DIRECTORY`."""
    control_fd, profile, library_directory = sys.argv[1:]
    gc.disable()  # a collection in a child would copy every page that it shares with this process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # only the parent handles Ctrl-C
    lockdown.continue_without_parent()
    control = socket.socket(fileno=int(control_fd))
    try:
        fork_server = WorkerForkServer(control, profile, library_directory)
    except OSError as error:
        control.send(
            json.dumps({"failed": f"JavaScript cannot be confined on this machine: {error}"}).encode()
        )
        sys.exit(1)
    except v8.LoadError as error:
        control.send(json.dumps({"failed": str(error)}).encode())
        sys.exit(1)
    fork_server.serve()
