"""Which sessions over HTTP are ended because their client has gone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.surfaces.mcp_server.http.sessions import AbandonedSessions

HEADERS = [(b"mcp-session-id", b"s"), (b"content-length", b"7"), (b"host", b"h")]


class App:
    """Answers when it is told to; a connection breaks when its task is cancelled."""

    def __init__(self) -> None:
        self.deleted = asyncio.Event()
        self.seen: list[Any] = []
        self.answers: dict[str, asyncio.Event] = {"GET": asyncio.Event(), "POST": asyncio.Event()}

    async def __call__(self, scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        self.seen.append((scope["method"], scope["headers"]))
        if scope["method"] == "DELETE":
            self.deleted.set()
            return
        await send({"type": "http.response.body", "more_body": True})
        await self.answers[scope["method"]].wait()
        await send({"type": "http.response.body"})


async def nowhere(_message: Any) -> None:
    pass


async def begun(sessions: AbandonedSessions, method: str, headers: Any = HEADERS) -> asyncio.Task[None]:
    scope = {"type": "http", "method": method, "headers": headers}
    task = asyncio.create_task(sessions(scope, nowhere, nowhere))
    await asyncio.sleep(0)
    return task


async def broken(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})


async def settled() -> None:
    """Let everything run that is due: timers without a grace are due at the next turn of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_a_session_that_lost_its_call_and_hears_nothing_is_deleted() -> None:
    async def main() -> None:
        app = App()
        sessions = AbandonedSessions(app, grace_s=0)
        await broken(await begun(sessions, "POST"))
        await asyncio.wait_for(app.deleted.wait(), 30)
        assert app.seen == [("POST", HEADERS), ("DELETE", [HEADERS[0], HEADERS[2]])]

    asyncio.run(main())


def test_a_resumed_stream_that_breaks_counts_as_a_lost_call() -> None:
    """A client that was killed after it had come back leaves nothing behind."""

    async def main() -> None:
        app = App()
        sessions = AbandonedSessions(app, grace_s=0)
        await broken(await begun(sessions, "GET", [*HEADERS, (b"last-event-id", b"1.0")]))
        await asyncio.wait_for(app.deleted.wait(), 30)
        assert [method for method, _ in app.seen] == ["GET", "DELETE"]

    asyncio.run(main())


def test_another_connection_keeps_it_until_that_one_breaks_too() -> None:
    async def main() -> None:
        app = App()
        sessions = AbandonedSessions(app, grace_s=0)
        call = await begun(sessions, "POST")
        stream = await begun(sessions, "GET")
        await broken(call)
        await settled()
        assert not app.deleted.is_set()
        await broken(stream)
        await asyncio.wait_for(app.deleted.wait(), 30)

    asyncio.run(main())


def test_a_session_whose_calls_were_answered_is_idle() -> None:
    async def main() -> None:
        app = App()
        sessions = AbandonedSessions(app, grace_s=0)
        app.answers["POST"].set()
        await (await begun(sessions, "POST"))
        await broken(await begun(sessions, "GET"))
        await settled()
        assert not app.deleted.is_set()

    asyncio.run(main())


def test_who_comes_back_in_time_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        app, timers = App(), list[asyncio.TimerHandle]()
        sessions = AbandonedSessions(app)
        loop = asyncio.get_running_loop()
        call_later = loop.call_later
        monkeypatch.setattr(
            loop, "call_later", lambda *given: timers.append(call_later(*given)) or timers[-1]
        )
        await broken(await begun(sessions, "POST"))
        assert [timer.cancelled() for timer in timers] == [False]
        app.answers["POST"].set()
        await (await begun(sessions, "POST"))
        assert [timer.cancelled() for timer in timers] == [True]

    asyncio.run(main())


def test_what_belongs_to_no_session_is_none_of_its_business() -> None:
    async def main() -> None:
        app = App()
        sessions = AbandonedSessions(app, grace_s=0)
        await broken(await begun(sessions, "POST", []))
        await settled()
        assert not app.deleted.is_set()

    asyncio.run(main())
