"""The jail of the tier `namespaces`: what bubblewrap builds, as its command line.

The jail is built first and runs nothing but a `cat`, which shows that it stands. The job's shim then joins it
(setns(2)) and puts Landlock and the system call filter on itself, so the jail needs neither an interpreter of
Paddock nor a filter of its own, and one that waits can be had before the job is known.

Only the standard library may be imported here.
"""

import os
from collections.abc import Iterable

BUBBLEWRAP = "/usr/bin/bwrap"
"""The distribution's own: AppArmor profiles allow user namespaces to this path."""

_DEVICE_SPACE = 64 * 1024 * 1024


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
