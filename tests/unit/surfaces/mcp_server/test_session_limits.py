"""Which sessions over HTTP make room for others."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from paddock.surfaces.mcp_server.http.sessions import SessionLimit

OPENS: list[tuple[bytes, bytes]] = [(b"content-length", b"7"), (b"host", b"h")]


class App:
    """Opens a session with each request that names none; one that is held answers when its connection breaks."""

    def __init__(self) -> None:
        self.live: list[bytes] = []
        self.deleted: list[list[tuple[bytes, bytes]]] = []
        self.opened = 0

    async def __call__(self, scope: Any, _receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        given = dict(scope["headers"])
        session = given.get(b"mcp-session-id")
        if scope["method"] == "DELETE":
            self.deleted.append(scope["headers"])
        elif scope["method"] == "GET" or b"held" in given:
            await asyncio.Event().wait()
        if session is None:
            self.opened += 1
            session = str(self.opened).encode()
            self.live.append(session)
        status = 200 if session in self.live else 404
        if scope["method"] == "DELETE" and session in self.live:
            self.live.remove(session)
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"mcp-session-id", session)]}
        )
        await send({"type": "http.response.body"})


async def nowhere(_message: Any) -> None:
    pass


async def ask(places: SessionLimit, session: bytes | None, method: str = "POST", *headers: Any) -> None:
    named = [] if session is None else [(b"mcp-session-id", session)]
    await places({"type": "http", "method": method, "headers": [*OPENS, *named, *headers]}, nowhere, nowhere)


async def held(places: SessionLimit, session: bytes | None, method: str) -> "asyncio.Task[None]":
    task = asyncio.create_task(ask(places, session, method, (b"held", b"")))
    await asyncio.sleep(0)
    return task


def test_the_session_that_is_idle_for_longest_makes_room() -> None:
    async def main() -> None:
        app = App()
        places = SessionLimit(app, 3)
        for _ in range(3):
            await ask(places, None)
        await ask(places, b"1")
        await ask(places, None)
        assert app.live == [b"1", b"3", b"4"]
        assert app.deleted == [[(b"mcp-session-id", b"2"), (b"host", b"h")]]

    asyncio.run(main())


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_session_with_an_open_request_is_not_idle(method: str) -> None:
    async def main() -> None:
        app = App()
        places = SessionLimit(app, 2)
        await ask(places, None)
        await ask(places, None)
        first, second = await held(places, b"1", method), await held(places, b"2", method)
        await ask(places, None)
        assert app.live == [b"1", b"2", b"3"]  # whether there is a place is the application's matter
        first.cancel()
        await asyncio.wait({first})
        await ask(places, b"3")
        await ask(places, None)
        assert app.live == [b"2", b"3", b"4"]
        second.cancel()
        await asyncio.wait({second})

    asyncio.run(main())


def test_sessions_that_ended_take_no_place() -> None:
    async def main() -> None:
        app = App()
        places = SessionLimit(app, 3)
        for _ in range(3):
            await ask(places, None)
        await ask(places, b"2", "DELETE")
        app.live.remove(b"3")  # it ended by itself, and its client hears of it
        await ask(places, b"3")
        await ask(places, None)
        await ask(places, None)
        assert (app.live, len(app.deleted)) == ([b"1", b"4", b"5"], 1)

    asyncio.run(main())


def test_those_that_come_at_once_have_room_made_for_each() -> None:
    async def main() -> None:
        app = App()
        places = SessionLimit(app, 3)
        for _ in range(3):
            await ask(places, None)
        waiting = [await held(places, None, "POST") for _ in range(2)]
        assert app.live == [b"3"]
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
        await ask(places, None)
        await ask(places, None)
        assert app.live == [b"3", b"4", b"5"]

    asyncio.run(main())


def test_requests_that_open_no_session_end_none() -> None:
    async def main() -> None:
        app = App()
        places = SessionLimit(app, 1)
        await ask(places, None)
        await ask(places, b"unknown")
        await ask(places, None, "PUT")
        await ask(places, None, "POST", (b"mcp-protocol-version", b"2026-07-28"))
        assert app.deleted == []
        await ask(places, None, "POST", (b"mcp-protocol-version", b"2025-11-25"))
        assert [dict(headers)[b"mcp-session-id"] for headers in app.deleted] == [b"1"]

    asyncio.run(main())
