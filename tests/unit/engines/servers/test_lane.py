"""Requests past the library: numbers, answers good and bad, and what is left when nobody waits any more."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ErrorData, JSONRPCError, JSONRPCResponse

from paddock.engines.servers.calls.call_errors import TRACE, Trace
from paddock.engines.servers.calls.stdio import parse_message
from paddock.engines.servers.calls.stdio_rpc import StdioRpc, render_line

FIRST = 1 << 30


class Pipe:
    """Stands in for the stream to a server; keeps what was written."""

    def __init__(self, *, broken: bool = False) -> None:
        self.lines: list[dict[str, Any]] = []
        self.broken = broken
        self.closing = False
        self.transport = self
        self.unread = 0
        """Bytes that the server has not read."""

    def write(self, data: bytes) -> None:
        assert data.endswith(b"\n")
        self.lines.append(json.loads(data))

    async def drain(self) -> None:
        if self.broken:
            raise BrokenPipeError

    def get_write_buffer_size(self) -> int:
        return self.unread

    def is_closing(self) -> bool:
        return self.closing


def on_lane(use: Callable[[StdioRpc, Pipe], Coroutine[Any, Any, None]], pipe: Pipe | None = None) -> None:
    there = pipe or Pipe()
    asyncio.run(use(StdioRpc(there), there))  # pyright: ignore[reportArgumentType]


async def asked(lane: StdioRpc, *, tell: bool = True) -> asyncio.Task[object]:
    """Return a request that was sent."""
    task = asyncio.create_task(lane.send_request("tools/call", {"name": "t"}, tell=tell))
    await asyncio.sleep(0)
    return task


def line(**fields: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **fields}).encode()


def test_answers_come_in_any_order() -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        first, second = await asked(lane), await asked(lane)
        assert lane.take_answer(line(id=FIRST + 1, result={"b": 2**70}))
        assert lane.take_answer(line(id=FIRST, result={"a": 1}))
        assert (await first, await second) == ({"a": 1}, {"b": 2**70})
        assert pipe.lines == [
            {"jsonrpc": "2.0", "id": FIRST + n, "method": "tools/call", "params": {"name": "t"}}
            for n in (0, 1)
        ]
        assert not lane.take_answer(line(id=FIRST, result={"a": 1}))  # nobody waits for it any more

    on_lane(use)


@pytest.mark.parametrize(
    "other",
    [
        line(id=1, result={}),
        line(id=f"request {FIRST}", result={}),
        line(id=True, result={}),
        line(id=[FIRST], result={}),
        line(id=None, error={"code": 1, "message": "m"}),
        b'{"id": %d, "level": "info"}' % FIRST,
        line(id=FIRST, method="sampling/createMessage", params={}),
        line(method="notifications/progress", params={}),
        b"Starting server ...",
        b"[1]",
        b"",
        b"[" * 100_000,
    ],
)
def test_what_is_no_answer_of_ours_is_left(other: bytes) -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        assert not lane.take_answer(other)
        assert lane.take_answer(line(id=FIRST, result=None))
        assert await request is None

    on_lane(use)


def test_an_answer_with_nothing_in_it_is_an_error_and_no_wait() -> None:
    """As a handler in JavaScript gives it that returns undefined."""
    text = "the answer has neither a result nor an error"

    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        assert lane.take_answer(line(id=FIRST))
        with pytest.raises(MCPError) as raised:
            await request
        assert (raised.value.error.code, raised.value.error.message) == (-32603, text)

    on_lane(use)
    message = parse_message(line(id=FIRST))
    assert message is not None
    assert message.message == JSONRPCError(
        jsonrpc="2.0", id=FIRST, error=ErrorData(code=-32603, message=text)
    )


def test_a_number_may_come_back_as_a_text() -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        assert lane.take_answer(line(id=str(FIRST), result={"a": 1}))
        assert await request == {"a": 1}

    on_lane(use)


@pytest.mark.parametrize(
    ("written", "read"),
    [(b"caf\xe9", "caf\ufffd"), (b"a\tb\x1d\x00c", "a\tb\x1d\0c"), (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd")],
)
def test_a_text_that_is_not_quite_json_is_still_the_answer(written: bytes, read: str) -> None:
    answer = b'{"jsonrpc":"2.0","id":%d,"result":{"text":"' % FIRST + written + b'"}}'

    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        assert lane.take_answer(answer)
        assert await request == {"text": read}

    on_lane(use)
    message = parse_message(answer)
    assert message is not None
    assert message.message == JSONRPCResponse(jsonrpc="2.0", id=FIRST, result={"text": read})


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ({"code": -32602, "message": "bad", "data": {"a": 1}}, -32602, "bad"),
        ({"message": "no code"}, -32603, "no code"),
        ("a text", -32603, '"a text"'),
        ({"code": "x"}, -32603, '{"code": "x"}'),
        (None, -32603, "null"),
    ],
)
def test_an_error_is_raised_as_the_library_does(error: object, code: int, message: str) -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        assert lane.take_answer(line(id=FIRST, error=error))
        with pytest.raises(MCPError) as raised:
            await request
        assert (raised.value.error.code, raised.value.error.message) == (code, message)

    on_lane(use)


@pytest.mark.parametrize("depth", [501, 800])
@pytest.mark.parametrize("member", ["result", "error"])
def test_an_answer_nested_deeper_than_it_could_be_written_again_is_an_error(depth: int, member: str) -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        answer = b'{"jsonrpc":"2.0","id":%d,"%s":%s}' % (FIRST, member.encode(), nested)
        told = parse_message(answer)
        assert told is not None
        assert isinstance(told.message, JSONRPCError)
        assert told.message.error.message == "the answer is nested more than 500 deep"
        assert lane.take_answer(answer)
        with pytest.raises(MCPError, match="the answer is nested more than 500 deep"):
            await request

    on_lane(use)


@pytest.mark.parametrize(
    "form",
    [
        b'{"jsonrpc":"2.0","id":%(id)d,"result":%(deep)b}',
        b' {"id": "%(id)d", "result": %(deep)b, "jsonrpc": "2.0"}',
        b'{"result":%(deep)b,"jsonrpc":"2.0","id":%(id)d}\n',
        b'{"jsonrpc": "2.0", "result": {"id": 1, "a": %(deep)b}, "id": %(id)d}',
    ],
)
def test_an_answer_too_deep_for_any_reader_is_an_error_too(form: bytes) -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        nested = b"[" * 200_000 + b"]" * 200_000
        assert lane.take_answer(form % {b"id": FIRST, b"deep": nested})
        with pytest.raises(MCPError, match="the answer is nested more than 500 deep"):
            await request
        assert not lane.take_answer(b'{"id":%d,"x":%b' % (FIRST + 1, nested))
        assert parse_message(b'{"x":%b}' % nested) is None

    on_lane(use)


def test_an_answer_may_be_nested_deeper_than_quick_readers_take() -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        deep: object = 1
        for _each in range(499):
            deep = [deep]
        assert lane.take_answer(line(id=FIRST, result=deep))
        assert await request == deep

    on_lane(use)


@pytest.mark.parametrize("tell", [True, False])
def test_a_server_hears_that_nobody_waits(*, tell: bool) -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        request = await asked(lane, tell=tell)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        gone = {"requestId": FIRST, "reason": "caller cancelled"}
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": gone}
        assert pipe.lines[1:] == ([told] if tell else [])
        assert not lane.take_answer(line(id=FIRST, result={}))

    on_lane(use)


def test_the_end_ends_every_wait_and_refuses_more() -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        request = await asked(lane)
        lane.end_waits()
        for ended in (request, asyncio.create_task(lane.send_request("ping", {}, tell=True))):
            with pytest.raises(MCPError, match="Connection closed"):
                await ended
        assert len(pipe.lines) == 1

    on_lane(use)


def test_a_pipe_that_breaks_is_a_closed_connection_that_may_have_sent() -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        trace = Trace()
        TRACE.set(trace)
        with pytest.raises(MCPError, match="Connection closed"):
            await lane.send_request("ping", {}, tell=True)
        assert trace.sent

    on_lane(use, Pipe(broken=True))


def test_a_lone_surrogate_goes_as_an_escape() -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        request = asyncio.create_task(lane.send_request("m", {"a": "\ud800"}, tell=True))
        await asyncio.sleep(0)
        assert pipe.lines[0]["params"] == {"a": "\ud800"}
        lane.end_waits()
        await asyncio.gather(request, return_exceptions=True)

    on_lane(use)


@pytest.mark.parametrize("digits", [b"1" * 4001, b"0." + b"1" * 1_000_000, b"-" + b"1" * 1_000_000])
@pytest.mark.parametrize("form", [b'{"jsonrpc":"2.0","id":%d,"result":{"a":%b}}', b'{"result":[%b],"id":%d}'])
def test_a_number_that_no_side_reads_is_an_error_and_no_wait(digits: bytes, form: bytes) -> None:
    async def use(lane: StdioRpc, _: Pipe) -> None:
        request = await asked(lane)
        answer = form % ((FIRST, digits) if form.startswith(b'{"jsonrpc"') else (digits, FIRST))
        told = f"the answer contains a number has {len(digits)} characters; at most 4000 are allowed"
        read = parse_message(answer)
        assert read is not None
        assert isinstance(read.message, JSONRPCError)
        assert read.message.error.message == told
        assert lane.take_answer(answer)
        with pytest.raises(MCPError) as raised:
            await request
        assert raised.value.error.message == told

    on_lane(use)


def test_numbers_keep_their_digits_in_both_directions() -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        request = await asked(lane)
        digits = '{"a":0.1000000000000000055511151231257827,"b":[123456789012345678901234567890,1e400]}'
        assert lane.take_answer(f'{{"jsonrpc":"2.0","id":{FIRST},"result":{digits}}}\n'.encode())
        value = await request
        message = parse_message(f'{{"jsonrpc":"2.0","id":7,"result":{digits}}}\n'.encode())
        assert message is not None
        assert isinstance(message.message, JSONRPCResponse)
        for each in (value, message.message.result):
            assert render_line({"x": each}) == f'{{"x":{digits}}}\n'.encode()

    on_lane(use)


def test_a_request_to_a_server_that_went_before_it_read_is_not_sent() -> None:
    async def use(lane: StdioRpc, pipe: Pipe) -> None:
        pipe.unread, trace = 1, Trace()
        token = TRACE.set(trace)
        with pytest.raises(MCPError) as closed:
            await lane.send_request("tools/call", {}, tell=True)
        TRACE.reset(token)
        assert (closed.value.message, trace.sent, pipe.lines) == ("Connection closed", False, [])

    on_lane(use, Pipe(broken=True))
