"""Check what Paddock needs to confine processes: its own /proc, devices, and the capabilities of root if it is root.

Some containers and chroots lack one of these. Later steps would fail with the system's errors, or, with the /proc of
another PID namespace, measure and end wrong processes. Therefore Paddock checks before it starts a helper.
"""

import os
from collections.abc import Mapping

NO_PROCESSES = (
    "/proc is missing, or shows the processes of another PID namespace, so that Paddock could neither limit nor end "
    "programs; mount it: mount -t proc proc /proc"
)
NO_DEVICES = "/dev/null is missing; mount the devices (in a chroot: mount --bind /dev ROOT/dev)"
FOR_GUESTS = {5: "KILL", 6: "SETGID", 7: "SETUID"}
FOR_PROGRAMS = {0: "CHOWN", 1: "DAC_OVERRIDE", 3: "FOWNER", **FOR_GUESTS}
"""Capabilities that root needs to run a program as another user, to measure it and to remove its files
(capabilities(7))."""


def find_missing() -> str:
    """Return what is missing and what to do; "" if nothing is."""
    try:
        is_own = os.readlink("/proc/self") == str(os.getpid())  # called by every command
    except OSError:
        is_own = False
    if not is_own:
        return NO_PROCESSES
    return "" if os.path.exists(os.devnull) else NO_DEVICES


def powers_lacking(needed: Mapping[int, str]) -> str:
    """Return an error text if Paddock is root but lacks `needed` capabilities to run programs as another user."""
    if os.geteuid() != 0:
        return ""
    try:
        with open("/proc/self/status", "rb") as file:
            held = int(file.read().partition(b"\nCapEff:")[2].split(None, 1)[0], 16)
    except (OSError, IndexError):  # /proc does not have them
        return ""
    missing = [name for number, name in needed.items() if not held >> number & 1]
    if not missing:
        return ""
    from paddock.confinement.sandbox.child import lockdown  # rarely needed

    if not lockdown.has_own_user():
        return ""
    return (
        f"root lacks the capabilities {', '.join(missing)} and cannot run programs as another user; run Paddock as an "
        "ordinary user (docker run --user 1000), or add the capabilities (docker run --cap-add)"
    )
