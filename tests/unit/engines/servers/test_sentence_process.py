"""Paddock's side of the model's process, against a process that a hostile text has taken over."""

import asyncio
import socket
import struct
import subprocess
from array import array

import pytest

from paddock.engines.servers.catalog.sentence_process import SentenceProcess
from paddock.engines.servers.catalog.vectors import DIMENSIONS, VECTOR_BYTES, ToolTexts
from paddock.model.errors import EngineError

TEXTS = ToolTexts("forecast", "sky", "")
ONE = array("f", [1.0] + [0.0] * (DIMENSIONS - 1)).tobytes()
ENDED = "the process of semantic search has ended or did not answer"
NO_VECTOR = "the process of semantic search returned no vector"


def frame(content):
    return struct.pack("<I", len(content)) + content


def answer(ask, *written):
    """Return what `ask` makes of what the process writes, and whether the process was ended."""

    child = subprocess.Popen(["sleep", "3600"])

    async def main():
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        process = SentenceProcess(child, *await asyncio.open_connection(sock=ours))
        with theirs:
            for content in written:
                theirs.sendall(content)
            theirs.shutdown(socket.SHUT_WR)
            try:
                return await ask(process), child.returncode
            except EngineError as error:
                return str(error), child.returncode
            finally:
                await process.close()

    return asyncio.run(main())


def embed(process):
    return process.embed_tool(TEXTS)


def compare(process):
    return process.compare_texts(["rain", "mail"], 2 * ONE)


def test_answers_of_the_expected_form_are_passed_on():
    similar = array("f", [0.5, -0.5, 1.0, 0.0])
    assert answer(embed, frame(ONE)) == (ONE, None)
    assert answer(compare, frame(similar.tobytes())) == ([similar[:2], similar[2:]], None)


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ([], ENDED),
        ([b"\0\0"], ENDED),
        ([frame(ONE)[:-1]], ENDED),
        ([frame(ONE[:-4])], ENDED),
        ([frame(ONE + b"\0")], ENDED),
        ([struct.pack("<I", 0xFFFFFFFF)], ENDED),
        ([frame(b"\0" * VECTOR_BYTES)], NO_VECTOR),
        ([frame(b"\xff" * VECTOR_BYTES)], NO_VECTOR),
        ([frame(2 * ONE)], ENDED),
    ],
)
def test_any_other_answer_ends_the_process(written, error):
    assert answer(embed, *written) == (error, -9)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -2.0, 3e38])
def test_similarities_that_would_spoil_a_ranking_end_the_process(number):
    written = frame(array("f", [0.5, number, 0.5, 0.5]).tobytes())
    assert answer(compare, written) == ("the process of semantic search returned no similarities", -9)


def test_an_answer_in_time_is_required(monkeypatch):
    monkeypatch.setattr("paddock.engines.servers.catalog.sentence_process._ANSWER_TIMEOUT_S", 0)
    assert answer(embed, frame(ONE)) == (ENDED, -9)


def test_a_caller_that_leaves_before_its_turn_leaves_nothing_behind():
    async def ask_twice(process):
        first, second = asyncio.create_task(embed(process)), asyncio.create_task(compare(process))
        await asyncio.sleep(0)
        exchanges = [task for task in asyncio.all_tasks() if "_exchange" in repr(task.get_coro())]
        second.cancel()
        await asyncio.wait({second})
        return await first == ONE, second.cancelled(), len(exchanges)

    assert answer(ask_twice, frame(ONE)) == ((True, True, 1), None)
