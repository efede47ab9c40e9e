"""The jail of the tier `namespaces`: what bubblewrap builds, as its command line.

The jail is built first and runs nothing but a `cat`, which shows that it stands. The job's shim then joins it
(setns(2)) and puts Landlock and the system call filter on itself, so the jail needs neither an interpreter of
Paddock nor a filter of its own, and one that waits can be had before the job is known.

Only the standard library may be imported here.
"""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Iterable

from paddock.confine import lockdown, tree
from paddock.confine.order import Order, StartError

BUBBLEWRAP = "/usr/bin/bwrap"
"""The distribution's own: AppArmor profiles allow user namespaces to this path."""

_DEVICE_SPACE = 64 * 1024 * 1024
_START_S, _END_S = 10.0, 0.02


def command(
    *,
    readable: Iterable[str],
    writable: Iterable[str],
    covered: Iterable[str],
    scratch: str,
    scratch_bytes: int,
    network: bool,
) -> list[str]:
    """Return the command that builds a root of `readable`, `writable` and `scratch`, each at its own path.

    `covered` are paths below writable ones that stay read-only. `{info}` stands for the descriptor of the facts.
    """
    found = [BUBBLEWRAP, "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session"]
    found += ["--disable-userns", "--cap-drop", "ALL", "--clearenv", "--info-fd", "{info}"]
    if network:
        found.append("--share-net")
    found += ["--proc", "/proc", "--dev", "/dev"]
    for path, size in (("/dev/shm", _DEVICE_SPACE), ("/tmp", scratch_bytes)):  # noqa: S108 - the jail's own
        found += ["--size", str(size), "--tmpfs", path]
    for path in readable:
        if os.path.islink(path) and os.path.dirname(path) == "/":  # noqa: PTH114, PTH120 - /bin on a merged /usr
            found += ["--symlink", os.readlink(path), path]  # noqa: PTH115
        elif not path.startswith(("/proc", "/dev")):
            found += ["--ro-bind", path, path]
    for path in (*writable, scratch):
        found += ["--bind", path, path]
    for path in covered:
        found += ["--ro-bind", path, path]
    return [*found, "--remount-ro", "/", "--chdir", "/", "--", "/bin/cat"]


class Jail:
    """Namespaces that wait for their one job: bubblewrap, and in it a `cat` that shows when they are ready."""

    processes = 3
    """bubblewrap's monitor, its first process inside, and `cat`."""

    def __init__(self, order: Order) -> None:
        theirs_in, self._wake = os.pipe2(os.O_CLOEXEC)
        self._ready, theirs_out = os.pipe2(os.O_CLOEXEC)
        self._info, theirs_info = os.pipe2(os.O_CLOEXEC)
        self._errors, theirs_errors = os.pipe2(os.O_CLOEXEC)
        self._held: list[int] = []
        os.write(self._wake, b"\n")
        command = [part.replace("{info}", str(theirs_info)) for part in order.jail]
        monitor = os.fork()
        if monitor == 0:
            try:
                os.dup2(theirs_in, 0)
                os.dup2(theirs_out, 1)
                os.dup2(theirs_errors, 2)
                lockdown.close_all_but(theirs_info)
                os.set_inheritable(theirs_info, True)  # noqa: FBT003
                lockdown.die_with_parent()
                if order.user is not None:
                    lockdown.become(order.user)
                    lockdown.die_with_parent()
                os.execve(command[0], command, {})  # noqa: S606 - no shell is the point
            finally:
                os._exit(127)
        for file in (theirs_in, theirs_out, theirs_info, theirs_errors):
            os.close(file)
        self._processes = [os.pidfd_open(monitor)]

    def wait(self) -> None:
        """Return when the namespaces stand. Raises StartError when they do not."""
        if not select.select([self._ready], [], [], _START_S)[0] or not os.read(self._ready, 1):
            os.set_blocking(self._errors, False)
            with contextlib.suppress(BlockingIOError):
                raise StartError(
                    f"namespaces: {os.read(self._errors, 4096).decode(errors='replace').strip()}"
                )
            raise StartError("namespaces: bubblewrap did not finish the jail")
        inside = int(json.loads(os.read(self._info, 4096))["child-pid"])
        self._processes.insert(0, os.pidfd_open(inside))
        self._processes += [os.pidfd_open(cat) for cat in tree.children(inside)]
        # While somebody holds the mounts, the last process in them does not wait for the kernel to clear them away.
        self._held.append(os.open(f"/proc/{inside}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))

    def handle(self) -> int:
        """Return a pidfd of the first process inside, which stays the jail's."""
        return self._processes[0]

    def close(self) -> None:
        """Close what is open to the jail, when it is no more."""
        for file in (self._wake, self._ready, self._info, self._errors, *self._processes, *self._held):
            os.close(file)

    def kill(self) -> None:
        """Kill the first process inside, and with it, by the kernel, all of the pid namespace; and the other two."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process, signal.SIGKILL)

    def wait_for_end(self) -> None:
        """Return when the kernel has emptied the pid namespace, before its first process ends, or a little later."""
        until = time.monotonic() + _END_S
        for process in self._processes:
            select.select([process], [], [], max(0.0, until - time.monotonic()))
