"""How many processors a job can get, told from trees of plain files."""

import os

import pytest

from paddock.confinement.sandbox.processors import count_processors

ALL = float(len(os.sched_getaffinity(0)))
NEW = "30 23 0:26 {root} /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw"
OLD = "31 23 0:27 {root} /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct"


@pytest.fixture
def machine(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)

    def make(groups, mounts, files):
        (tmp_path / "proc/self/cgroup").write_text(groups)
        (tmp_path / "proc/self/mountinfo").write_text(f"{mounts}\n")
        for name, text in files.items():
            (file := tmp_path / "sys/fs/cgroup" / name).parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return str(tmp_path)

    return make


@pytest.mark.parametrize(
    ("groups", "mounts", "files", "found"),
    [
        ("0::/\n", NEW.format(root="/"), {}, ALL),
        ("0::/\n", NEW.format(root="/"), {"cpu.max": "20000 100000\n"}, 0.2),
        ("0::/\n", NEW.format(root="/"), {"cpu.max": "max 100000\n"}, ALL),
        (
            "0::/a/b\n",
            NEW.format(root="/"),
            {"a/cpu.max": "50000 100000\n", "a/b/cpu.max": "max 100000"},
            0.5,
        ),
        ("0::/pod/x\n", NEW.format(root="/pod"), {"x/cpu.max": "30000 100000\n"}, 0.3),
        ("0::/elsewhere\n", NEW.format(root="/pod"), {"cpu.max": "30000 100000\n"}, ALL),
        (
            "2:cpu,cpuacct:/docker/x\n1:memory:/y\n",
            OLD.format(root="/docker/x"),
            {"cpu/cpu.cfs_quota_us": "40000\n", "cpu/cpu.cfs_period_us": "100000\n"},
            0.4,
        ),
        (
            "2:cpu,cpuacct:/\n",
            OLD.format(root="/"),
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            ALL,
        ),
        ("2:cpu,cpuacct:/\n", OLD.format(root="/"), {"cpu/cpu.cfs_quota_us": "odd"}, ALL),
        ("nonsense", "nonsense", {}, ALL),
    ],
)
def test_a_quota_is_a_fraction_of_the_processors(machine, groups, mounts, files, found):
    assert count_processors(machine(groups, mounts, files)) == found


def test_a_machine_without_control_groups_has_all_its_processors(tmp_path):
    assert count_processors(str(tmp_path)) == ALL
