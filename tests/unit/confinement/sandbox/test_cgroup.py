"""Which control group is ours, told from trees of plain files; tests/integration/confinement/sandbox has what the kernel does."""

import os
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child import cgroup

MOUNT = "30 23 0:26 {root} {point} rw,nosuid shared:4 - cgroup2 cgroup2 rw"
OLD_MOUNT = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"


@pytest.fixture
def machine(tmp_path):
    """Return a function that says where this process is, and makes the groups of a machine."""
    (tmp_path / "proc/self").mkdir(parents=True)

    def make(own, groups, *mounts):
        told = mounts or (MOUNT.format(root="/", point="/sys/fs/cgroup"),)
        (tmp_path / "proc/self/cgroup").write_text(f"4:memory:/elsewhere\n0::{own}\n")
        (tmp_path / "proc/self/mountinfo").write_text("\n".join((OLD_MOUNT, *told)) + "\n")
        for name, files in groups.items():
            folder = tmp_path / name
            folder.mkdir(parents=True, exist_ok=True)
            for file, text in files.items():
                (folder / file).write_text(text)
        return str(tmp_path)

    return make


def group(hands_on="", has="cpu memory pids", members="1\n"):
    return {
        "cgroup.procs": members,
        "cgroup.subtree_control": hands_on,
        "cgroup.controllers": has,
        "cgroup.type": "domain\n",
    }


def refusal(root):
    with pytest.raises(cgroup.GroupRefusal) as caught:
        cgroup.find_delegated_folder(root)
    return str(caught.value)


def test_the_nearest_group_that_hands_on_what_is_needed_is_used(machine):
    root = machine(
        "/user.slice/app.slice/shell.scope",
        {
            "sys/fs/cgroup/user.slice": group("memory pids"),
            "sys/fs/cgroup/user.slice/app.slice": group("cpu memory pids"),
            "sys/fs/cgroup/user.slice/app.slice/shell.scope": group(""),
        },
    )
    assert cgroup.find_delegated_folder(root) == f"{root}/sys/fs/cgroup/user.slice/app.slice"


def test_a_group_above_one_that_is_not_ours_is_not_ours_either(machine):
    root = machine(
        "/slice/scope",
        {
            "sys/fs/cgroup/slice": group("memory pids"),
            "sys/fs/cgroup/slice/scope": {"cgroup.controllers": "memory pids"},
        },
    )
    assert refusal(root) == "no group is delegated to the user that Paddock runs as"


def managed(root, monkeypatch, marked):
    """Have systemd manage the tree, and one of its folders delegated."""
    Path(root, "run/systemd/system").mkdir(parents=True, exist_ok=True)

    def attribute(folder, name):
        if name == "user.delegate" and folder == f"{root}{marked}":
            return b"1"
        raise OSError

    monkeypatch.setattr(cgroup.os, "getxattr", attribute)


def test_where_systemd_manages_only_what_it_has_delegated_is_ours(machine, monkeypatch):
    groups = {
        "sys/fs/cgroup/slice": group("memory pids"),
        "sys/fs/cgroup/slice/scope": group(members=f"{os.getpid()}\n"),
    }
    root = machine("/slice/scope", groups)
    managed(root, monkeypatch, "/nowhere")
    assert refusal(root) == "no group is delegated to the user that Paddock runs as"
    managed(root, monkeypatch, "/sys/fs/cgroup/slice/scope")
    assert cgroup.find_delegated_folder(root) == f"{root}/sys/fs/cgroup/slice/scope"


def test_what_is_below_a_delegated_group_is_ours_too(machine, monkeypatch):
    groups = {
        "sys/fs/cgroup/slice": group("memory pids"),
        "sys/fs/cgroup/slice/scope": group("memory pids", members=""),
        "sys/fs/cgroup/slice/scope/server": group(),
    }
    root = machine("/slice/scope/server", groups)
    managed(root, monkeypatch, "/sys/fs/cgroup/slice/scope")
    assert cgroup.find_delegated_folder(root) == f"{root}/sys/fs/cgroup/slice/scope"


@pytest.mark.parametrize(
    ("has", "missing"),
    [
        ("hugetlb", "controllers memory and pids are"),
        ("pids cpu", "controller memory is"),
        ("", "controllers memory and pids are"),
    ],
)
def test_controllers_of_the_old_hierarchy_are_missed(machine, has, missing):
    root = machine("/", {"sys/fs/cgroup": group(has=has)})
    assert refusal(root) == f"the {missing} not delegated to the group that Paddock runs in"


def test_a_group_shared_with_others_is_not_divided(machine):
    root = machine("/scope", {"sys/fs/cgroup/scope": group(members=f"{os.getpid()}\n1\n")})
    assert refusal(root) == "other processes are in the group that Paddock runs in, so it cannot be divided"
    assert not Path(root, "sys/fs/cgroup/scope/server").exists()


def test_a_group_of_its_own_is_divided_and_the_process_moves_down(machine):
    root = machine("/scope", {"sys/fs/cgroup/scope": group(members=f"{os.getpid()}\n")})
    scope = Path(root, "sys/fs/cgroup/scope")
    assert cgroup.find_delegated_folder(root) == str(scope)
    assert (scope / "server/cgroup.procs").read_text() == "0"
    assert (scope / "cgroup.subtree_control").read_text() == "+memory +pids"


def test_processors_are_shared_among_groups_if_that_is_delegated_too(machine):
    own = "sys/fs/cgroup/scope"
    root = machine("/scope", {own: group("memory pids"), "sys/fs/cgroup": group("")})
    assert cgroup.find_delegated_folder(root) == f"{root}/{own}"
    assert Path(root, own, "cgroup.subtree_control").read_text() == "+cpu"


def test_without_that_the_other_limits_are_kept(machine):
    own = "sys/fs/cgroup/scope"
    root = machine("/scope", {own: group("memory pids", has="memory pids"), "sys/fs/cgroup": group("")})
    assert cgroup.find_delegated_folder(root) == f"{root}/{own}"
    assert Path(root, own, "cgroup.subtree_control").read_text() == "memory pids"


def test_the_top_of_all_may_hand_on_with_processes_in_it(machine):
    top = group(members="1\n2\n")
    del top["cgroup.type"]
    root = machine("/", {"sys/fs/cgroup": top})
    assert cgroup.find_delegated_folder(root) == f"{root}/sys/fs/cgroup"
    assert not Path(root, "sys/fs/cgroup/server").exists()


def test_a_mount_of_a_part_of_the_tree_is_understood(machine):
    root = machine(
        "/docker/abc/scope",
        {"cgroup/scope": group("memory pids")},
        MOUNT.format(root="/docker/abcdef", point="/elsewhere"),
        MOUNT.format(root="/docker/abc", point="/cgroup"),
    )
    assert cgroup.find_delegated_folder(root) == f"{root}/cgroup/scope"


def test_a_mount_of_another_part_of_the_tree_is_none(machine):
    root = machine("/scope", {}, MOUNT.format(root="/docker/abc", point="/cgroup"))
    assert refusal(root) == "cgroup v2 is not mounted"


def test_a_kernel_without_it_is_told(tmp_path):
    assert refusal(str(tmp_path)) == "this kernel has no cgroup v2"
