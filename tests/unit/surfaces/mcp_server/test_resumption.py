"""Streams of 2025-11-25 that are resumed: what a client gets, what another one does not, and what is kept."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from mcp_types import JSONRPCNotification, JSONRPCResponse
from tests.support.mcp_application import MODERN, SESSION, Header, Reply, Server, call

from paddock.surfaces.mcp_server.http import resumption
from paddock.surfaces.mcp_server.http.resumption import (
    MAX_BYTES,
    MAX_EVENTS,
    MAX_STREAMS,
    MAX_TOTAL_BYTES,
    CurrentSessionStore,
    SessionEvents,
)

FORGOTTEN = {
    "code": -32600,
    "message": "Last-Event-ID names no event that this session still has. Open a stream without it, and send a lost "
    "request again if it may run twice.",
}


async def lose_call(server: Server, session: list[Header], tool: str = "wait") -> str:
    """Call a tool and lose the connection after the first event; return its id."""
    lost = await server.ask("POST", session, call(7, tool), until=b"retry: ")
    found = re.match(rb"id: (\d+\.\d+)\r\nretry: 1000\r\ndata: \r\n\r\n", lost.body) or re.match(
        rb"id: (\d+\.\d+)\r\ndata: \r\nretry: 1000\r\n\r\n", lost.body
    )
    assert found is not None, lost.body
    return found[1].decode()


def resuming(server: Server, session: list[Header], event: str, **how: Any) -> "asyncio.Task[Reply]":
    """Begin to read the stream of an event."""
    return asyncio.create_task(
        server.ask("GET", [*session, (b"last-event-id", event.encode())], stays=True, **how)
    )


def read_texts(reply: Reply) -> list[str]:
    """Return the texts of the results in a stream."""
    lines = [line.removeprefix("data: ") for line in reply.body.decode().splitlines()]
    messages = [json.loads(line) for line in lines if line.startswith("{")]
    return [message["result"]["content"][0]["text"] for message in messages]


def test_a_lost_connection_does_not_lose_the_answer(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session = await server.session()
            event = await lose_call(server, session)
            reading = resuming(server, session, event)
            await server.entered.wait()
            server.go.set()
            reply = await reading  # the stream ends with the answer
            assert (reply.status, read_texts(reply)) == (200, ["went on"])
            later = await resuming(server, session, event)
            assert read_texts(later) == ["went on"]
            last = re.findall(rb"id: (\S+)", later.body)[-1].decode()
            assert (last, read_texts(await resuming(server, session, last))) == (
                event.replace(".0", ".1"),
                [],
            )

    asyncio.run(main())


@pytest.mark.parametrize(
    "event", ["7", "1.0", "1.9", "-1.0", "1.", "0.0", "9" * 400 + ".0", "\xb9.0", "1.0\x00", "..", ""]
)
def test_events_of_another_session_are_not_found(tmp_path: Path, event: str) -> None:
    """Ids are counted for each session: those of the victim's are no ids of the attacker's."""

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            victim, attacker = await server.session(), await server.session()
            for number in range(3):
                assert (await server.ask("POST", victim, call(number, "echo"), stays=True)).status == 200
            headers = [each for each in attacker if each[0] != SESSION]
            answer = await server.ask("GET", [*attacker, (b"last-event-id", event.encode("latin-1"))])
            if event == "1.0":  # the attacker's own first event: that of its handshake
                assert b"content" not in answer.body
            else:
                assert (answer.status, answer.error) == (400, FORGOTTEN)
            stolen = [*headers, (SESSION, b"0" * 32), (b"last-event-id", b"1.0")]
            assert (await server.ask("GET", stolen)).status == 404
            assert (await server.ask("GET", [*MODERN, (b"last-event-id", b"1.0")])).status == 405

    asyncio.run(main())


def test_of_many_readers_of_a_stream_the_last_one_stays(tmp_path: Path) -> None:
    """A storm of reconnecting clients costs one open stream."""

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session = await server.session()
            event = await lose_call(server, session)
            earlier: list[asyncio.Task[Reply]] = []
            for _ in range(100):
                reading = resuming(server, session, event)
                if earlier:
                    assert read_texts(await earlier[-1]) == []
                earlier.append(reading)
                await asyncio.sleep(0)
            server.go.set()
            assert read_texts(await earlier[-1]) == ["went on"]

    asyncio.run(main())


def test_the_end_of_a_session_ends_its_readers_and_forgets_its_events(tmp_path: Path) -> None:
    async def main() -> None:
        async with Server(tmp_path).running() as server:
            session = await server.session()
            reading = resuming(server, session, await lose_call(server, session))
            await server.entered.wait()
            assert (await server.ask("DELETE", session)).status == 200
            assert b"went on" not in (await reading).body
            assert (await server.ask("GET", [*session, (b"last-event-id", b"1.0")])).status == 404

    asyncio.run(main())


def test_events_go_with_their_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[SessionEvents] = []

    class Noted(SessionEvents):
        def __init__(self, *sessions: Any) -> None:
            super().__init__(*sessions)
            made.append(self)

    monkeypatch.setattr(resumption, "SessionEvents", Noted)

    async def main() -> None:
        async with Server(tmp_path).running() as server:
            first, second = await server.session(), await server.session()
            await server.ask("DELETE", first)
            assert [len(each._streams) for each in made] == [0, 1]
            assert (await server.ask("GET", [*second, (b"last-event-id", b"1.0")])).status == 200

    asyncio.run(main())


def test_what_one_session_keeps_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended streams go first, and an answer outlasts the messages of its stream."""
    events = SessionEvents()
    line = JSONRPCNotification(jsonrpc="2.0", method="notifications/message", params={"data": "a" * 1000})
    first = events.add("0", None)
    for _ in range(2 * MAX_EVENTS):
        last = events.add("0", line)
    assert (last, events.find(first) is not None) == (f"1.{2 * MAX_EVENTS}", True)
    [stream] = events._streams.values()
    assert (len(stream.events), stream.events[-1][1].event_id) == (MAX_EVENTS, last)
    assert stream.size == sum(size for _, _, size in stream.events)
    for number in range(2 * MAX_STREAMS):
        events.add(f"r{number}", None)
        events.add(f"r{number}", JSONRPCResponse(jsonrpc="2.0", id=number, result={}))
    assert (len(events._streams), events.find(first) is not None, events.find("2.0")) == (
        MAX_STREAMS,
        True,
        None,
    )
    for number in range(8):
        events.add(
            f"b{number}", JSONRPCResponse(jsonrpc="2.0", id=number, result={"a": "a" * (MAX_BYTES // 4)})
        )
        assert sum(each.size for each in events._streams.values()) <= MAX_BYTES
    assert events.find(first) is not None  # the stream that has not ended
    for number in range(2 * MAX_STREAMS):
        events.add(f"n{number}", None)
    assert (len(events._streams), len(events._open)) == (MAX_STREAMS, MAX_STREAMS)
    monkeypatch.setattr(resumption, "RETENTION_S", -1.0)
    events.add("late", JSONRPCResponse(jsonrpc="2.0", id=1, result={"n": 10**30}))
    assert [each.ended_s for each in events._streams.values()] == [None] * len(events._streams)


def test_all_sessions_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Old answers of other sessions make room. Otherwise the session that adds something gives way."""
    sessions: list[SessionEvents] = []
    quarter = MAX_TOTAL_BYTES // 4

    def answer(number: int) -> JSONRPCResponse:
        return JSONRPCResponse(jsonrpc="2.0", id=number, result={"a": "a" * (quarter - 100)})

    monkeypatch.setattr(resumption, "MAX_BYTES", quarter)
    for _ in range(5):
        sessions.append(SessionEvents(lambda: sessions))
        sessions[-1].add("1", answer(1))
    assert [each.size > 0 for each in sessions] == [True] * 4 + [False]
    monkeypatch.setattr(resumption, "RETENTION_S", -1.0)
    sessions[-1].add("2", None)
    monkeypatch.setattr(resumption, "RETENTION_S", 60.0)
    sessions[-1].add("2", answer(2))
    assert [each.size > 0 for each in sessions] == [False] * 4 + [True]


def test_events_that_came_between_the_old_and_the_new_ones_are_sent_once() -> None:
    events = SessionEvents()
    store, sent = CurrentSessionStore(), list[str]()
    five = asyncio.Event()
    line = JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params={})

    async def send(event: Any) -> None:
        sent.append(event.event_id)
        if len(sent) < 5:
            await store.store_event("7", line)  # while an earlier one is sent
        else:
            five.set()

    async def main() -> None:
        resumption._current.set(events)
        primed = await store.store_event("7", None)
        await store.store_event("7", line)
        reading = asyncio.create_task(store.replay_events_after(primed, send))
        await five.wait()
        await store.store_event("7", JSONRPCResponse(jsonrpc="2.0", id=7, result={}))
        await reading
        assert sent == [f"1.{number}" for number in range(1, 7)]

    asyncio.run(main())
