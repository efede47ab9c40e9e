"""Wardens run one job after another, places wait prepared, and what a job leaves behind is gone in every case."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S, has_ended

from paddock.confinement.sandbox import fork_server
from paddock.confinement.sandbox import sandbox as module
from paddock.confinement.sandbox.child import process_tree
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits

from .conftest import ROOT, patiently, started, wardens

tiers = pytest.mark.parametrize("tier", ["landlock", "namespaces"])
MIB = 1024 * 1024


def with_sandbox(tier, root, go, **options):
    async def main():
        async with KernelSandbox(
            SandboxFacts(tier=tier), tier, **{"job_user": ROOT, "scratch_root": root, **options}
        ) as sandbox:
            return await go(sandbox)

    return patiently(main())


def count_prepared(sandbox):
    """Return the number of slots that wait, for each set of grants."""
    return [len(slots) for slots in sandbox.describe_state().prepared]


@tiers
def test_one_warden_runs_jobs_one_after_another_and_accounts_for_each(tier, open_path):
    async def go(sandbox):
        large = "x = bytearray(150 << 20); x[::4096] = b'1' * len(x[::4096])\nwhile __import__('time').process_time() < .3: pass"
        first = await sandbox.run(["/usr/bin/python3", "-I", "-S", "-c", large])
        before = wardens(sandbox)
        second = await sandbox.run(["sh", "-c", "ls -A $HOME $TMPDIR"])
        return first, second, before, wardens(sandbox)

    first, second, before, after = with_sandbox(tier, open_path, go)
    assert (first.status, second.status) == ("ok", "ok")
    assert len(before) == 1
    assert after == before
    assert first.usage.peak_bytes > 150 * MIB > second.usage.peak_bytes
    assert first.usage.cpu_user_ms + first.usage.cpu_system_ms >= 300
    assert second.usage.cpu_user_ms + second.usage.cpu_system_ms < 300
    assert list(open_path.iterdir()) == []


@tiers
def test_a_job_sees_nothing_of_the_one_before(tier, open_path):
    async def go(sandbox):
        await sandbox.run(["sh", "-c", "touch $HOME/a $TMPDIR/b; chmod 0 $HOME; mkdir -p $TMPDIR/../c/d"])
        return await sandbox.run(["sh", "-c", "find $TMPDIR/.. -mindepth 1 | sed s,.*/[.][.]/,, | sort"])

    result = with_sandbox(tier, open_path, go)
    assert result.stdout.head == "home\ntmp\n"


@tiers
def test_a_prepared_place_runs_the_program_that_comes_with_its_own_limits(tier, open_path):
    async def go(sandbox):
        await sandbox.prepare(ProcessGrants(), ProcessLimits(), 2)
        grants = ProcessGrants(environment={"A": "1"}, cwd=Path("/usr"))
        script = ["sh", "-c", "echo $A; pwd; ulimit -n; cat"]
        streams = Streams(stdin=b"in")
        result = await sandbox.run(script, grants, ProcessLimits(open_files=99), streams)
        return count_prepared(sandbox), len(sandbox.describe_state().idle), result

    waiting, idle, result = with_sandbox(tier, open_path, go)
    assert result.stdout.head == "1\n/usr\n99\nin"
    assert (waiting, idle) == ([1], 1)
    assert list(open_path.iterdir()) == []


@tiers
def test_a_place_that_died_while_it_waited_is_not_used(tier, open_path):
    async def go(sandbox):
        await sandbox.run(["true"])
        (warden,) = wardens(sandbox)
        await sandbox.prepare(ProcessGrants(), ProcessLimits(), 1)
        assert not sandbox.describe_state().idle
        handle = os.pidfd_open(warden)
        os.kill(warden, signal.SIGKILL)
        assert has_ended(handle)
        os.close(handle)
        [[jail]] = sandbox.describe_state().prepared
        while jail.supervisor.alive:  # its children have the socket, too, until the kernel has killed them
            time.sleep(0)  # noqa: ASYNC251 - gives up the processor; nothing tells when the kernel is done
        return await sandbox.run(["true"])

    result = with_sandbox(tier, open_path, go)
    assert (result.status, result.reason) == ("ok", "")
    assert list(open_path.iterdir()) == []


def test_places_are_kept_for_the_last_grants_only(open_path):
    async def go(sandbox):
        for number in range(10):
            await sandbox.prepare(ProcessGrants(), ProcessLimits(scratch_bytes=MIB + number), 1)
        return len(sandbox.describe_state().prepared)

    assert with_sandbox("landlock", open_path, go) == 8
    assert list(open_path.iterdir()) == []


@tiers
def test_spares_are_filled_up_again(tier, open_path):
    async def go(sandbox):
        results = [await sandbox.run(["true"]) for _ in range(3)]
        await sandbox.finish_refills()
        return results, count_prepared(sandbox)

    results, waiting = with_sandbox(tier, open_path, go, spares=2)
    assert [result.status for result in results] == ["ok", "ok", "ok"]
    assert waiting == [2]


@tiers
def test_the_next_place_waits_for_the_end_of_a_program_unless_they_come_in_a_row(
    tier, open_path, monkeypatch
):
    async def go(sandbox, pause_s):
        for _ in range(2):
            await sandbox.run(["true"])
            await sandbox.finish_refills()
        monkeypatch.setattr(module, "MAX_PAUSE_S", pause_s)
        task = await started(sandbox, "echo; sleep 60")
        await sandbox.finish_refills()
        beside = count_prepared(sandbox)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await sandbox.finish_refills()
        return beside, count_prepared(sandbox)

    assert with_sandbox(tier, open_path, lambda sandbox: go(sandbox, -1), spares=1) == ([0], [1])
    assert with_sandbox(tier, open_path, lambda sandbox: go(sandbox, 3600), spares=1) == ([1], [1])
    assert list(open_path.iterdir()) == []


@tiers
@pytest.mark.parametrize(("writes", "age_s"), [(False, 3600), (False, -1), (True, 3600)])
def test_jails_of_a_row_share_a_spec_for_some_time_and_never_their_scratch(
    tier, open_path, monkeypatch, writes, age_s
):
    built = []
    build = module.spec.build_jail_spec

    def count(*args, **options):
        built.append(options["scratch"])
        return build(*args, **options)

    async def go(sandbox):
        folder = open_path / "workspace"
        folder.mkdir(mode=0o777)
        grants = ProcessGrants(workspace=folder, access="workspace-write") if writes else ProcessGrants()
        scratch = []
        for _ in range(5):
            ended = await sandbox.run(["sh", "-c", "echo $TMPDIR; touch $TMPDIR/file"], grants)
            assert ended.status == "ok"
            scratch.append(ended.stdout.head)
            await sandbox.finish_refills()
        folder.rmdir()
        return scratch

    monkeypatch.setattr(module, "_SPEC_AGE_S", age_s)
    monkeypatch.setattr(module.spec, "build_jail_spec", count)
    scratch = with_sandbox(tier, open_path, go, spares=1)
    assert len(set(scratch)) == 5
    assert (len(built) == 6) == (writes or age_s < 0)


@tiers
def test_who_lets_a_place_wait_can_have_the_next_one_made(tier, open_path):
    async def go(sandbox):
        waiting = []
        for _ in range(2):
            place = await sandbox.take_slot(ProcessGrants(), ProcessLimits())
            place.make_next()
            await sandbox.finish_refills()
            waiting.append(count_prepared(sandbox))
            place.release()
        return waiting

    assert with_sandbox(tier, open_path, go, spares=1) == [[0], [1]]
    assert list(open_path.iterdir()) == []


def made_ahead(sandbox):
    """Return the process that the one warden, which has nothing to do, makes for its next job."""
    (warden,) = wardens(sandbox)
    kept = sandbox.tier == "namespaces"  # before it comes the process that keeps the root of jails
    deadline = time.monotonic() + PATIENCE_S
    while len(found := process_tree.list_children(warden)) == kept:
        assert time.monotonic() < deadline, "the warden makes no process ahead"
        os.sched_yield()
    return found[-1]


def test_a_warden_with_nothing_to_do_makes_the_next_process_ahead(open_path):
    async def go(sandbox):
        await sandbox.run(["true"])
        ahead = made_ahead(sandbox)
        result = await sandbox.run(["sh", "-c", "echo $$"])
        return ahead, result.stdout.head, made_ahead(sandbox)

    ahead, said, left = with_sandbox("landlock", open_path, go)
    assert said == f"{ahead}\n"
    assert not Path(f"/proc/{left}").exists()


@tiers
def test_a_process_made_ahead_that_is_killed_is_nobodys_loss(tier, open_path):
    async def go(sandbox):
        await sandbox.run(["true"])
        ahead = made_ahead(sandbox)
        end = os.pidfd_open(ahead)
        os.kill(ahead, signal.SIGKILL)
        assert has_ended(end)
        return await sandbox.run(["sh", "-c", "echo fine"])

    result = with_sandbox(tier, open_path, go)
    assert (result.status, result.stdout.head, result.kill) == ("ok", "fine\n", "none")
    assert list(open_path.iterdir()) == []


def test_the_keeper_of_a_root_that_is_killed_is_nobodys_loss(open_path):
    async def go(sandbox):
        await sandbox.run(["true"])
        made_ahead(sandbox)
        keeper = process_tree.list_children(wardens(sandbox)[0])[0]
        end = os.pidfd_open(keeper)
        os.kill(keeper, signal.SIGKILL)
        assert has_ended(end)
        return await sandbox.run(["sh", "-c", "echo fine"])

    result = with_sandbox("namespaces", open_path, go)
    assert (result.status, result.stdout.head, result.kill) == ("ok", "fine\n", "none")
    assert list(open_path.iterdir()) == []


@tiers
def test_scratch_of_a_killed_warden_is_removed(tier, open_path):
    async def go(sandbox):
        task = await started(
            sandbox, "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/f; chmod 0 $TMPDIR/a; echo; sleep 60"
        )
        (warden,) = wardens(sandbox)
        os.kill(warden, signal.SIGKILL)
        return await task

    assert with_sandbox(tier, open_path, go).status == "lost"
    assert list(open_path.iterdir()) == []


HEIR = """
import asyncio, ctypes, os, sys
from pathlib import Path
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts

async def main(tier, root):
    async with KernelSandbox(SandboxFacts(tier=tier), tier, scratch_root=Path(root)) as sandbox:
        assert (await sandbox.run(["true"])).status == "ok"

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
asyncio.run(main(*sys.argv[1:]))
try:
    print("inherited", os.waitpid(-1, 0))
except ChildProcessError:
    print("nobody")
"""


@tiers
def test_a_sandbox_that_closes_leaves_no_process_to_whoever_inherits_orphans(tier, open_path):
    done = subprocess.run(
        [sys.executable, "-c", HEIR, tier, open_path], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("nobody\n", "")


def test_a_zygote_that_is_killed_is_replaced_and_leaves_nothing_open(open_path):
    async def go(sandbox):
        await sandbox.run(["true"])
        old = sandbox.describe_state().fork_server
        handle = os.pidfd_open(old.pid)
        os.kill(old.pid, signal.SIGKILL)
        assert has_ended(handle)
        os.close(handle)
        result = await sandbox.run(["sh", "-c", "echo fine"])
        return result.stdout.head, sandbox.describe_state().fork_server is not old, old.is_connected

    assert with_sandbox("landlock", open_path, go) == ("fine\n", True, False)


@pytest.mark.parametrize("late", [False, True])
def test_a_place_that_is_released_while_its_sandbox_closes_starts_nothing(open_path, monkeypatch, late):
    begun, places = [], []

    class Zygote(fork_server.ForkServerClient):
        def __init__(self):
            super().__init__()
            begun.append(self)

        async def close(self):
            if late:
                await super().close()
            places[-1].release()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await super().close()

    async def go(sandbox):
        for _ in range(2):  # the second time these grants are known, so there is to be a spare
            places.append(await sandbox.take_slot(ProcessGrants(), ProcessLimits()))
            assert (await sandbox.run(["true"], slot=places[-1])).status == "ok"
        places[0].release()
        return sandbox

    monkeypatch.setattr("paddock.confinement.sandbox.sandbox.ForkServerClient", Zygote)
    sandbox = with_sandbox("landlock", open_path, go, spares=1)
    state = sandbox.describe_state()
    assert (len(begun), state.idle, state.prepared) == (1, (), ())
    while places[-1].scratch.exists():  # a warden that nobody waits for removes it
        os.sched_yield()


@tiers
def test_a_stop_that_comes_too_late_hits_nobody_else(tier, open_path):
    async def go(sandbox):
        job = await sandbox.launch(["true"])
        await job.result
        job.kill()
        (warden,) = sandbox.describe_state().idle
        warden.socket.send(b"kill:wall")
        return await sandbox.run(["sh", "-c", "echo fine"])

    result = with_sandbox(tier, open_path, go)
    assert (result.status, result.stdout.head) == ("ok", "fine\n")


@tiers
def test_a_kept_place_is_filled_before_the_job_and_read_after_it(tier, open_path):
    async def go(sandbox):
        place = await sandbox.take_slot(ProcessGrants(), ProcessLimits())
        (place.scratch / "in").write_text("given")
        (place.scratch / "in").chmod(0o644)
        script = ["sh", "-c", "cat in > out; (setsid sleep 60 &)"]
        result = await sandbox.run(script, slot=place)
        (warden,) = wardens(sandbox)
        made = (place.scratch / "out").read_text()
        place.release()
        place.release()
        again = await sandbox.run(["true"])
        return result, made, place.scratch.exists(), again, wardens(sandbox) == [warden]

    result, made, left, again, same = with_sandbox(tier, open_path, go)
    assert (result.status, result.survivors, made, left) == ("ok", 0, "given", False)
    assert (again.status, same) == ("ok", True)
    assert list(open_path.iterdir()) == []


def test_a_place_that_was_not_used_goes_with_its_warden_and_one_that_runs_is_killed(open_path):
    async def go(sandbox):
        place = await sandbox.take_slot(ProcessGrants(), ProcessLimits())
        place.release()
        assert (sandbox.describe_state().idle, place.supervisor.socket.fileno()) == ((), -1)
        running = await sandbox.take_slot(ProcessGrants(), ProcessLimits())
        task = await started(sandbox, "echo; sleep 60", slot=running)
        running.release()
        return await task, running.supervisor.socket.fileno()

    result, socket = with_sandbox("landlock", open_path, go)
    assert (result.status, socket) == ("lost", -1)
    assert list(open_path.iterdir()) == []


@tiers
@pytest.mark.parametrize("change", ["workspace", "hooks"])
def test_a_place_from_before_the_workspace_changed_is_not_used(tier, open_path, change):
    """Confined to the directory that was there then, it would not see the new one, or not cover what must be."""
    workspace = open_path / "workspace"
    (workspace / ".git").mkdir(parents=True)
    grants = ProcessGrants(workspace=workspace, access="workspace-write")
    limits = ProcessLimits()

    async def go(sandbox):
        await sandbox.prepare(grants, limits, 1)
        if change == "workspace":
            workspace.rename(open_path / "old")
            workspace.mkdir()
            (workspace / "new").touch()
        else:
            (workspace / ".git" / "hooks").mkdir()
        result = await sandbox.run(["sh", "-c", "ls; ls .git; touch here .git/hooks/x"], grants, limits)
        return result, count_prepared(sandbox)

    result, waiting = with_sandbox(tier, open_path, go)
    assert waiting == [1, 0]
    if change == "workspace":
        assert result.stdout.head == "new\n"
        assert (workspace / "here").exists()
    else:
        assert result.stdout.head == "hooks\n"
        assert list((workspace / ".git" / "hooks").iterdir()) == []


@tiers
def test_the_first_program_of_its_kind_leaves_no_spare(tier, open_path):
    async def go(sandbox):
        seen = []
        for _ in range(2):
            await sandbox.run(["true"])
            await sandbox.finish_refills()
            seen.append(count_prepared(sandbox))
        return seen

    assert with_sandbox(tier, open_path, go, spares=1) == [[0], [1]]
    assert list(open_path.iterdir()) == []


@tiers
def test_closing_is_not_cut_short_by_a_cancellation(tier, open_path):
    async def main():
        sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, scratch_root=open_path, spares=1)
        for _ in range(3):
            assert (await sandbox.run(["true"])).status == "ok"
        zygote = sandbox.describe_state().fork_server
        asyncio.current_task().cancel()
        try:
            await sandbox.close()
        except asyncio.CancelledError:
            return zygote.alive, sandbox.describe_state().fork_server, list(open_path.iterdir())

    assert patiently(main()) == (False, None, [])
