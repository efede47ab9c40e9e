"""The fork server of jobs: a small single-threaded process that forks supervisors.

    server -> fork server       the path of the folder for a new supervisor's scratch, and the supervisor's socket, on
                                which the fork server reports if it cannot fork
    fork server -> server       one message when it is ready
    supervisor -> fork server   the path of a folder that takes long to remove

The cost of a fork grows with the memory of the forking process, therefore the server never forks. The fork server ends
when its control socket is closed; each supervisor ends when its own socket is. If a supervisor is killed, the fork
server ends its orphans and removes its scratch.
"""

import contextlib
import gc
import os
import select
import signal
import socket
import sys
import time

from paddock.confinement.sandbox.child import (
    lockdown,
    process_tree,
    protection,
    scratch,
    seccomp,
    service,
    shares,
)
from paddock.confinement.sandbox.child.messages import JobReport

_SWEEP_S = 1.0
_END_S = 2.0
"""Maximum wait for supervisors to finish after the server has died, in seconds."""
_PATH_BYTES = 4096


class ForkServer:
    """The fork server behind one control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._rubbish, self.for_supervisors = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poll.register(self._rubbish, select.POLLIN)
        self._children: dict[int, tuple[int, str]] = {}
        """Pid and folder of each supervisor by pidfd; for a process that removes a folder, its pid and ""."""
        self._unborn: dict[int, tuple[socket.socket, str]] = {}
        """Socket and folder of each supervisor that could not be forked, until the server closes the socket."""

    def serve(self) -> None:
        """Fork on request and reap supervisors until the server disconnects."""
        try:
            self._control.send(b"ready")
        except OSError:  # the server has died already
            return
        while self.serve_once(None):
            pass
        self._poll.unregister(self._control)
        self._control.close()
        for handle in self._children:  # they may have been stopped together with the server
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, signal.SIGCONT)
        deadline = time.monotonic() + _END_S
        while (self._children or self._unborn) and (left := deadline - time.monotonic()) > 0:
            self.serve_once(left)

    @property
    def children(self) -> tuple[str, ...]:
        """The folder of each running supervisor; empty for a process that removes a folder."""
        return tuple(folder for _, folder in self._children.values())

    def close(self) -> None:
        """Close the sockets between this server and its supervisors."""
        self._rubbish.close()
        self.for_supervisors.close()

    def serve_once(self, seconds: float | None) -> bool:
        """Wait for events and handle them; return whether the server is still connected."""
        for descriptor, _ in self._poll.poll(None if seconds is None else seconds * 1000):
            if descriptor in self._children:
                self._reap_supervisor(descriptor)
            elif descriptor in self._unborn:
                self._abandon_supervisor(descriptor)
            elif descriptor == self._rubbish.fileno():
                self._remove_scratch(os.fsdecode(self._rubbish.recv(_PATH_BYTES)))
            elif not self._answer_request():
                return False
        return True

    def _answer_request(self) -> bool:
        try:
            folder, descriptors, _, _ = socket.recv_fds(self._control, _PATH_BYTES, 1)
        except ConnectionResetError:
            return False
        if not folder:
            return False
        try:
            pid = os.fork()
        except OSError as error:  # only this request fails; the other supervisors continue
            self._stand_in(socket.socket(fileno=descriptors[0]), os.fsdecode(folder), str(error))
            return True
        if pid == 0:
            self._become_supervisor(descriptors[0], os.fsdecode(folder))
        os.close(descriptors[0])
        self._adopt_supervisor(pid, os.fsdecode(folder))
        return True

    def _stand_in(self, server: socket.socket, folder: str, why: str) -> None:
        """Report on a supervisor's socket that it could not start; keep its folder until the server has read that."""
        server.setblocking(False)
        with contextlib.suppress(OSError):  # the server has disconnected
            server.send(JobReport(ended_by="unborn", why=why).to_bytes())
        self._unborn[server.fileno()] = server, folder
        self._poll.register(server, select.POLLIN)

    def _abandon_supervisor(self, descriptor: int) -> None:
        """Forget a supervisor that could not start after the server has closed its socket; drop earlier messages."""
        server, folder = self._unborn[descriptor]
        try:
            if server.recv(_PATH_BYTES):
                return
        except ConnectionResetError:  # the server has not read the report
            pass
        del self._unborn[descriptor]
        self._poll.unregister(server)
        server.close()
        self._remove_scratch(folder)

    def _adopt_supervisor(self, pid: int, folder: str) -> None:
        handle = os.pidfd_open(pid)
        self._children[handle] = pid, folder
        self._poll.register(handle, select.POLLIN)

    def _become_supervisor(self, connection: int, folder: str) -> None:
        try:
            lockdown.close_all_except(connection, self.for_supervisors.fileno())
            service.serve_jobs(socket.socket(fileno=connection), folder, self.for_supervisors)
        except BaseException as error:  # noqa: BLE001  (nothing may return into the fork server's loop)
            os.write(2, f"paddock supervisor: {type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)

    def _reap_supervisor(self, handle: int) -> None:
        pid, folder = self._children.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        try:
            _, status = os.waitpid(pid, 0)
        except ChildProcessError:  # a sweep has reaped it, so its exit status is lost
            status = -1
        if not status:
            return
        spare = frozenset(pid for pid, _ in self._children.values())
        process_tree.kill_descendants(seconds=_SWEEP_S, spare=spare)
        if folder and os.path.lexists(folder):
            self._remove_scratch(folder)

    def _remove_scratch(self, folder: str) -> None:
        """Remove a folder that a supervisor left, in a separate process, because that may take long."""
        try:
            pid = os.fork()
        except OSError:
            with contextlib.suppress(OSError):
                scratch.remove_directory(folder, until=time.monotonic() + _SWEEP_S)
            return
        if pid:
            self._adopt_supervisor(pid, "")
            return
        try:
            lockdown.close_all_except()
            scratch.remove_directory(folder)
        finally:
            os._exit(0)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing. A program would inherit an ignored signal, but not one that has a handler (execve(2))."""


def main() -> None:
    """Run the fork server: `python -I -S -c ... CONTROL_FD`."""
    for number in signal.valid_signals():
        # Only the server handles Ctrl-C. Programs do not inherit signals that the server ignores, as under nohup(1).
        if number == signal.SIGINT or signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _ignore)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    lockdown.continue_without_parent()
    lockdown.make_undumpable()
    lockdown.adopt_orphans()
    lockdown.lift_stack_limit()
    for profile in service.FILTER_NAMES:
        seccomp.read_filter(profile)  # fills the cache, which every supervisor inherits
    protection.compile_built_in_rules()
    shares.may_restore()
    gc.freeze()
    ForkServer(socket.socket(fileno=int(sys.argv[1]))).serve()
