"""What is waited for to the end, whoever is cancelled."""

import asyncio

import anyio
import pytest

from paddock.engines.sdk.events import Events
from paddock.foundation.cancellation import (
    Stop,
    call_when_set,
    cancel_all,
    finish_first,
    run_shielded,
    unless_stopped,
    wait_shielded,
)
from paddock.model.outcome import RawResult, Status
from paddock.model.request import ExecutionRequest, GuestRun


async def _beside(work, cancellations):
    """Return how a task has ended that waits for `work` and is cancelled so often, and how often it was asked to."""

    async def wait():
        try:
            return await run_shielded(work)
        finally:
            asked.append(asyncio.current_task().cancelling())

    asked = []
    task = asyncio.create_task(wait())
    for _ in range(cancellations):
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    return task, asked


@pytest.mark.parametrize("cancellations", [1, 2, 5])
def test_a_cancellation_goes_on_when_the_work_has_ended(cancellations):
    done = []

    async def work():
        for number in range(9):
            await asyncio.sleep(0)
            done.append(number)

    task, asked = asyncio.run(_beside(work(), cancellations))
    assert (task.cancelled(), asked, done) == (True, [cancellations], list(range(9)))


def test_without_one_the_work_returns_or_raises():
    async def fails():
        raise LookupError("gone")

    assert asyncio.run(run_shielded(asyncio.sleep(0, 7))) == 7
    with pytest.raises(LookupError, match=r"^gone$"):
        asyncio.run(run_shielded(fails()))


def test_work_that_must_finish_returns_before_its_caller_is_cancelled():
    results = []

    async def wait():
        async with asyncio.timeout(60):
            results.append(await finish_first(asyncio.sleep(0, 7)))
            results.append(asyncio.current_task().cancelling())
            await asyncio.sleep(0)
            results.append("not cancelled")

    async def cancel():
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert (asyncio.run(cancel()), results) == (True, [7, 1])
    assert asyncio.run(finish_first(asyncio.sleep(0, 7))) == 7


def test_a_timeout_is_one_although_the_work_was_finished_first():
    async def wait():
        done = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(0):
            asyncio.get_running_loop().call_later(0.01, done.set_result, 7)
            assert await finish_first(asyncio.wait_for(done, None)) == 7
            await asyncio.sleep(0)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_what_fails_meanwhile_is_the_cause_of_the_cancellation():
    async def fails():
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        raise LookupError("gone")

    async def cause():
        try:
            asyncio.current_task().cancel()
            await run_shielded(fails())
        except asyncio.CancelledError as error:
            return repr(error.__cause__)

    assert asyncio.run(cause()) == "LookupError('gone')"


def test_deliveries_have_ended_when_a_session_is_left_by_a_cancellation():
    ended = []

    async def deliver(request):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(request.work.method)

    async def leave():
        script = ExecutionRequest(surface="cli", workspace="/", work=GuestRun(source="", profile="script"))
        async with Events(deliver, lambda event: [event]) as events:
            events.on_end(script, RawResult(status=Status.OK))
            asyncio.get_running_loop().call_later(0, asyncio.current_task().cancel)
            told.append(events)

    told = []
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(leave())
    assert ([events.dropped for events in told], ended) == ([1], ["webhook.deliver"])


@pytest.mark.parametrize("make_stop", [asyncio.Event, Stop])
def test_a_stop_cuts_work_short_and_waits_for_its_end(make_stop):
    told = []

    async def works():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append("ended")

    async def main():
        stop = make_stop()
        running = asyncio.create_task(unless_stopped(works(), stop))
        for _ in range(3):
            await asyncio.sleep(0)
        stop.set()
        return await running, told

    assert asyncio.run(main()) == (None, ["ended"])


def test_work_that_ends_first_is_answered_with_and_without_a_stop():
    async def works():
        await asyncio.sleep(0)
        return 42

    async def main():
        return [await unless_stopped(works(), stop) for stop in (None, asyncio.Event(), Stop())]

    assert asyncio.run(main()) == [42, 42, 42]


@pytest.mark.parametrize("make_stop", [asyncio.Event, Stop])
def test_a_stop_that_is_set_already_cuts_work_short(make_stop):
    async def main():
        stop, called = make_stop(), []
        stop.set()
        with call_when_set(stop, lambda: called.append(1)):
            assert called == []
            for _ in range(3):
                await asyncio.sleep(0)
        with call_when_set(stop, lambda: called.append(2)):
            pass
        await asyncio.sleep(0)
        return await unless_stopped(asyncio.Event().wait(), stop), called

    assert asyncio.run(main()) == (None, [1])


def test_a_stop_calls_each_callback_of_a_context_once():
    async def main():
        stop, called = Stop(), []
        with call_when_set(stop, lambda: called.append("outer")):
            with call_when_set(stop, lambda: called.append("left")):
                pass
            with call_when_set(stop, lambda: called.append("inner")):
                stop.set()
                stop.set()
        return called, stop.callbacks

    assert asyncio.run(main()) == (["outer", "inner"], [])


def test_whoever_waits_for_work_without_a_stop_cancels_it():
    told = []

    async def works():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            told.append("ended")

    async def main():
        running = asyncio.create_task(unless_stopped(works(), asyncio.Event()))
        for _ in range(3):
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait({running})
        return running.cancelled(), told

    assert asyncio.run(main()) == (True, ["ended"])


@pytest.mark.parametrize("cancel_as", ["scope", "task"])
def test_the_end_of_a_task_is_waited_for_whatever_cancels_the_waiter(cancel_as):
    turns = []

    async def work():
        for number in range(9):
            await asyncio.sleep(0)
            turns.append(number)

    async def main():
        task = asyncio.create_task(work())
        with anyio.CancelScope() as scope:
            waiter = asyncio.current_task()
            asyncio.get_running_loop().call_soon(scope.cancel if cancel_as == "scope" else waiter.cancel)
            await wait_shielded(task)
            ended_first.append(task.done())
            await asyncio.sleep(0)
        return scope.cancelled_caught

    ended_first = []
    if cancel_as == "scope":
        assert asyncio.run(main()) is True
        assert ended_first == [True]
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(main())
    assert turns == list(range(9))


def test_cancelled_tasks_have_ended_when_that_returns():
    cleaned = []

    async def work(number):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(number)

    async def main():
        tasks = {asyncio.create_task(work(number)) for number in range(3)}
        for task in tasks:
            task.add_done_callback(tasks.discard)
        await asyncio.sleep(0)
        await cancel_all(tasks)
        await cancel_all(())
        return len(tasks)

    assert asyncio.run(main()) == 0
    assert sorted(cleaned) == [0, 1, 2]


@pytest.mark.parametrize(("is_set", "calls"), [(True, ["stopped"]), (False, [])])
def test_a_callback_is_called_only_for_an_event_that_is_set_meanwhile(is_set, calls):
    called = []

    async def main():
        stop = asyncio.Event()
        with call_when_set(stop, lambda: called.append("stopped")):
            await asyncio.sleep(0)
            if is_set:
                stop.set()
            for _ in range(3):
                await asyncio.sleep(0)
        stop.set()
        for _ in range(3):
            await asyncio.sleep(0)
        with call_when_set(None, lambda: called.append("never")):
            pass

    asyncio.run(main())
    assert called == calls
