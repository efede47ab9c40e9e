"""What ends the requests of a Paddock: leaving it, its listeners, its owner's loss; and where it serves nobody."""

import asyncio
import os
import subprocess
import sys
import threading

import pytest
from tests.conftest import ROOT
from tests.support.processes import PATIENCE_S, children
from tests.support.session import find_session

from paddock import BlockingPaddock, Paddock
from paddock.model.errors import PaddockError
from paddock.record.ledger.read import read

CLOSED = "this Paddock was closed during the request, which was cancelled"
FORKED = (
    "this Paddock was opened before a fork and works only in the parent process: open another "
    "one after the fork"
)
CALLS = "await paddock.compute('emit(1)'); console.log('a'); console.log('b'); for (;;) await sleep(1000)"

FORKING = """
import os, sys
from paddock import BlockingPaddock

with BlockingPaddock() as paddock:
    paddock.execute("return 1")
    child = os.fork()
    if not child:
        try:
            paddock.execute("return 2")
        except RuntimeError as error:
            print(error, flush=True)
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(paddock.execute("return 3").value, paddock.exec("shell", "echo 4").program.stdout.head, end="")
"""

FORGETTING = """
import gc, os, threading
from paddock import BlockingPaddock
from tests.support.processes import children


def thread_and_children():
    names = [thread.name for thread in threading.enumerate()]
    return "paddock" in names, bool(children(os.getpid()))


paddock = BlockingPaddock()
paddock.__enter__()
print(paddock.execute("return 1").value, *thread_and_children())
del paddock
gc.collect()
print(*thread_and_children())
"""


def test_leaving_cancels_what_is_under_way_and_its_processes(tmp_path, settings):
    before = children(os.getpid())

    async def ends():
        async with Paddock(tmp_path, settings=settings) as paddock:
            begun = [asyncio.Event(), asyncio.Event()]
            tasks = [
                asyncio.create_task(
                    paddock.execute("console.log(1); await sleep(60000)", on_console=lambda _: begun[0].set())
                ),
                asyncio.create_task(
                    paddock.exec("shell", "echo; sleep 60", on_output=lambda *_: begun[1].set())
                ),
            ]
            for each in begun:
                await each.wait()
        return await asyncio.gather(*tasks, return_exceptions=True)

    ended = asyncio.run(ends())
    assert [(type(error), str(error)) for error in ended] == 2 * [(PaddockError, CLOSED)]
    assert set(children(os.getpid())) <= set(before)
    finished = list(read(tmp_path / "audit", event="finished"))
    assert [record.fields["status"] for record in finished] == ["cancelled", "cancelled"]
    # What a cancelled task had used, and what had confined it, nobody has told.
    assert [record.fields.keys() & {"tier", "cpu_ms", "calls"} for record in finished] == [set(), set()]


@pytest.mark.parametrize("under_way", [False, True])
def test_leaving_is_not_cut_short_by_a_cancellation(under_way, tmp_path, settings):
    before, tasks = children(os.getpid()), []

    async def ends():
        async with Paddock(tmp_path, settings=settings) as paddock:
            assert (await paddock.execute("return 1")).value == 1
            assert (await paddock.exec("shell", "echo 2")).program.stdout.head == "2\n"
            begun = asyncio.Event()
            task = asyncio.create_task(
                paddock.exec("shell", "echo; sleep 60", on_output=lambda *_: begun.set())
            )
            tasks.append(task)
            await begun.wait()
            leaving = asyncio.current_task()
            if under_way:  # the first cancels the wait for it
                loop = asyncio.get_running_loop()
                loop.call_soon(loop.call_soon, leaving.cancel)
            else:
                task.cancel()
                await asyncio.wait([task])
            leaving.cancel()

    with asyncio.Runner() as runner:
        with pytest.raises(asyncio.CancelledError):
            runner.run(ends())
        assert set(children(os.getpid())) <= set(before)
        [ended] = runner.run(asyncio.wait(tasks))[0]
        assert ended.cancelled() is not under_way
        if under_way:
            assert str(ended.exception()) == CLOSED
    finished = list(read(tmp_path / "audit", event="finished"))
    assert [record.fields["status"] for record in finished] == ["cancelled", "ok", "ok"]


def test_leaving_in_one_thread_cancels_what_another_one_waits_for(tmp_path, settings):
    begun, told = threading.Event(), []
    paddock = BlockingPaddock(tmp_path, settings=settings)

    def wait():
        try:
            paddock.execute("console.log(1); await sleep(60000)", on_console=lambda _: begun.set())
        except PaddockError as error:
            told.append(str(error))

    with paddock:
        other = threading.Thread(target=wait)
        other.start()
        assert begun.wait(PATIENCE_S)
    other.join()
    assert told == [CLOSED]


@pytest.mark.parametrize("listener", ["on_console", "on_call"])
def test_a_listener_that_raises_ends_its_program_and_is_heard(listener, tmp_path, settings):
    heard = []

    def listen(what):
        heard.append(what)
        raise LookupError("no such listener")

    with BlockingPaddock(tmp_path, settings=settings) as paddock:
        with pytest.raises(LookupError, match=r"^no such listener$"):
            paddock.execute(CALLS, **{listener: listen})
        assert paddock.execute("return 1").value == 1
    assert len(heard) == 1
    statuses = {record.fields["status"] for record in read(tmp_path / "audit", event="finished")}
    assert statuses == {"cancelled", "ok"}


def test_a_listener_of_output_that_raises_ends_its_program_and_is_heard(tmp_path, settings):
    def listen(stream, data):
        raise LookupError((stream, data))

    with BlockingPaddock(tmp_path, settings=settings) as paddock:
        with pytest.raises(LookupError) as raised:
            paddock.exec("shell", "echo 1; sleep 60", on_output=listen)
        assert raised.value.args == (("stdout", b"1\n"),)
        assert paddock.exec("shell", "echo 2").program.stdout.head == "2\n"
    statuses = [record.fields["status"] for record in read(tmp_path / "audit", event="finished")]
    assert statuses == ["ok", "cancelled"]


def test_what_a_listener_raises_at_the_very_end_is_heard_too(tmp_path, settings):
    def listen(_):
        raise LookupError("late")

    with (
        BlockingPaddock(tmp_path, settings=settings) as paddock,
        pytest.raises(LookupError, match=r"^late$"),
    ):
        paddock.execute("console.log(1)", on_console=listen)


def test_a_listener_may_raise_what_is_no_error(tmp_path, settings):
    before = children(os.getpid())

    def listen(_):
        raise asyncio.CancelledError("enough")

    async def runs():
        async with Paddock(tmp_path, settings=settings) as paddock:
            await paddock.execute("console.log(1); await sleep(60000)", on_console=listen)

    with pytest.raises(asyncio.CancelledError, match=r"^enough$"):
        asyncio.run(runs())
    assert [record.fields["status"] for record in read(tmp_path / "audit", event="finished")] == ["cancelled"]
    assert set(children(os.getpid())) <= set(before)


def test_a_listener_may_end_its_process(tmp_path):
    code = """
import sys
from paddock import BlockingPaddock
with BlockingPaddock() as paddock:
    paddock.execute("console.log(1); await sleep(60000)", on_console=lambda _: sys.exit(3))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


def test_another_event_loop_is_told_where_to_go(tmp_path, settings):
    paddock = Paddock(tmp_path, settings=settings)
    with asyncio.Runner() as runner:
        runner.run(paddock.__aenter__())
        with pytest.raises(RuntimeError) as refused:
            asyncio.run(paddock.execute("return 1"))
        assert (
            str(refused.value)
            == "this Paddock was opened on another event loop: open one on each loop, or use BlockingPaddock"
        )
        assert runner.run(paddock.execute("return 2")).value == 2
        runner.run(paddock.__aexit__(None, None, None))


def test_a_forked_child_is_refused_and_harms_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORKING],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{FORKED}\n3\n3 4\n", "")


def test_one_that_nobody_knows_any_more_ends_its_processes(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FORGETTING],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 True True\nFalse False\n", "")


def test_one_that_is_never_left_ends_with_its_process(tmp_path):
    code = (
        "from paddock import BlockingPaddock as B; b = B(); b.__enter__(); print(b.execute('return 1').value)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_session_that_has_ended_runs_nothing_more(tmp_path, settings):
    async def ends():
        async with Paddock(tmp_path, settings=settings) as paddock:
            await paddock.execute("return 1")
            await find_session(paddock).gate.aclose()
            with pytest.raises(PaddockError, match=r"^this Paddock is closed; open another one$"):
                await paddock.execute("return 2")

    asyncio.run(ends())


def test_a_listener_that_waits_for_its_own_paddock_is_told_so(tmp_path, settings):
    with BlockingPaddock(tmp_path, settings=settings) as paddock:
        with pytest.raises(RuntimeError) as refused:
            paddock.execute("console.log(1)", on_console=lambda _: paddock.execute("return 2"))
        assert str(refused.value) == "a listener cannot wait for its own Paddock; call it from another thread"
        assert paddock.warnings == ()


def test_calls_beside_the_end_are_answered(tmp_path, settings):
    """Whatever comes first, nobody waits for a loop that is gone."""
    told = []
    paddock = BlockingPaddock(tmp_path, settings=settings)

    def ask_on():
        while True:
            try:
                paddock.execute("return 1")
            except (PaddockError, RuntimeError) as error:
                told.append(str(error))
                return

    with paddock:
        assert paddock.execute("return 1").value == 1
        others = [threading.Thread(target=ask_on) for _ in range(4)]
        for each in others:
            each.start()
    for each in others:
        each.join()
    not_open = "this Paddock is not open: use it as `{}`".format
    assert len(told) == 4
    assert set(told) <= {
        CLOSED,
        "this Paddock is closed; open another one",
        not_open("with BlockingPaddock() as p:"),
        not_open("async with Paddock() as p:"),
    }
