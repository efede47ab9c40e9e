"""Calls of a worker that belongs to its attacker: no more of them are under way than agreed, and none outlives it."""

import asyncio
import json
import struct

from tests.escape import puppet
from tests.escape.puppet import CALL, DONE, Echo, message, play, saying

from paddock.engines.javascript.task import HostReply, OnReply
from paddock.model.outcome import Status


def test_a_worker_that_reads_no_answer_gets_no_further_ones(monkeypatch):
    monkeypatch.setattr(puppet, "FRAME_BYTES", 2_000_000)  # such an answer is one that it may get

    class Generous(Echo):
        async def call(
            self,
            server: str,
            tool: str,
            arguments: dict[str, object],
            on_reply: OnReply,
            *,
            raw: bool,
            **_: object,
        ) -> None:
            def larger(_: HostReply) -> None:
                on_reply(HostReply(Status.OK, value="x" * 1_000_000))

            await super().call(server, tool, arguments, larger, raw=raw)

    host = Generous()
    calls = b"".join(message("call", number, "s", "t", {}, False) for number in range(1, 101))
    result, _ = asyncio.run(play(saying(calls), host, timeout_ms=3_000, parallel_calls=4))
    assert (result.status, len(host.calls)) == ("timeout", 4)


def test_an_answer_larger_than_a_message_is_refused_and_the_worker_gets_an_error():
    class Generous(Echo):
        async def call(
            self,
            server: str,
            tool: str,
            arguments: dict[str, object],
            on_reply: OnReply,
            *,
            raw: bool,
            **_: object,
        ) -> None:
            await super().call(
                server, tool, arguments, lambda _: on_reply(HostReply(Status.OK, value="x" * 70_000)), raw=raw
            )

    seen: list[object] = []

    async def script(reader, writer):
        writer.write(message("call", 1, "s", "t", {}, False))
        data = b""
        while b'"reply"' not in data:
            data += await reader.read(65536)
        seen.append(json.loads(data[data.index(b'["reply"') :]))
        writer.write(DONE)

    result, _ = asyncio.run(play(script, Generous()))
    assert (result.status, [call.status for call in result.calls]) == ("ok", ["output_limit"])
    error = {
        "name": "ToolError",
        "message": "Server s: the answer of t takes 70023 bytes, and a program can receive at most 65536. Ask for "
        "less at once, "
        "or raise `limits.execute.frame_bytes`.",
        "server": "s",
        "tool": "t",
        "retryable": False,
    }
    assert seen == [["reply", 1, False, error]]


def test_calls_beyond_the_limit_of_parallel_ones_wait_and_end_with_the_program():
    host = Echo()
    calls = [
        message("call", number, "s", f"hang{'' if number < 3 else number}", {}, False)
        for number in range(1, 6)
    ]
    result, _ = asyncio.run(play(saying(*calls, DONE), host, parallel_calls=2))
    assert (result.status, host.calls, result.in_flight) == ("ok", [("s", "hang")] * 2, 5)


def test_calls_beyond_the_limit_of_parallel_ones_have_their_turn_in_order():
    host = Echo()
    calls = b"".join(message("call", number, "s", f"t{number}", {}, False) for number in range(1, 8))

    async def script(reader, writer):
        writer.write(calls)
        seen = b""
        while seen.count(b'"reply"') < 7:
            seen += await reader.read(65536)
        writer.write(DONE)

    result, _ = asyncio.run(play(script, host, parallel_calls=2))
    expected = [("s", f"t{number}") for number in range(1, 8)]
    assert (host.calls, [(call.server, call.tool) for call in result.calls]) == (expected, expected)
    assert (result.status, result.in_flight) == ("ok", 0)


def test_a_program_whose_time_is_up_is_told_all_that_it_waited_for():
    calls = [message("call", number, "s", "hang", {}, False) for number in range(1, 4)]
    result, _ = asyncio.run(play(saying(*calls), timeout_ms=2_000, parallel_calls=1))
    assert result.error is not None
    hint = "it was waiting for s.hang, s.hang, s.hang; the limit is 2000 ms"
    assert (result.status, result.in_flight, result.error.hint) == ("timeout", 3, hint)


def test_calls_with_the_same_number_are_each_answered():
    async def script(reader, writer):
        writer.write(message(*CALL) * 3)
        answers = [await answer(reader) for _ in range(3)]
        writer.write(message("done", {"open": [], "value": answers}))

    async def answer(reader):
        length = struct.unpack("<I", await reader.readexactly(4))[0]
        data = await reader.readexactly(length)
        return json.loads(data) if data[:1] == b"[" else await answer(reader)

    result, _ = asyncio.run(play(script))
    assert result.value == [["reply", 1, True, {}]] * 3


def test_arguments_in_flight_are_bounded():
    host = Echo()
    big = message("call", 1, "s", "hang", {"a": "x" * 60_000}, False)

    async def script(reader, writer):
        writer.write(big * 10)
        await reader.read(1)  # the program itself
        seen = b""
        while seen.count(b"LimitError") < 6:
            seen += await reader.read(65536)
        writer.write(DONE)

    result, _ = asyncio.run(play(script, host))
    assert (result.status, len(host.calls), result.in_flight) == ("ok", 4, 4)
