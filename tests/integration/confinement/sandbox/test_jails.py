"""Jails of the tier `namespaces`: copies of one root that share nothing else, each with a first process of ours."""

import asyncio
import re
import shutil
import tempfile
from pathlib import Path

from paddock.confinement.sandbox.child import namespaces
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

NONE = ProcessGrants()

SCRATCH = r"[0-9a-f]{16}"
"""Name of a job's own scratch directory."""


def in_turn(root, *jobs, limits=None):
    """Run jobs, pairs of shell script and grants, one after another in one warden; return their results."""

    async def main():
        async with KernelSandbox(SandboxFacts(tier="namespaces"), "namespaces", scratch_root=root) as sandbox:
            return [await sandbox.run(["sh", "-c", script], grants, limits) for script, grants in jobs]

    return asyncio.run(main())


def said(result):
    assert (result.status, result.stderr.head) == ("ok", ""), result
    return result.stdout.head


def writable(path):
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o777)
    return path


def test_jobs_of_one_root_find_nothing_of_each_other(open_path):
    leave = "cd $HOME/..; touch /tmp/a /dev/shm/a a; ls -A . /tmp /dev/shm"
    look = "ls -A /tmp /dev/shm; ls -A $HOME/..; ls -A $HOME/../.."
    first, second = in_turn(open_path, (leave, NONE), (look, NONE))
    assert said(first) == ".:\na\nhome\ntmp\n\n/dev/shm:\na\n\n/tmp:\na\n" + carried_in_tmp(open_path)
    own = "/dev/shm:\n\n/tmp:\n" + carried_in_tmp(open_path) + "home\ntmp\n"
    assert re.fullmatch(re.escape(own) + SCRATCH + "\n", said(second))


def carried_in_tmp(root):
    """Return what lies in a jail's /tmp because the folder of scratch is below it."""
    return f"{root.relative_to('/tmp').parts[0]}\n" if root.is_relative_to("/tmp") else ""


def test_a_folder_of_scratch_outside_of_tmp_shows_its_own_job_alone_and_takes_nothing_else():
    root = Path("/var/tmp/paddock-jails")
    root.mkdir(exist_ok=True)
    root.chmod(0o755)
    try:
        script = "ls -A $HOME/../..; touch $HOME/../../x 2>/dev/null || echo refused; touch $HOME/x; ls $HOME"
        results = in_turn(root, (script, NONE), (script, NONE))
        for result in results:
            assert re.fullmatch(SCRATCH + "\nrefused\nx\n", said(result))
        assert list(root.iterdir()) == []
    finally:
        shutil.rmtree(root)


def test_devices_are_those_that_hold_nothing_and_no_terminal_can_be_made(open_path):
    script = "ls /dev; touch /dev/x 2>/dev/null || echo refused; [ -e /dev/ptmx ] || echo none"
    (result,) = in_turn(open_path, (script, NONE))
    names = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert said(result).split() == [*names, "refused", "none"]


def test_granted_paths_below_tmp_are_where_they_are_and_covered_ones_stay_covered(open_path):
    workspace, extra = writable(open_path / "workspace"), writable(open_path / "extra" / "deep")
    hooks = writable(workspace / ".git" / "hooks")
    file = open_path / "file"
    file.write_text("known\n")
    grants = ProcessGrants(
        workspace=workspace, access="workspace-write", readable=(file, extra.parent), writable=(extra,)
    )
    script = f"cat {file}; echo w >here; echo e >{extra}/there; (: >{hooks}/x) 2>/dev/null || echo covered; ls {open_path}"
    first, second = in_turn(open_path, (script, grants), (script, grants))
    listed = "extra\nfile\n" + folder_of_scratch(open_path, first) + "workspace\n"
    assert sorted(said(first).splitlines()) == sorted(["known", "covered", *listed.splitlines()])
    assert said(second) == said(first)
    assert (workspace / "here").read_text() == "w\n"
    assert (extra / "there").read_text() == "e\n"
    assert list(hooks.iterdir()) == []


def test_a_granted_name_that_leads_through_links_is_that_name_in_a_jail_too(open_path):
    root = Path(tempfile.mkdtemp(prefix="paddock-links-", dir="/var/tmp"))
    root.chmod(0o755)
    for version in ("3.12.1", "3.12.2"):
        (root / version / "bin").mkdir(parents=True)
        (root / version / "bin" / "python").write_text(f"{version}\n")
    (root / "secret").write_text("not for jobs\n")
    named = root / "newest" / "bin" / "python"
    grants = ProcessGrants(readable=(named,))

    async def main():
        async with KernelSandbox(
            SandboxFacts(tier="namespaces"), "namespaces", scratch_root=open_path
        ) as sandbox:
            for version in ("3.12.1", "3.12.2"):
                (root / "3.12").unlink(missing_ok=True)
                (root / "3.12").symlink_to(version)
                yield await sandbox.run(["sh", "-c", f"cat {named}; ls {root}"], grants)

    async def results():
        return [said(result) async for result in main()]

    try:
        (root / "newest").symlink_to(root / "3.12")
        listings = [f"{version}\n3.12\n{version}\nnewest\n" for version in ("3.12.1", "3.12.2")]
        assert asyncio.run(results()) == listings
    finally:
        shutil.rmtree(root)


def folder_of_scratch(root, result):
    """Return the line of a listing of `root` that names the warden's folder."""
    (name,) = [line for line in result.stdout.head.splitlines() if line.startswith("paddock-")]
    assert not (root / name).exists()
    return f"{name}\n"


def test_a_path_that_leads_elsewhere_now_leads_there_in_the_next_jail(open_path):
    workspace = writable(open_path / "workspace")
    (workspace / "which").write_text("old\n")
    grants = ProcessGrants(workspace=workspace, access="read-only")

    async def main():
        async with KernelSandbox(
            SandboxFacts(tier="namespaces"), "namespaces", scratch_root=open_path
        ) as sandbox:
            first = await sandbox.run(["cat", "which"], grants)
            workspace.rename(open_path / "away")
            writable(workspace)
            (workspace / "which").write_text("new\n")
            return first, await sandbox.run(["cat", "which"], grants)

    first, second = asyncio.run(main())
    assert (said(first), said(second)) == ("old\n", "new\n")


def test_programs_cannot_look_into_the_first_process_nor_end_it(open_path):
    looks = "for f in environ mem maps fd cwd; do (ls -L /proc/1/$f/. || : </proc/1/$f) 2>/dev/null && echo $f; done"
    script = f"{looks}; for n in HUP INT KILL STOP TERM CHLD; do kill -$n 1; done; echo alive; exit 5"
    (result,) = in_turn(open_path, (script, NONE))
    assert (result.status, result.exit_code, result.stdout.head) == ("failed", 5, "alive\n")


def test_programs_see_no_path_of_the_host_in_the_first_process(open_path):
    (result,) = in_turn(open_path, ("tr -d '\\0' </proc/1/cmdline", NONE))
    assert said(result) == "paddock: jails"


def test_what_a_program_leaves_behind_is_killed_and_its_result_stays(open_path):
    (result,) = in_turn(open_path, ("(sleep 60 &); (trap '' TERM; sleep 60) & exit 4", NONE))
    assert (result.status, result.exit_code, result.kill, result.survivors) == ("failed", 4, "namespace", 0)


def test_time_of_orphans_that_have_ended_counts(open_path):
    burn = "python3 -I -S -c 'import time\nwhile time.process_time() < 0.3: pass'"
    script = f"({burn} & echo $! >$HOME/a); ({burn}); while kill -0 $(cat $HOME/a) 2>/dev/null; do :; done"
    (result,) = in_turn(open_path, (script, NONE))
    assert (result.status, result.kill) == ("ok", "none")
    assert result.usage.cpu_user_ms + result.usage.cpu_system_ms >= 600


def test_time_of_what_is_killed_counts(open_path):
    script = "(while :; do :; done) & while :; do :; done"
    (result,) = in_turn(open_path, (script, NONE), limits=ProcessLimits(timeout_ms=30_000, cpu_ms=600))
    assert (result.status, result.limit, result.kill) == ("timeout", "cpu", "namespace")
    assert result.usage.cpu_user_ms + result.usage.cpu_system_ms >= 600


def test_orphans_that_come_and_go_meet_the_limit_of_cpu_time(open_path):
    burn = "python3 -I -S -c 'import time\nwhile time.process_time() < 0.05: pass'"
    (result,) = in_turn(
        open_path, (f"while :; do (({burn}) &); {burn}; done", NONE), limits=ProcessLimits(cpu_ms=1500)
    )
    assert (result.status, result.limit, result.survivors) == ("timeout", "cpu", 0)


def test_jobs_at_the_same_time_share_no_messages_and_no_processes(open_path):
    meeting = writable(open_path / "meeting")
    grants = ProcessGrants(writable=(meeting,))
    wait = f"until [ $(ls {meeting} | wc -l) = 3 ]; do :; done"
    look = (
        "ls -d /proc/[0-9]* | wc -l; wc -l </proc/sysvipc/shm; readlink /proc/self/ns/ipc /proc/self/ns/pid"
    )

    async def main():
        async with KernelSandbox(
            SandboxFacts(tier="namespaces"), "namespaces", scratch_root=open_path
        ) as sandbox:
            scripts = [f"{look}; : >{meeting}/{number}; {wait}" for number in range(3)]
            return await asyncio.gather(*(sandbox.run(["sh", "-c", script], grants) for script in scripts))

    found = [said(result).split() for result in asyncio.run(main())]
    assert [facts[1] for facts in found] == ["1", "1", "1"]  # the heading
    assert len({name for facts in found for name in facts[2:]}) == 6
    assert all(int(facts[0]) <= 5 for facts in found)


FILL = """
import itertools
for folder in ("/tmp", "/dev/shm"):
    for made in itertools.count():
        try:
            open(f"{folder}/{made}", "w").close()
        except OSError as error:
            print(folder, made, error.strerror)
            break
"""


def test_names_in_memory_have_an_end_though_nobody_counts_them(open_path):
    limits = ProcessLimits(scratch_bytes=1 << 20)
    (result,) = in_turn(open_path, (f"/usr/bin/python3 -I -S -c '{FILL}'", NONE), limits=limits)
    most = {"/tmp": (1 << 20) // 4096 + 64, "/dev/shm": (64 << 20) // 4096 + 64}
    for line, (folder, room) in zip(said(result).splitlines(), most.items(), strict=True):
        name, made, why = line.split(" ", 2)
        assert (name, why) == (folder, "No space left on device")
        assert room - 64 < int(made) < room


def test_a_workspace_may_have_any_name_also_one_that_stands_for_something_else(open_path):
    place = writable(open_path / "{info}{source} %s 'a' \\ \n:é")
    grants = ProcessGrants(workspace=place, access="workspace-write")
    (result,) = in_turn(open_path, ("touch made; ls", grants))
    assert said(result) == "made\n"


def test_what_keeps_bubblewrap_from_starting_is_told(open_path, monkeypatch):
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    (result,) = in_turn(open_path, ("true", NONE))
    assert (result.status, result.reason) == (
        "unavailable",
        "namespaces: [Errno 2] No such file or directory: '/usr/bin/no-bwrap'",
    )
