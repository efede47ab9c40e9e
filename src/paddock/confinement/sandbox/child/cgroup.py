"""Have the kernel limit all processes of a job together, with cgroup v2, if a subtree is delegated to Paddock.

    <folder>                         delegated: Paddock may make groups in it, with the controllers `memory` and `pids`;
                                     with `cpu` as well, each job gets an equal share of the processors
      paddock-<random>               one per sandbox, locked while its Paddock lives
        <random>                     one per job, made and removed by its supervisor

Systemd delegates a subtree with `Delegate=yes`, and a container by a writable hierarchy. Without either,
root may use the whole tree. A Paddock that starts ends and removes the groups of killed ones. Source of all rules:
cgroups(7) and the kernel's cgroup-v2 document.
"""

import contextlib
import fcntl
import os
import time
from typing import NamedTuple

from paddock.confinement.sandbox.child.messages import EXTRA_THREADS

_NEEDED_CONTROLLERS = frozenset({"memory", "pids"})
_NAME_PREFIX = "paddock-"
_MOUNTED, _MOUNT_POINT = 3, 4
"""Fields of a line of mountinfo: the mounted part of the file system, and the mount point (proc(5))."""
_EMPTY_WITHIN_S, _PAUSE_S = 0.2, 0.002


class GroupRefusal(Exception):
    """No part of the tree can be used. The text says why."""


class ControlGroup:
    """The control group of all jobs of one sandbox; `release` it."""

    def __init__(self, folder: str) -> None:
        """Make a group in a delegated folder, and remove those of a Paddock that has died. Raises OSError."""
        _remove_stale_groups(folder)
        self.path = f"{folder}/{_NAME_PREFIX}{os.urandom(8).hex()}"
        os.mkdir(self.path)
        self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _share_processors(self.path)
        try:
            _write_file(f"{self.path}/cgroup.subtree_control", "+memory +pids")
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        """End the processes in the group and remove it. Does nothing the second time."""
        if self._lock >= 0:
            _remove_tree(self.path)
            os.close(self._lock)
            self._lock = -1


class JobCgroup:
    """The group of one job."""

    def __init__(self, group: str, name: str) -> None:
        """Make the group `name`. Raises OSError."""
        self._path = f"{group}/{name}"
        os.mkdir(self._path)
        self.procs_file = os.open(f"{self._path}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        """A process that writes `0` to it joins the group, with everything that it starts from then on."""

    def limit(self, *, memory_bytes: int, processes: int) -> None:
        """Have the kernel end the whole group above `memory_bytes`, and refuse more processes."""
        _write_file(f"{self._path}/memory.max", str(memory_bytes))
        with contextlib.suppress(FileNotFoundError):  # a kernel without swap
            _write_file(f"{self._path}/memory.swap.max", "0")
        _write_file(f"{self._path}/memory.oom.group", "1")
        _write_file(f"{self._path}/pids.max", str(processes + EXTRA_THREADS))

    @property
    def is_weighted(self) -> bool:
        """Whether the kernel gives this group a share of the processors of its own."""
        return os.path.exists(f"{self._path}/cpu.weight")

    @property
    def ended_by_memory(self) -> bool:
        """Return whether the kernel has ended a process because the group was out of memory."""
        events = dict(line.split() for line in _read_file(f"{self._path}/memory.events").splitlines())
        return int(events.get("oom_kill", 0)) > 0

    @property
    def peak_bytes(self) -> int:
        """Return the peak memory that counted against the limit, with cached files; 0 before Linux 5.19."""
        with contextlib.suppress(FileNotFoundError):
            return int(_read_file(f"{self._path}/memory.peak"))
        return 0

    def kill(self) -> None:
        """Kill all processes of the group at once, however fast they fork (Linux 5.14)."""
        with contextlib.suppress(FileNotFoundError):
            _write_file(f"{self._path}/cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the group, whose processes must all have ended."""
        os.close(self.procs_file)
        _remove_group(self._path)


class _Tree(NamedTuple):
    """The mounted hierarchy, and where this process is in it."""

    top: str
    own: str


def find_delegated_folder(root: str = "/") -> str:
    """Return the delegated folder of this process. Raises GroupRefusal.

    Enables the controllers if the folder is the top of the tree, or contains no other process; this process then moves
    to a group within. `root` replaces `/` in tests.
    """
    tree = _find_mount(root)
    for folder in _list_delegated_folders(tree, managed=os.path.isdir(f"{root}/run/systemd/system")):
        if set(_read_file(f"{folder}/cgroup.subtree_control").split()) >= _NEEDED_CONTROLLERS:
            _share_processors(folder)
            return folder
    missing = _NEEDED_CONTROLLERS - set(_read_file(f"{tree.own}/cgroup.controllers").split())
    if missing:
        several = len(missing) > 1
        raise GroupRefusal(
            f"the controller{'s' * several} {' and '.join(sorted(missing))} {'are' if several else 'is'} "
            "not delegated to the group that Paddock runs in"
        )
    if os.path.exists(f"{tree.own}/cgroup.type"):  # not the top of the tree
        if _read_file(f"{tree.own}/cgroup.procs").split() != [str(os.getpid())]:
            raise GroupRefusal(
                "other processes are in the group that Paddock runs in, so it cannot be divided"
            )
        server = f"{tree.own}/server"
        os.makedirs(server, exist_ok=True)
        _write_file(f"{server}/cgroup.procs", "0")
    _share_processors(tree.own)
    _write_file(f"{tree.own}/cgroup.subtree_control", "+memory +pids")
    return tree.own


def _list_delegated_folders(tree: _Tree, *, managed: bool) -> list[str]:
    """Return the delegated folders from this process's own upwards. Raises GroupRefusal without one.

    If systemd manages the tree, root can write everywhere but must use only folders that systemd marks as delegated.
    """
    found: list[str] = []
    folder = tree.own
    while (
        folder.startswith(tree.top)
        and os.access(folder, os.W_OK)
        and os.access(f"{folder}/cgroup.procs", os.W_OK)  # to move processes into its groups
    ):
        found.append(folder)
        if managed and _is_marked(folder):
            return found
        folder = os.path.dirname(folder)
    if managed or not found:
        raise GroupRefusal("no group is delegated to the user that Paddock runs as")
    return found


def _is_marked(folder: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        with contextlib.suppress(OSError):
            if os.getxattr(folder, name) == b"1":
                return True
    return False


def _share_processors(folder: str) -> None:
    """Have the kernel share processors equally among the groups in a folder, if that is delegated, too."""
    with contextlib.suppress(OSError):
        if "cpu" in _read_file(f"{folder}/cgroup.controllers").split():
            _write_file(f"{folder}/cgroup.subtree_control", "+cpu")


def _find_mount(root: str) -> _Tree:
    try:
        own = next(
            line[3:] for line in _read_file(f"{root}/proc/self/cgroup").splitlines() if line.startswith("0::")
        )
        mounts = [line.partition(" - ") for line in _read_file(f"{root}/proc/self/mountinfo").splitlines()]
    except (OSError, StopIteration):
        raise GroupRefusal("this kernel has no cgroup v2") from None
    for mount, _, kind in mounts:
        fields = mount.split(" ")
        if len(fields) <= _MOUNT_POINT or kind.partition(" ")[0] != "cgroup2":
            continue
        above = fields[_MOUNTED].rstrip("/")
        if f"{own}/".startswith(f"{above}/"):
            top = f"{root.rstrip('/')}{fields[_MOUNT_POINT]}"
            return _Tree(top, os.path.normpath(f"{top}/{own[len(above) :]}"))
    raise GroupRefusal("cgroup v2 is not mounted")


def _remove_stale_groups(folder: str) -> None:
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(_NAME_PREFIX)]
    for name in names:
        with contextlib.suppress(OSError):  # locked: its Paddock lives, or another one removes it
            lock = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove_tree(f"{folder}/{name}")
            finally:
                os.close(lock)


def _remove_tree(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        _write_file(f"{path}/cgroup.kill", "1")
    with os.scandir(path) as entries:
        leaves = [entry.path for entry in entries if entry.is_dir()]
    for leaf in (*leaves, path):
        _remove_group(leaf)


def _remove_group(path: str) -> None:
    """Remove a group. If it does not become empty soon, the next Paddock removes it."""
    deadline = time.monotonic() + _EMPTY_WITHIN_S
    while True:
        try:
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:  # the last process has not been reaped
            if time.monotonic() > deadline:
                return
            time.sleep(_PAUSE_S)
        else:
            return


def _read_file(path: str) -> str:
    with open(path) as file:  # pathlib would be copied by every fork
        return file.read()


def _write_file(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
