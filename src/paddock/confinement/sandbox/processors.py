"""How many processors this machine, or the container around this process, has for all jobs together."""

import os
from pathlib import Path

_ROOT, _MOUNT_POINT = 3, 4
"""Fields of a line of mountinfo: the mounted part of the file system, and the mount point (proc(5))."""


def count_processors(root: str = "/") -> float:
    """Return the number of processors, or a fraction of it if a control group has a quota (cgroups(7)).

    Reads `cpu.max` of version 2 and `cpu.cfs_quota_us` of version 1, of this process's group and those above it that a
    container can see. `root` replaces `/` in tests.
    """
    found = [float(len(os.sched_getaffinity(0)))]
    for folder in _list_groups(Path(root)):
        try:
            if (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text().split()
            else:
                quota, period = (
                    (folder / name).read_text().strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                )
            if quota not in {"max", "-1"}:
                found.append(int(quota) / int(period))
        except (OSError, ValueError, ZeroDivisionError):  # without this controller, or removed meanwhile
            continue
    return min(found)


def _list_groups(root: Path) -> list[Path]:
    """Return the folders of this process's control groups with the controller `cpu`, and those above them."""
    found: list[Path] = []
    own: dict[str, str] = {}  # the path of the group by the controller `cpu`, or by "" for version 2
    try:
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            own["cpu" if "cpu" in controllers.split(",") else controllers] = path
        mounts = (root / "proc/self/mountinfo").read_text().splitlines()
    except (OSError, ValueError):
        return found
    for line in mounts:
        fields, kind = line.partition(" - ")[0].split(" "), line.partition(" - ")[2].split(" ")
        version = "" if kind[0] == "cgroup2" else "cpu" if kind[0] == "cgroup" else None
        if version not in own or (version and "cpu" not in kind[-1].split(",")):
            continue
        top = root / fields[_MOUNT_POINT].lstrip("/")
        above = fields[_ROOT].rstrip("/")
        if f"{own[version]}/".startswith(f"{above}/"):
            folder = top / own[version][len(above) :].lstrip("/")
            found += [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]
    return found
