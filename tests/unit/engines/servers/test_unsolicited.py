"""What a server sends that nobody asked for: counted, granted anew with time, and too much of it ends the connection."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from paddock.engines.servers.calls import unsolicited
from paddock.engines.servers.calls.unsolicited import (
    CountedReader,
    CountedWriter,
    RateAllowance,
    UnsolicitedBudget,
)

FLOOD = "it sent more than 10 messages, or KiB of them, that answer no call, faster than 2 a second; correct the server"


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Ends:
    """Stands in for both streams: what the server sends, and what it has taken."""

    def __init__(self, *sent: object, takes: bool = True) -> None:
        self.sent = [SessionMessage(each) for each in sent]  # pyright: ignore[reportArgumentType]
        self.taken: list[object] = []
        self.takes = asyncio.Event()
        if takes:
            self.takes.set()

    async def receive(self) -> SessionMessage:
        if not self.sent:
            raise anyio.EndOfStream
        return self.sent.pop(0)

    async def send(self, item: SessionMessage) -> None:
        await self.takes.wait()
        self.taken.append(item.message)


def ping(number: int | str) -> JSONRPCRequest:
    return JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")


def pong(number: int | str) -> SessionMessage:
    return SessionMessage(JSONRPCResponse(jsonrpc="2.0", id=number, result={}))


def said(method: str, **params: Any) -> JSONRPCNotification:
    return JSONRPCNotification(jsonrpc="2.0", method=method, params=params)


Use = Callable[[CountedReader, CountedWriter, list[str]], Coroutine[Any, Any, None]]


def between(ends: Callable[[], Ends], use: Use) -> list[str]:
    """Return what was told of the server."""
    told: list[str] = []

    async def main() -> None:
        streams, account = ends(), UnsolicitedBudget(told.append, Clock())
        await use(CountedReader(streams, account, lambda _: None), CountedWriter(streams, account), told)  # pyright: ignore[reportArgumentType]

    asyncio.run(main())
    return told


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unsolicited, "MAX_MESSAGES", 10)
    monkeypatch.setattr(unsolicited, "MESSAGES_PER_SECOND", 2)
    monkeypatch.setattr(unsolicited, "MAX_OPEN_REQUESTS", 3)
    monkeypatch.setattr(unsolicited, "ANSWER_TIMEOUT_S", 0.0)


def test_an_allowance_is_granted_anew_up_to_its_most() -> None:
    clock = Clock()
    allowance = RateAllowance(10, 2, clock)
    assert [allowance.spend_amount(5) for _ in range(3)] == [True, True, False]
    clock.now = 4.0
    assert [allowance.spend_amount(3), allowance.spend_amount(1)] == [True, False]
    clock.now = 1000.0
    assert [allowance.spend_amount(10), allowance.spend_amount(1)] == [True, False]


@pytest.mark.parametrize(
    "message",
    [
        said("notifications/progress", progressToken=1, progress=1),
        said("notifications/message", level="info", data="x"),
        said("notifications/tools/list_changed"),
        JSONRPCResponse(jsonrpc="2.0", id=5, result={}),
    ],
)
def test_a_flood_of_what_answers_no_call_ends_the_connection(message: object) -> None:
    async def use(reader: CountedReader, _: CountedWriter, told: list[str]) -> None:
        async for _item in reader:
            assert told == []

    assert between(lambda: Ends(*[message] * 11), use) == [FLOOD]
    assert between(lambda: Ends(*[message] * 10), use) == []


def test_notifications_that_nobody_hears_go_no_further() -> None:
    async def use(reader: CountedReader, _: CountedWriter, __: list[str]) -> None:
        assert [item.message async for item in reader if isinstance(item, SessionMessage)] == [changed]

    changed = said("notifications/tools/list_changed")
    assert (
        between(lambda: Ends(said("notifications/progress"), changed, said("notifications/message")), use)
        == []
    )


def test_large_messages_count_for_their_size() -> None:
    async def use() -> None:
        assert account.count_unasked(9 * 1024)
        assert not account.count_unasked()

    told: list[str] = []
    account = UnsolicitedBudget(told.append, Clock())
    asyncio.run(use())
    assert told == [FLOOD]


def test_answers_to_our_requests_are_free() -> None:
    async def use(reader: CountedReader, writer: CountedWriter, _: list[str]) -> None:
        for number in range(50):
            await writer.send(SessionMessage(ping(number)))
        assert [item async for item in reader] == [pong(number) for number in range(50)]

    assert between(lambda: Ends(*[pong(number).message for number in range(50)]), use) == []


def test_a_server_that_takes_the_answers_to_its_requests_may_ask_on() -> None:
    async def use(reader: CountedReader, writer: CountedWriter, _: list[str]) -> None:
        async for item in reader:
            assert isinstance(item, SessionMessage)
            await writer.send(pong(item.message.id))  # pyright: ignore[reportAttributeAccessIssue]

    assert between(lambda: Ends(*[ping(number) for number in range(10)]), use) == []


OPEN = "3 of its requests were open, and it read no answer for 0 s; correct the server"


@pytest.mark.parametrize("numbers", [range(4), [1] * 4])
def test_more_requests_than_may_be_open_end_the_connection(numbers: list[int]) -> None:
    async def use(reader: CountedReader, _: CountedWriter, __: list[str]) -> None:
        assert [item async for item in reader] == [SessionMessage(ping(number)) for number in numbers[:3]]

    assert between(lambda: Ends(*map(ping, numbers)), use) == [OPEN]


def test_answers_that_the_server_does_not_take_count_as_open() -> None:
    async def use(reader: CountedReader, writer: CountedWriter, _: list[str]) -> None:
        answers = []
        async for item in reader:
            assert isinstance(item, SessionMessage)
            answers.append(asyncio.create_task(writer.send(pong(item.message.id))))  # pyright: ignore[reportAttributeAccessIssue]
            await asyncio.sleep(0)
        assert len(answers) == 3
        for answer in answers:
            answer.cancel()

    assert between(lambda: Ends(*map(ping, range(9)), takes=False), use) == [OPEN]


def test_a_request_that_the_server_withdraws_is_no_longer_open() -> None:
    async def use(reader: CountedReader, _: CountedWriter, told: list[str]) -> None:
        assert len([item async for item in reader]) == 8

    withdrawn = [
        each
        for number in range(4)
        for each in (ping(number), said("notifications/cancelled", requestId=number))
    ]
    assert between(lambda: Ends(*withdrawn), use) == []
