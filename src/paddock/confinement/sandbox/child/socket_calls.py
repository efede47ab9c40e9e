"""Calls that name a socket, for jobs with their own network: a broker does them for the job.

    job         connect(2) or bind(2); the kernel holds the call and notifies the listener of the filter
    supervisor  has the keeper of the jail's mounts start the broker at the first call, and takes no further part
    broker      receives the calls, does them, and answers (`socket_broker.py`)

A Unix socket with a path belongs to no network, so that a network of the job's own does not keep it from sockets of the
machine below granted directories. Without a supervisor or a broker the kernel answers ENOSYS.
"""

import os
from collections.abc import Callable, Sequence

from paddock.confinement.sandbox.child.messages import JobSpec, StartError
from paddock.confinement.sandbox.child.supervised_calls import BrokeredCalls


class SocketCalls(BrokeredCalls):
    """The supervisor's end of the calls of one job that name a socket."""

    def __init__(
        self, listener: int, spec: JobSpec, mounts: int, fork_broker: Callable[[Sequence[int]], int]
    ) -> None:
        """Serve the calls of a jail with these `mounts`, a descriptor that must stay open until the first call."""
        super().__init__(listener, spec)
        self._mounts = mounts
        self._fork_broker = fork_broker

    def pass_on(self) -> bool:
        """Start the broker, which receives this call and all later ones. Returns False: nothing is to be passed on."""
        files: list[int] = []
        try:
            files.append(self._spec.to_file())
            files += [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in ("/proc", self._spec.scratch)]
            self.broker = self._fork_broker([self._listener, self._mounts, *files])
        except (OSError, StartError):  # there can be no further process
            self.close()
        finally:
            for file in files:
                os.close(file)
        return False
