"""The lines of a server: each is offered once, long ones are counted as they come, and none that swells is kept."""

import asyncio
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from paddock.engines.servers.calls.stdio_rpc import StdioRpc
from paddock.engines.servers.output import ServerOutput

FIRST = 1 << 30


class Offered:
    """Stands in for the lane: takes the lines of even length."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def take_answer(self, line: bytes) -> bool:
        self.lines.append(line)
        return len(line) % 2 == 0

    async def take_large(self, line: bytes) -> bool:
        return self.take(line)

    def fail_dropped(self, start: bytes, end: bytes, why: str) -> bool:
        self.lines.append(b"%b...%b: %b" % (start[:8], end[-7:], why.encode()))
        return True


class Pipe(asyncio.ReadTransport):
    """Knows whether it is read."""

    reading = True

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Input:
    """Stands in for the stream to a server."""

    def __init__(self) -> None:
        self.transport = self

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        """Follow `StreamWriter.write`."""

    async def drain(self) -> None:
        """Follow `StreamWriter.drain`."""

    def is_closing(self) -> bool:
        return False


def made(lane: object, max_values: int = 100) -> tuple[ServerOutput, Pipe]:
    output, pipe = ServerOutput(), Pipe()
    output.rpc, output.max_values = lane, max_values  # pyright: ignore[reportAttributeAccessIssue]
    output.connection_made(pipe)
    return output, pipe


async def rest(output: ServerOutput) -> list[bytes]:
    return [line async for line in lines(output)]


async def lines(output: ServerOutput) -> Any:
    while (line := await output.next_line()) is not None:
        yield line


@given(
    written=st.lists(st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"\r")), max_size=8),
    begun=st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_however_it_is_cut_each_line_is_offered_once_and_what_no_request_takes_is_left(
    written: list[bytes], begun: bytes, cuts: list[int]
) -> None:
    async def use() -> None:
        offered = Offered()
        output, _ = made(offered)
        data = b"".join(line + b"\n" for line in written) + begun
        places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        for start, end in itertools.pairwise(places):
            output.data_received(data[start:end])
        output.connection_lost(None)
        assert offered.lines == written
        assert await rest(output) == [line for line in written if len(line) % 2]
        assert output.fault == ""

    asyncio.run(use())


def test_a_line_beyond_all_bounds_ends_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.engines.servers.output.MAX_LINE_BYTES", 100_000)

    async def use() -> None:
        output, pipe = made(Offered())
        output.data_received(b"odd\n" + b"x" * 100_001)
        assert await rest(output) == [b"odd"]
        assert (output.fault, pipe.reading) == ("a message is longer than 100000 bytes", False)

    asyncio.run(use())


@pytest.mark.parametrize("size", [1000, 65_536, 10_000_000])
@pytest.mark.parametrize(
    ("values", "why"),
    [
        (
            b"[]," * 400_000,
            "it has more than 100 values; ask for less at once, or raise `servers.answer_values`",
        ),
        (b"[" * 400_000, "it is nested more than 500 deep"),
    ],
)
def test_a_line_that_swells_is_dropped_as_it_comes_and_the_next_one_is_read(
    values: bytes, why: str, size: int
) -> None:
    async def use() -> None:
        offered = Offered()
        output, _ = made(offered)
        data = b'{"id":1,' + values + b'"id":1}\n{"id":22}\n'
        for start in range(0, len(data), size):
            output.data_received(data[start : start + size])
            assert output.begun_bytes <= max(size, 65_536)
        assert offered.lines == [b'{"id":1,..."id":1}: ' + why.encode(), b'{"id":22}']

    asyncio.run(use())


@pytest.mark.parametrize(("start", "end"), [(b'{"jsonrpc":"2.0","id":%d,', b"]}"), (b"{", b'],"id":%d}')])
def test_a_dropped_answer_fails_its_own_request_and_no_other(start: bytes, end: bytes) -> None:
    async def use() -> None:
        lane = StdioRpc(Input())  # pyright: ignore[reportArgumentType]
        output, _ = made(lane, max_values=20_000)
        asked = [asyncio.create_task(lane.send_request("tools/call", {}, tell=False)) for _ in range(2)]
        await asyncio.sleep(0)
        number = b"%d" % FIRST
        output.data_received(
            start.replace(b"%d", number)
            + b'"result":['
            + b"1," * 20_001
            + b"1"
            + end.replace(b"%d", number)
            + b"\n"
        )
        output.data_received(json.dumps({"id": FIRST + 1, "result": [1] * 9_000}).encode() + b"\n")
        with pytest.raises(MCPError) as caught:
            await asked[0]
        assert (
            str(caught.value)
            == "it has more than 20000 values; ask for less at once, or raise `servers.answer_values`"
        )
        assert await asked[1] == [1] * 9_000

    asyncio.run(use())


def test_a_dropped_line_that_answers_nothing_ends_the_output() -> None:
    async def use() -> None:
        output, _ = made(StdioRpc(Input()))  # pyright: ignore[reportArgumentType]
        output.data_received(b'{"id":7,"result":[' + b"1," * 20_000 + b"1]}\n")
        assert await output.next_line() is None
        assert output.fault == (
            "a message was not read, because it has more than 100 values; ask for less at once, or raise "
            "`servers.answer_values`"
        )

    asyncio.run(use())


def test_a_large_answer_is_decoded_in_slices_before_what_comes_behind_it() -> None:
    async def use() -> None:
        lane = StdioRpc(Input())  # pyright: ignore[reportArgumentType]
        output, pipe = made(lane, max_values=200_000)
        asked = asyncio.create_task(lane.send_request("tools/call", {}, tell=False))
        await asyncio.sleep(0)
        value = [[] for _ in range(100_000)]
        output.data_received(json.dumps({"id": FIRST, "result": value}).encode() + b"\nbehind\n")
        assert (pipe.reading, asked.done(), output.queued_lines) == (False, False, ())
        assert await output.next_line() == b"behind"
        assert pipe.reading
        assert await asked == value

    asyncio.run(use())


def test_what_the_library_has_not_taken_is_bounded() -> None:
    async def use() -> None:
        output, pipe = made(Offered())
        line = b"x" * 16_383
        given = 0
        while pipe.reading:
            output.data_received(line + b"\n")
            given += 1
        assert given == 1024 * 1024 // len(line) + 1
        for _ in range(given):
            assert await output.next_line() == line
        assert pipe.reading

    asyncio.run(use())
