"""Whoever dies, nothing outlives its owner and nobody waits for the dead."""
# ruff: noqa: ARG005 - callbacks take what they are given

import asyncio
import contextlib
import gc
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.support.command import CONTAINED
from tests.support.processes import PATIENCE_S, descendants, has_ended, open_files

from paddock.gate.open_paddock import open_paddock
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, Settings

# The first process of a pid namespace inherits every orphan: when it has no child left, nothing is left.
PARENT_DIES = """
import json, os, signal, subprocess, sys
signal.alarm(250)
parent = subprocess.Popen([sys.executable, "-c", sys.argv[1], *sys.argv[2:]], stdout=subprocess.PIPE)
assert parent.stdout.readline() == b"running\\n"
others = [name for name in os.listdir("/proc") if name.isdigit() and int(name) not in (os.getpid(), parent.pid)]
parent.kill()
reaped = 0
try:
    while os.wait():
        reaped += 1
except ChildProcessError:
    pass
left = [name for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]
print(json.dumps({"others": len(others), "reaped": reaped, "left": left}))
"""
PARENT = """
import asyncio, sys
from pathlib import Path
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, Settings
from paddock.gate.open_paddock import open_paddock

async def main(source, directory):
    async with open_paddock(Settings(audit=AuditSettings(directory=directory / "audit")), directory) as session:
        work = GuestRun(source=source)
        request = ExecutionRequest(workspace=directory, work=work)
        await session.gate.execute(request, on_console=lambda line: print(line.text, flush=True))

asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
"""


@pytest.mark.parametrize("rest", ["for (;;) {}", "await sleep(20_000)", "for (;;) await sleep(0)"])
def test_kill_9_of_the_parent_leaves_no_process(tmp_path, rest):
    command = [
        *CONTAINED,
        sys.executable,
        "-c",
        PARENT_DIES,
        PARENT,
        f"console.log('running'); {rest}",
        str(tmp_path),
    ]
    # A cache of its own: a program that is known from it needs no reader.
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=env)
    assert done.stderr == ""
    told = json.loads(done.stdout)
    assert told["left"] == []
    assert told["others"] >= 3  # a zygote, its worker, the reader of programs
    assert told["reaped"] >= 2  # zygote and reader; a dying zygote may still reap its workers itself


@contextlib.contextmanager
def observed(guest, act):
    """Have `act` called with the worker's pid at the first console line; yield the hook and what it opened."""
    pidfds = []

    def hook(line):
        if not pidfds:
            pid = guest.running_worker()
            pidfds.append(os.pidfd_open(pid))
            act(pid)

    try:
        yield hook, pidfds
    finally:
        for pidfd in pidfds:
            os.close(pidfd)


def execute(guest, source, hook, **limits):
    return guest.execute(guest.request(source, **limits), on_console=hook)


@pytest.mark.parametrize("rest", ["for (;;) {}", "await sleep(20_000)", "await servers.odd.call('hang')"])
def test_cancelling_kills_the_worker_at_once(guest, rest):
    async def scenario():
        here = asyncio.Event()

        def on_console(line):
            hook(line)
            here.set()

        task = asyncio.create_task(guest.session.gate.execute(request, on_console=on_console))
        await here.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)  # the kill is the loop's next step

    with observed(guest, lambda pid: None) as (hook, pidfds):
        request = guest.request(f"console.log('here'); {rest}")
        guest.runner.run(scenario())
        assert has_ended(pidfds[0])
    assert guest.value("1 + 1") == 2


def test_cancelling_while_all_is_starting_harms_nobody_else(tmp_path):
    async def scenario():
        async with open_paddock(
            Settings(audit=AuditSettings(directory=tmp_path / "audit")), tmp_path
        ) as session:
            for steps in range(1, 30):
                request = ExecutionRequest(workspace=tmp_path, work=GuestRun(source="1 + 1"))
                task = asyncio.create_task(session.gate.execute(request))
                for _ in range(steps):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            request = ExecutionRequest(workspace=tmp_path, work=GuestRun(source="1 + 1"))
            return (await session.gate.execute(request)).value

    assert asyncio.run(scenario()) == 2
    gc.collect()  # whatever was left open warns now, and a warning is an error


@pytest.mark.parametrize("rest", ["for (;;) {}", "await sleep(60_000)"])
def test_a_worker_killed_from_outside_is_lost(guest, rest):
    with observed(guest, lambda pid: os.kill(pid, signal.SIGKILL)) as (hook, _):
        outcome = execute(guest, f"console.log('here'); {rest}", hook)
    assert (outcome.status, outcome.error.name, outcome.error.message) == (
        "lost",
        "WorkerLost",
        "the engine crashed (signal 9)",
    )
    assert [line.text for line in outcome.console] == ["here"]
    assert guest.value("1 + 1") == 2


@pytest.mark.parametrize("rest", ["for (;;) {}", "await sleep(60_000)"])
def test_a_zygote_killed_in_the_middle_takes_its_workers_along(guest, rest):
    def kill_zygote(pid):
        status = Path(f"/proc/{pid}/status").read_text()
        parent = int(status.partition("PPid:")[2].split()[0])
        assert parent != os.getpid()
        os.kill(parent, signal.SIGKILL)

    with observed(guest, kill_zygote) as (hook, pidfds):
        outcome = execute(guest, f"console.log('here'); {rest}", hook)
        assert has_ended(pidfds[0])
    assert (outcome.status, outcome.error.message) == ("lost", "the engine crashed (signal 9)")
    assert guest.value("1 + 1") == 2


def test_a_stopped_worker_ends_at_the_wall_limit(guest):
    started = time.perf_counter()
    with observed(guest, lambda pid: os.kill(pid, signal.SIGSTOP)) as (hook, pidfds):
        outcome = execute(guest, "console.log('here'); for (;;) {}", hook, timeout_ms=3_000)
        assert has_ended(pidfds[0])
    assert (outcome.status, outcome.error.message) == ("timeout", "Execution timeout")
    assert time.perf_counter() - started < 30
    assert guest.value("1 + 1") == 2


def test_300_executions_with_aborts_leave_nothing_behind(guest):
    programs = [
        ("return {n} + 1", {}, lambda o, n: (o.status, o.value) == ("ok", n + 1)),
        ("console.log({n}); return {n}", {}, lambda o, n: [x.text for x in o.console] == [str(n)]),
        ("throw new Error('{n}')", {}, lambda o, n: (o.status, o.error.message) == ("failed", str(n))),
        ("for (;;) {{}} // {n}", {"timeout_ms": 20}, lambda o, n: o.status == "timeout"),
        ("await new Promise(() => {{}}) // {n}", {}, lambda o, n: o.status == "timeout"),
        ("'x'.repeat(2**28).split('') // {n}", {}, lambda o, n: o.status == "memory_limit"),
        ("return await servers.odd.call('echo', {{ text: 'r{n}' }})", {}, lambda o, n: o.value == f"r{n}"),
        (
            "for (;;) console.log('{n}')",
            {"timeout_ms": 300, "output_bytes": 100},
            lambda o, n: o.status == "timeout",
        ),
        (
            "for (let i = 0; i < 1000; i++) console.log('{n}')",
            {"output_bytes": 100},
            lambda o, n: o.console_truncated,
        ),
        ("return ({n}", {}, lambda o, n: o.error.name == "SyntaxError"),
        ("await sleep(1); return input", {"given": [1]}, lambda o, n: o.value == [1]),
    ]
    guest.value("return await servers.odd.call('echo', { text: 'warm' })")
    settle(guest)
    before = held()
    wrong = []
    for number in range(300):
        source, options, right = programs[number % len(programs)]
        outcome = guest.run(source.format(n=number), **options)
        if not right(outcome, number):
            wrong.append((number, outcome))
    assert wrong == []
    settle(guest)
    descriptors, processes = held()
    # The pool may be short of a spare at either reading; one worker costs six descriptors. A leak would be hundreds.
    assert processes - before[1] <= 2
    assert descriptors - before[0] <= 12


def settle(guest):
    """Let the pool bury its dead and wait for its spares."""
    for _ in range(3):
        guest.value("await sleep(300); return 1")


def held():
    """Return how many descriptors and how many descendants this process has."""
    return open_files(), len(descendants(os.getpid()))
