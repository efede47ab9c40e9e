"""The zygote of jobs: a small single-threaded process that forks a warden for every job.

    server -> zygote   one byte, with the socket of the new warden
    zygote -> server   one message when it is ready

A fork costs what the forking process is large, so the server never forks. The end of the control socket is the
end of the zygote; wardens end by themselves, each when its own socket does. A warden that is killed leaves its
orphans to the zygote, which ends them. Only the standard library may be imported here.
"""

import gc
import os
import select
import signal
import socket
import sys
import time

from paddock.confine import lockdown, seccomp, tree, warden

_SWEEP_S = 1.0
_COUNT_EVERY_S = 10.0


class Zygote:
    """The fork server behind one control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._wardens: dict[int, int] = {}
        """pid by pidfd"""
        self._threads: dict[int, int] = {}
        self._counted = 0.0

    def serve(self) -> None:
        """Fork on request and bury wardens until the server goes away."""
        try:
            self._control.send(b"ready")
        except OSError:  # the server is gone already
            return
        while True:
            for descriptor, _ in self._poll.poll():
                if descriptor != self._control.fileno():
                    self._bury(descriptor)
                elif not self._answer():
                    return

    def _answer(self) -> bool:
        try:
            message, descriptors, _, _ = socket.recv_fds(self._control, 16, 1)
        except ConnectionResetError:
            return False
        if not message:
            return False
        if time.monotonic() > self._counted + _COUNT_EVERY_S:
            self._threads = tree.threads_by_user()
            self._counted = time.monotonic()
        pid = os.fork()
        if pid == 0:
            self._become_warden(descriptors[0])
        os.close(descriptors[0])
        handle = os.pidfd_open(pid)
        self._wardens[handle] = pid
        self._poll.register(handle, select.POLLIN)
        return True

    def _become_warden(self, connection: int) -> None:
        try:
            lockdown.close_all_but(connection)
            warden.serve(socket.socket(fileno=connection), self._threads)
        except BaseException as error:  # noqa: BLE001  (nothing may return into the zygote's loop)
            os.write(2, f"paddock warden: {type(error).__name__}: {error}\n".encode())
            os._exit(1)
        os._exit(0)

    def _bury(self, handle: int) -> None:
        pid = self._wardens.pop(handle)
        self._poll.unregister(handle)
        os.close(handle)
        _, status = os.waitpid(pid, 0)
        if status:
            tree.sweep(
                seconds=_SWEEP_S, reaped=lambda _pid, _status: None, spare=frozenset(self._wardens.values())
            )


def main() -> None:
    """Serve: `python -I -S -c ... CONTROL_FD`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle
    os.setsid()
    lockdown.hide()
    lockdown.adopt_orphans()
    for profile in warden.FILTERS:
        seccomp.read_filter(profile)  # for every warden, which inherits the cache
    gc.freeze()
    Zygote(socket.socket(fileno=int(sys.argv[1]))).serve()
