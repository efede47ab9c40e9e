"""A worker that belongs to its attacker: whatever it says, the parent ends it, blames it, and holds no more than agreed."""

import asyncio
import os
import socket
import struct
from pathlib import Path

import pytest
from tests.escape.puppet import (
    CALL,
    DONE,
    FRAME_BYTES,
    Echo,
    NoIntake,
    OneWorker,
    Puppet,
    frame,
    message,
    play,
    saying,
)

from paddock.engines.javascript import frames
from paddock.engines.javascript.engine import GuestEngine
from paddock.engines.javascript.task import GuestTask
from paddock.model.limits import Grants, GuestLimits
from paddock.model.request import GuestRun

GARBAGE = {
    "an oversized frame": (struct.pack("<I", FRAME_BYTES + 1), f"a message of {FRAME_BYTES + 1} bytes where at most {FRAME_BYTES} are allowed"),
    "the largest length": (b"\xff\xff\xff\xff", f"a message of 4294967295 bytes where at most {FRAME_BYTES} are allowed"),
    "an empty frame": (frame(b""), "a message that is not JSON (JSONDecodeError)"),
    "no JSON": (frame(b"hello"), "a message that is not JSON (JSONDecodeError)"),
    "no UTF-8": (frame(b'["console","log","\xff\xfe"]'), "a message that is not JSON (UnicodeDecodeError)"),
    "NaN": (frame(b'["done",{"open":[],"value":NaN}]'), "a message that is not JSON (ValueError)"),
    "Infinity": (frame(b'["done",{"open":[],"value":-Infinity}]'), "a message that is not JSON (ValueError)"),
    "a number beyond all": (frame(b'["done",{"open":[],"value":1e999}]'), "a message that is not JSON (ValueError)"),
    "an integer beyond all": (frame(b'["done",{"open":[],"value":' + b"9" * 5000 + b"}]"), "a message that is not JSON (ValueError)"),
    "two in one": (frame(b'["stuck",{}]["stuck",{}]'), "a message with data after its end"),
    "no list": (frame(b'{"done":1}'), "a message that is not a list"),
    "an empty list": (frame(b"[]"), "a message that is not a list"),
    "no name": (message(None), "a message 'None' with wrong contents"),
    "an unknown name": (message("exec", "rm"), "a message 'exec' with wrong contents"),
    "a name that is an object": (message({"a": 1}, 2), "a message \"{'a': 1}\" with wrong contents"),
    "a second greeting": (message("ready"), "a second ready message"),
    "an unknown level": (message("console", "fatal", "x"), "a message 'console' with wrong contents"),
    "a line that is no text": (message("console", "log", 5), "a message 'console' with wrong contents"),
    "a call without a number": (message("call", "1", "s", "t", {}, False), "a message 'call' with wrong contents"),
    "a call with a boolean number": (message("call", True, "s", "t", {}, False), "a message 'call' with wrong contents"),
    "a call with arguments in a list": (message("call", 1, "s", "t", [], False), "a message 'call' with wrong contents"),
    "a call with a name too long": (message("call", 1, "s" * 257, "t", {}, False), "a message 'call' with wrong contents"),
    "a call without raw": (message("call", 1, "s", "t", {}), "a message 'call' with wrong contents"),
    "an end without calls": (message("done", {"value": 1}), "a message 'done' with wrong contents"),
    "an end with strange calls": (message("done", {"open": [1]}), "a message 'done' with wrong contents"),
    "an end with calls that are none": (message("done", {"open": 5}), "a message 'done' with wrong contents"),
    "a failure without a stack": (message("failed", {"name": "", "message": "", "thrown": "", "error": True}), "a message 'failed' with wrong contents"),
    "a failure with a strange name": (message("failed", {"name": 5, "message": "", "thrown": "", "stack": "", "causes": [], "error": True}), "a message 'failed' with wrong contents"),
    "a failure with a cause that is no text": (message("failed", {"name": "", "message": "", "thrown": "", "stack": "", "causes": [5], "error": True}), "a message 'failed' with wrong contents"),
    "a failure whose causes are a text": (message("failed", {"name": "", "message": "", "thrown": "", "stack": "", "causes": "c", "error": True}), "a message 'failed' with wrong contents"),
    "a rejection without a reason": (message("unhandled", {}), "a message 'unhandled' with wrong contents"),
    "a rejection that is a text": (message("unhandled", "x"), "a message 'unhandled' with wrong contents"),
    "a place that is no text": (message("done", {"open": ["a.b"], "site": 5}), "a message 'done' with wrong contents"),
    "what a computation says": (message("emit", "x"), "a message that only computations may send"),
    "the end of a turn": (message("idle"), "a message that only a worker of a session may send"),
    "a wait": (message("waits", None), "a message that only a worker without a clock may send"),
    "an overflow": (message("overflow"), "a message that only computations may send"),
    "a break without a text": (message("broken", None), "a message 'broken' with wrong contents"),
    "a piece that nobody keeps": (message("piece", "x"), "a result larger than may be kept"),
    "an empty piece": (message("piece", ""), "a message 'piece' with wrong contents"),
    "a piece that is a number": (message("piece", 5), "a message 'piece' with wrong contents"),
    "a size that is a text": (message("oversized", {"characters": "5", "kept": True}), "a message 'oversized' with wrong contents"),
    "a size without more": (message("oversized", {"characters": 5}), "a message 'oversized' with wrong contents"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "what"), GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_ends_the_worker(data, what):
    result, worker = asyncio.run(play(saying(message("console", "log", "kept"), data, DONE)))
    assert (result.status, result.error.name, result.error.message, worker.killed) == (
        "lost",
        "WorkerLost",
        f"the worker broke the protocol: {what}",
        True,
    )
    assert [line.text for line in result.console] == ["kept"]


def test_deep_json_is_a_program_s_own_fault():
    result, worker = asyncio.run(
        play(saying(frame(b'["done",{"open":[],"value":' + b"[" * 30_000 + b"]" * 30_000 + b"}]")))
    )
    assert (result.status, result.error.message, worker.killed) == (
        "failed",
        "The program returned or passed a value nested more than 200 levels deep",
        True,
    )


def test_part_of_a_frame_and_then_silence():
    result, worker = asyncio.run(play(saying(DONE[:-3]), timeout_ms=100))
    assert (result.status, result.error.message, worker.killed) == ("timeout", "Execution timeout", True)


@pytest.mark.parametrize("data", [b"", DONE[:2], DONE[:-1]])
def test_the_end_of_the_worker_in_the_middle(data):
    result, _ = asyncio.run(play(saying(data, end=True)))
    assert (result.status, result.error.message) == ("lost", "the engine crashed (signal 9)")


def test_nothing_counts_after_the_end():
    host = Echo()
    after = [message("console", "log", "late"), message(*CALL), message("ready"), DONE, b"\xff" * 100]
    result, _ = asyncio.run(play(saying(DONE + b"".join(after)), host))
    assert (result.status, result.value, result.console, result.calls, host.calls) == ("ok", 7, (), (), [])


def test_endless_lines():
    async def flood(reader, writer):
        while True:
            writer.write(message("console", "log", "") * 1000)
            await writer.drain()

    result, worker = asyncio.run(play(flood, timeout_ms=60_000))
    assert (result.status, result.error.message, worker.killed) == (
        "lost",
        "the worker broke the protocol: too many messages",
        True,
    )
    assert len(result.console) <= 110_000


@pytest.mark.parametrize("line", [message("cut"), message("console", "log", "x" * 60_000)])
def test_endless_output(line):
    async def flood(reader, writer):
        while True:
            writer.write(line)
            await writer.drain()

    result, worker = asyncio.run(play(flood, timeout_ms=60_000, output_bytes=100_000))
    assert (result.status, worker.killed) == ("lost", True)
    assert sum(len(line.text) for line in result.console) <= 100_000 + len("[output truncated]")


class Shelf:
    """Counts what it is given of a result."""

    limit = 1_000_000

    def __init__(self):
        self.taken = 0

    def take(self, text):
        self.taken += len(text)


def test_endless_pieces_of_a_result():
    shelf = Shelf()

    async def flood(reader, writer):
        while True:
            writer.write(message("piece", "x" * 60_000))
            await writer.drain()

    result, worker = asyncio.run(play(flood, sink=shelf, timeout_ms=60_000))
    assert (result.status, result.error.message, worker.killed) == (
        "lost",
        "the worker broke the protocol: a result larger than may be kept",
        True,
    )
    assert shelf.taken == 960_000


def test_a_result_in_many_pieces_is_no_flood():
    shelf = Shelf()
    end = message("oversized", {"characters": 10_485_761, "kept": True})
    result, _ = asyncio.run(play(saying(message("piece", "x") * 150_000, end), sink=shelf, timeout_ms=60_000))
    told = "The result has 10485761 characters as JSON, and limits.execute.result_bytes is 10485760"
    assert (result.status, result.error.message, shelf.taken) == ("output_limit", told, 150_000)


def test_endless_calls():
    host = Echo()

    async def flood(reader, writer):
        number = 0
        while True:
            number += 1
            writer.write(message("call", number, "s", "t", {}, False))
            await writer.drain()

    result, worker = asyncio.run(play(flood, host, timeout_ms=60_000, host_calls=50))
    assert (result.status, result.error.message, worker.killed) == (
        "lost",
        "the worker broke the protocol: calls beyond their limit",
        True,
    )
    assert len(host.calls) <= 50


def test_a_fault_of_the_host_ends_the_program_at_once():
    with pytest.raises(Exception, match=r"what serves the program failed outside of it \(KeyError\)"):
        asyncio.run(play(saying(message("call", 1, "s", "broken", {}, False))))


def test_texts_of_any_length_are_cut():
    body = {
        "name": "n" * 5000,
        "message": "m" * 50_000,
        "thrown": "",
        "stack": "paddock:program:9999999:9999999",
        "causes": ["c" * 1200] * 6,
        "error": True,
    }
    result, _ = asyncio.run(play(saying(message("failed", body))))
    assert (result.status, len(result.error.name), len(result.error.message)) == ("failed", 259, 50_000)
    assert (result.error.line, result.error.column) == (1, 2)
    assert len(result.error.hint) == len("caused by ") + 5 * 1003 + 4 * len("; ")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        "paddock:program:0: ",
        "paddock:program:9999999: x: y\n\n^",
        "paddock:program:1:" + "\0" * 99,
    ],
)
def test_a_break_with_any_text(text):
    result, _ = asyncio.run(play(saying(message("broken", text))))
    assert result.status == "failed"
    assert result.error.name in {"SyntaxError", "x"}


def test_a_worker_that_was_gone_before_it_was_asked():
    async def scenario():
        ours, theirs = socket.socketpair()
        errors, their_errors = os.pipe()
        os.close(their_errors)
        ours.setblocking(False)
        worker = Puppet(errors)
        await asyncio.get_running_loop().create_connection(lambda: worker, sock=ours)
        worker.ready.set_result(None)
        theirs.close()
        while worker.is_alive():  # noqa: ASYNC110 - the loop reads the end of the stream in a step of its own
            await asyncio.sleep(0)
        job = GuestTask(GuestRun(source="1"), GuestLimits(timeout_ms=60_000), Grants(), Path("/"))
        return await GuestEngine(OneWorker(worker), NoIntake(), 1).run(job, Echo())

    result = asyncio.run(scenario())
    assert (result.status, result.error.name) == ("lost", "WorkerLost")


def test_frames_has_a_limit_for_depth():
    assert frames.MAX_DEPTH == 200


COMPUTATION = GuestRun(source="1", profile="compute")
NO_COMPUTATION = {
    "a call": (message(*CALL), "a message that no computation may send"),
    "a line": (message("console", "log", "x"), "a message that no computation may send"),
    "a second greeting": (message("ready"), "a message that no computation may send"),
    "a rejection": (message("unhandled", {"name": "", "message": "", "thrown": "", "stack": "", "causes": [], "error": True}), "a message that no computation may send"),
    "a piece of a result": (message("piece", "x"), "a message that no computation may send"),
    "a result over its limit": (message("oversized", {"characters": 1, "kept": True}), "a message that no computation may send"),
    "an end without a text": (message("done", {"open": []}), "a message that no computation may send"),
    "an end with a number": (DONE, "a message that no computation may send"),
    "nothing": (message("emit", ""), "a message 'emit' with wrong contents"),
    "a number": (message("emit", 5), "a message 'emit' with wrong contents"),
    "half of a character": (message("emit", "\ud800"), "half of a character"),
    "more than allowed": (message("emit", "x" * 17), "more output than allowed"),
    "more than allowed at the end": (
        message("done", {"open": [], "value": "é" * 9}),
        "more output than allowed",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("data", "what"), NO_COMPUTATION.values(), ids=NO_COMPUTATION.keys())
def test_a_computation_s_worker_says_nothing_else(data, what):
    host = Echo()
    end = message("done", {"open": [], "value": ""})
    script = saying(message("emit", "a"), data, end)
    result, worker = asyncio.run(play(script, host, COMPUTATION, output_bytes=17))
    assert (result.status, result.error.message, worker.killed) == (
        "lost",
        f"the worker broke the protocol: {what}",
        True,
    )
    assert (result.has_value, result.usage.emitted_bytes, host.calls) == (False, 1, [])


def test_a_computation_s_worker_that_says_too_much_after_the_end():
    end = message("done", {"open": [], "value": "b"})
    script = saying(message("emit", "a") + end + message("emit", "c") + message(*CALL) + b"\xff" * 9)
    result, _ = asyncio.run(play(script, work=COMPUTATION))
    assert (result.status, result.value) == ("ok", "ab")
