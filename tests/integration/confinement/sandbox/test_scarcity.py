"""Where the system gives no further process, thread or address: what was running goes on, and people are told why."""

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, make_environment, run_command
from tests.support.processes import PATIENCE_S, has_ended

from paddock.confinement.sandbox import interpreter
from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.engines.javascript import launch
from paddock.gate.open_paddock import open_paddock
from paddock.model.errors import EngineError
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, GuestSettings, Settings

from .conftest import patiently, wardens

FEW_FILES = str(Path(__file__).with_name("few_files.py"))
NO_FILE = (
    "no further file can be opened: this process, or this machine, has reached its limit of open files; close some, or "
    "raise the limit (ulimit -n)"
)
NO_MORE = (
    "no further process or thread can be started: this user, or this control group, has reached its limit; "
    "end some of them, or raise the limit (ulimit -u; in a container, pids.max)"
)
REFUSING = """
import os, sys, _thread
sys.path.insert(0, sys.argv.pop(1))
fork, own, answers = os.fork, os.getpid(), {answers}
def refuse():
    if os.getpid() == own and answers and answers.pop(0) == "-":
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return fork()
def start(*_):
    raise RuntimeError("can't start new thread")
os.fork = refuse
if {threadless}:
    _thread.start_new_thread = start
from {module} import main
main()
"""


@pytest.fixture
def children(monkeypatch):
    """Have the next helpers meet a system that answers their forks so: `-` refuses one, `+` does not."""

    def scarce(forks: str = "", *, threadless: bool = False) -> None:
        text = REFUSING.replace("{answers}", str(list(forks))).replace("{threadless}", str(threadless))
        monkeypatch.setattr(interpreter, "CHILD_PROGRAM", text)

    return scarce


def program(source: str, workspace: Path) -> ExecutionRequest:
    limits = LimitOverrides(timeout_ms=PATIENCE_S * 1000)
    return ExecutionRequest(workspace=workspace, work=GuestRun(source=source), limits=limits)


def in_session(tmp_path: Path, go):
    async def main():
        settings = Settings(
            audit=AuditSettings(directory=tmp_path / "audit"), guest=GuestSettings(spare_workers=0)
        )
        async with open_paddock(settings, tmp_path) as session:
            return await go(session.gate)

    return patiently(main())


def test_a_program_without_a_worker_says_why_and_costs_the_others_nothing(tmp_path, children):
    children("+--+")

    async def go(gate):
        begun = asyncio.Event()
        first = asyncio.create_task(
            gate.execute(
                program("console.log(1); await sleep(500); return 'alive'", tmp_path),
                on_console=lambda _: begun.set(),
            )
        )
        await begun.wait()
        second = await gate.execute(program("return 2", tmp_path))
        return await first, second, await gate.execute(program("return 3", tmp_path))

    first, second, third = in_session(tmp_path, go)
    assert (first.status, first.value) == ("ok", "alive")
    assert (second.status, second.error.message) == (
        "unavailable",
        f"no guest worker could start: {NO_MORE}",
    )
    assert (third.status, third.value) == ("ok", 3)


def test_a_fork_that_is_refused_once_is_tried_again(tmp_path, children):
    children("-+")

    async def go(gate):
        return await gate.execute(program("return 1", tmp_path))

    outcome = in_session(tmp_path, go)
    assert (outcome.status, outcome.value) == ("ok", 1)


def test_without_a_thread_for_the_engine_nothing_runs_and_people_are_told_why(tmp_path, children):
    children(threadless=True)

    async def go(gate):
        computation = program("emit(1)", tmp_path)
        computation = computation.model_copy(update={"work": GuestRun(source="emit(1)", profile="compute")})
        return [await gate.execute(each) for each in (program("return 1", tmp_path), computation)]

    for outcome in in_session(tmp_path, go):
        assert (outcome.status, outcome.error.message) == ("unavailable", NO_MORE)


def test_where_no_helper_can_be_started_a_program_ends_as_unavailable(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    async def go(gate):
        monkeypatch.setattr(interpreter.subprocess, "Popen", refuse)
        refused = [await gate.execute(program("return 1", tmp_path)) for _ in range(2)]
        monkeypatch.undo()
        return [*refused, await gate.execute(program("return 1", tmp_path))]

    *refused, last = in_session(tmp_path, go)
    assert [(each.status, each.error.message) for each in refused] == 2 * [("unavailable", NO_MORE)]
    assert (last.status, last.value) == ("ok", 1)


def test_a_limit_on_addresses_is_named_where_the_engine_would_abort(tmp_path):
    words = ("sh", "-c", 'ulimit -v 2097152 && exec "$@"', "sh", PADDOCK, "run", "-")
    done = run_command(tmp_path, *words, stdin="1 + 1", environment=make_environment(tmp_path))
    assert done == (
        1,
        "",
        "V8 reserves 160 GiB of address space, whatever memory it uses, and this process may have 2.0 (ulimit -v); "
        "run Paddock without that limit: limits.script.memory_bytes bounds the memory\n",
    )


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_a_process_without_a_warden_says_why_and_costs_the_others_nothing(tier, open_path, children):
    children("+-+")

    async def go(sandbox):
        begun = asyncio.Event()
        streams = Streams(stdin=b"in", stdout=lambda _: begun.set())
        first = asyncio.create_task(sandbox.run(["sh", "-c", "echo up; sleep 0.5; cat"], streams=streams))
        await begun.wait()
        second = await sandbox.run(["true"])
        third = await sandbox.run(["echo", "third"])
        return await first, second, third

    first, second, third = with_sandbox(tier, open_path, go)
    assert (first.status, first.stdout.head) == ("ok", "up\nin")
    assert (second.status, second.reason) == (Status.UNAVAILABLE, NO_MORE)
    assert (third.status, third.stdout.head) == ("ok", "third\n")
    assert list(open_path.iterdir()) == []


def test_a_place_that_never_got_its_warden_is_not_used(open_path, children):
    children("-+")

    async def go(sandbox):
        await sandbox.prepare(ProcessGrants(), ProcessLimits(), 1)
        [[place]] = sandbox.describe_state().prepared
        assert has_ended(place.supervisor.socket)
        return await sandbox.run(["true"])

    assert with_sandbox("landlock", open_path, go).status == "ok"
    assert list(open_path.iterdir()) == []


def test_what_a_killed_warden_leaves_is_removed_also_without_a_process_for_it(open_path, children):
    children("+-+")

    async def go(sandbox):
        await sandbox.run(["true"])
        [warden] = wardens(sandbox)
        os.kill(warden, signal.SIGKILL)
        assert is_emptied(open_path)
        return await sandbox.run(["echo", "next"])

    assert with_sandbox("landlock", open_path, go).stdout.head == "next\n"
    assert list(open_path.iterdir()) == []


def is_emptied(folder):
    """Wait until nothing is left in a folder; tell whether that came."""
    deadline = time.monotonic() + PATIENCE_S
    while any(folder.iterdir()) and time.monotonic() < deadline:
        os.sched_yield()
    return not any(folder.iterdir())


def with_sandbox(tier, root, go):
    async def main():
        async with KernelSandbox(SandboxFacts(tier=tier), tier, scratch_root=root) as sandbox:
            return await go(sandbox)

    return patiently(main())


@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (BlockingIOError(11, "Resource temporarily unavailable"), NO_MORE),
        (
            FileNotFoundError(2, "No such file or directory"),
            "paddock.engines.javascript.child.fork_server could not be started (No such file or directory)",
        ),
    ],
)
def test_a_helper_that_does_not_start_says_why(monkeypatch, refusal, message):
    def refuse(*_, **__):
        raise refusal

    monkeypatch.setattr(interpreter.subprocess, "Popen", refuse)
    with pytest.raises(EngineError) as caught:
        launch.Launcher().start_fork_server("guest")
    assert str(caught.value) == message


def test_without_further_files_nothing_runs_and_nothing_is_left_behind(open_path):
    """From no further file to enough of them, one by one: each start meets the end at another place."""
    for name in ("scratch", "workspace"):
        (open_path / name).mkdir()
    done = run_command(None, sys.executable, FEW_FILES, str(open_path))
    assert (done.returncode, done.stderr) == (0, "")
    found = json.loads(done.stdout)
    unrecorded = (
        f"The audit ledger {open_path}/audit cannot be read: Too many open files. Close some, or raise the limit "
        "(ulimit -n)."
    )
    assert found["before"] == found["after"] == [["guest", "ok", ""], ["runtime", "ok", ""]]
    assert [end for end in found["ends"] if end[1] != "not recorded"] == [
        ["guest", "ok", ""],
        ["guest", "unavailable", NO_FILE],
        ["runtime", "ok", ""],
        ["runtime", "unavailable", NO_FILE],
    ]
    assert {end[2] for end in found["ends"] if end[1] == "not recorded"} <= {unrecorded}
    assert found["more open"] == 0
    assert list((open_path / "scratch").iterdir()) == []
