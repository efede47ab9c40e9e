"""What crosses Ray: programs keep every byte, and an answer is hostile."""

import asyncio
import json
from typing import Any

import pytest

from paddock import Case, Checker, Outcome, PaddockError, Program, ProgramResult, Status
from paddock.surfaces.client.ray.frames import (
    MAX_SHARE,
    NodeAnswer,
    Terms,
    read_answer,
    read_share,
    write_answer,
    write_program,
    write_share,
)

TERMS = Terms(actor="ada", timeout_ms=1000, memory_bytes=1 << 20)
RESULT = ProgramResult(id="0", outcome=Outcome(id="x", status=Status.OK))
PROGRAMS = [
    Program(
        language="python",
        code="\0 \u2028",
        stdin=b"\xff\0",
        files={"a": b"\xfe"},
        args=("ä",),
        env={"A": "b"},
    ),
    Program(
        id="judged",
        language="python",
        code="",
        tests=(Case(stdin=b"\xff", expect=b""), Case(expect=b"1", name="one", timeout_ms=200)),
        compare="float",
        stop_on_failure=True,
    ),
    Program(language="c", code="", tests=(Case(),), checker=Checker(language="python", code="exit(0)")),
]


def read(data: object, *ids: str) -> NodeAnswer:
    return asyncio.run(read_answer(data, frozenset(ids or ("0",))))


def refusal(data: object) -> str:
    with pytest.raises(PaddockError) as raised:
        read(data)
    return str(raised.value)


def test_programs_arrive_as_they_were_sent() -> None:
    written = [write_program(number, program) for number, program in enumerate(PROGRAMS)]
    batch = read_share(write_share(TERMS, 0.5, written))
    assert (batch.terms, batch.seconds) == (TERMS, 0.5)
    assert batch.programs == tuple(
        program.model_copy(update={"id": str(number)}) for number, program in enumerate(PROGRAMS)
    )


def test_results_arrive_as_they_were_sent() -> None:
    answer = NodeAnswer(results=(RESULT,), seconds=1.5)
    assert read(write_answer(answer)) == answer
    assert read(write_answer(NodeAnswer(refusal="no"))) == NodeAnswer(refusal="no")


def test_a_later_version_may_add_fields() -> None:
    given = json.loads(write_answer(NodeAnswer(results=(RESULT,))))
    given["new"] = given["results"][0]["new"] = 1
    assert read(json.dumps(given).encode()).results == (RESULT,)


@pytest.mark.parametrize(
    "data", [b"", b"\xff", b"nul", b"[]", b"[" * 100_000, b'{"results": 1}', b'{"results": [{"id": "0"}]}']
)
def test_what_is_no_answer_is_refused(data: bytes) -> None:
    assert refusal(data) == "The answer is not JSON, or not that of a batch."


@pytest.mark.parametrize(
    "data", [None, "{}", {"results": []}, bytearray(b"{}"), type("Own", (bytes,), {})(b"{}")]
)
def test_only_bytes_are_read(data: object) -> None:
    assert refusal(data) == "The answer is not a string of bytes."


def test_an_answer_must_fit_its_batch() -> None:
    def answer(*ids: str, **more: Any) -> bytes:
        results = [json.loads(RESULT.model_dump_json()) | {"id": each} for each in ids]
        return json.dumps({"results": results, **more}).encode()

    assert refusal(answer()) == "The answer has neither results nor a refusal."
    assert refusal(answer("0", "0")) == refusal(answer("1")) == "The answer has results of other programs."
    assert refusal(answer(*["0"] * (MAX_SHARE + 1))) == "The answer is not JSON, or not that of a batch."
    assert refusal(answer("0", seconds=-1)) == "The answer is not JSON, or not that of a batch."
    assert [result.id for result in read(answer("1"), "0", "1").results] == ["1"]
