"""What a process needs around it to confine others: its own /proc, devices, and root's powers if it is root.

Containers and chroots are made without one of these. Everything later would fail in the system's words, or, with the
/proc of other processes, measure and end those. So it is told before a helper starts.
"""

import os
from collections.abc import Mapping

NO_PROCESSES = (
    "/proc is missing here, or shows the processes of another PID namespace, so that nothing could be limited or "
    "ended; mount it: mount -t proc proc /proc"
)
NO_DEVICES = "/dev/null is missing here; give this root its devices (in a chroot: mount --bind /dev ROOT/dev)"
FOR_GUESTS = {5: "KILL", 6: "SETGID", 7: "SETUID"}
FOR_PROGRAMS = {0: "CHOWN", 1: "DAC_OVERRIDE", 3: "FOWNER", **FOR_GUESTS}
"""What root needs to give a program to another user, and to measure and remove what it left (capabilities(7))."""


def find_missing() -> str:
    """Return what is not there and what to do, empty when nothing is missing."""
    try:
        is_own = os.readlink("/proc/self") == str(os.getpid())  # called by every command
    except OSError:
        is_own = False
    if not is_own:
        return NO_PROCESSES
    return "" if os.path.exists(os.devnull) else NO_DEVICES


def powers_lacking(needed: Mapping[int, str]) -> str:
    """Return which of the `needed` capabilities root, who gives work to another user, has not; else nothing."""
    if os.geteuid() != 0:
        return ""
    held = _read_capabilities()
    missing = [name for number, name in needed.items() if not held >> number & 1]
    if not missing:
        return ""
    from paddock.sandbox.child import lockdown  # hardly anybody is root without them

    if not lockdown.has_own_user():
        return ""
    return (
        f"root is without its powers here ({', '.join(missing)}) and cannot give programs to another user; run Paddock "
        "as an ordinary user (docker run --user 1000), or let root have them (docker run --cap-add)"
    )


def _read_capabilities() -> int:
    """Return the capabilities of this process, a bit for each; all of them where /proc does not tell."""
    try:
        with open("/proc/self/status", "rb") as file:
            return int(file.read().partition(b"\nCapEff:")[2].split(None, 1)[0], 16)
    except (OSError, IndexError):
        return -1
