"""Answer `/test_program` and `/test_program_stdio`, which open-instruct's verifier of code sends.

    /test_program         each test is statements that run after the program, in a separate process
    /test_program_stdio   each test is standard input and the expected output; the first failure ends the tests

The expected output never reaches the program. The statements of a test run in its process, as this contract has it. A
program that just ends before its test does not pass it, because the end of the test is reported by a random word. One
that searches its own process finds the word, and the test.

Source: allenai/open-instruct, `open_instruct/code/api.py`, and LiveCodeBench's comparison of output.
"""

import asyncio
import json
import math
import secrets
from collections.abc import Awaitable, Callable, Iterator
from decimal import Decimal, InvalidOperation
from itertools import zip_longest
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from paddock.foundation.large_json import JsonLimitError, read_json
from paddock.model.limits import KIB, LimitOverrides
from paddock.model.nesting import MAX_DEPTH
from paddock.model.outcome import Outcome, Status
from paddock.surfaces.http_api.sandboxfusion.errors import Refused, explain_validation, reject_value
from paddock.surfaces.http_api.sandboxfusion.models import (
    AssertTests,
    StdioTest,
    StdioTests,
    TestProgramRequest,
    TestProgramResponse,
)
from paddock.surfaces.http_api.sandboxfusion.programs import OUTPUT_BYTES, make_pure_program, to_milliseconds
from paddock.surfaces.http_api.sandboxfusion.responses import explain, raise_refusal
from paddock.surfaces.http_api.sandboxfusion.running import PureRunner

_ASSERT_TESTS: TypeAdapter[AssertTests] = TypeAdapter(AssertTests)
_STDIO_TESTS: TypeAdapter[StdioTests] = TypeAdapter(StdioTests)
_MAX_NUMBER_CHARS = 400
"""Maximum length of a number that is compared as one; a longer one has to be written the same way."""
_UNPACK_MS = 10_000
_MAX_TEST_VALUES = 250_000
_DECODER = json.JSONDecoder()
"""Maximum number of JSON values of packed tests."""
_QUICK_BYTES = 64 * KIB
"""Maximum size of an output that is compared faster than a thread starts."""

_UNPACKER = """\
import base64, json, pickle, sys, zlib

tests = pickle.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.read())))
json.dump(json.loads(tests) if isinstance(tests, str) else tests, sys.stdout)
"""
"""Unpacks tests. It is a program like any other: a pickle can run anything."""

_MODULES = (
    *("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics"),
    *("itertools", "functools", "operator", "io", "sys", "json"),
)
_PRELUDE = "; ".join(
    (
        *(f"from {name} import *" for name in (*_MODULES, "builtins", "typing")),
        f"import {', '.join(_MODULES)}",
        "sys.setrecursionlimit(50000)",
    )
)
"""What LiveCodeBench's harness, and so open-instruct's, has programs with standard input find."""

T = TypeVar("T")
_FAILURES = frozenset(
    {
        *(Status.OK, Status.FAILED, Status.TIMEOUT),
        *(Status.MEMORY_LIMIT, Status.OUTPUT_LIMIT, Status.PROCESS_LIMIT),
    }
)
"""Ends that say something about the program."""


async def run_assert_tests(body: TestProgramRequest, runner: PureRunner) -> TestProgramResponse:
    """Run the statements of each test after the program. Raises InvalidRequest, and Refused."""
    tests = await _read_tests(body, _ASSERT_TESTS, runner)
    limits = _make_limits(body.max_execution_time)

    async def passes(test: str, *, first: bool) -> float:
        word = secrets.token_hex(16)
        code = _add_test(body.program, test, word)
        outcome, written = await _run(runner, code, None, limits, patient=not first)
        return _measure(outcome, passed=outcome.ok and word.encode() in written)

    return await _judge(tests, passes, stop_on_failure=False)


async def run_stdio_tests(body: TestProgramRequest, runner: PureRunner) -> TestProgramResponse:
    """Run the program with the input of each test, up to the first failure. Raises InvalidRequest, and Refused."""
    tests = await _read_tests(body, _STDIO_TESTS, runner)
    limits = _make_limits(math.ceil(body.max_execution_time))
    code = body.program if "__future__" in body.program else f"{_PRELUDE}\n{body.program}"

    async def passes(test: StdioTest, *, first: bool) -> float:
        given = test.input if isinstance(test.input, str) else "\n".join(test.input)
        outcome, written = await _run(runner, code, given, limits, patient=not first)
        quick = len(written) <= _QUICK_BYTES
        compared = test.output, written
        same = outcome.ok and (
            is_same_output(*compared) if quick else await asyncio.to_thread(is_same_output, *compared)
        )
        return _measure(outcome, passed=same)

    return await _judge(tests, passes, stop_on_failure=True)


async def _judge(
    tests: list[T], passes: Callable[..., Awaitable[float]], *, stop_on_failure: bool
) -> TestProgramResponse:
    """Run the tests one after the other. Only the first may be refused, and then nothing has started."""
    runtimes = [-1.0] * len(tests)
    for position, test in enumerate(tests):
        runtimes[position] = await passes(test, first=position == 0)
        if stop_on_failure and runtimes[position] < 0:
            break
    return TestProgramResponse(results=[1 if each >= 0 else 0 for each in runtimes], runtimes=runtimes)


async def _read_tests(
    body: TestProgramRequest, expected: TypeAdapter[list[T]], runner: PureRunner
) -> list[T]:
    tests: Any = body.tests
    if isinstance(tests, str):
        tests = await _unpack(tests, runner)
    try:
        return expected.validate_python(tests)
    except ValidationError as problem:
        raise explain_validation(problem, "tests") from None


async def _unpack(packed: str, runner: PureRunner) -> object:
    """Return tests that are packed as JSON, or as base64 of a compressed pickle. Raises InvalidRequest, Refused."""
    try:
        return await _read_unpacked(packed.encode())
    except ValueError:
        limits = LimitOverrides(timeout_ms=_UNPACK_MS, output_bytes=OUTPUT_BYTES)
        outcome, written = await _run(runner, _UNPACKER, packed, limits, patient=False)
    try:
        return await _read_unpacked(written) if outcome.ok else None
    except ValueError:
        raise reject_value(["tests"], "the tests cannot be unpacked", packed) from None


async def _read_unpacked(text: bytes) -> object:
    """Return tests in a JSON text, which is hostile. Raises ValueError if it is not JSON, and InvalidRequest."""
    try:
        tests, _ = await read_json(text, _MAX_TEST_VALUES, MAX_DEPTH, _DECODER, errors="surrogatepass")
    except JsonLimitError:
        fault = f"there are more than {_MAX_TEST_VALUES} values or {MAX_DEPTH} levels"
        raise reject_value(["tests"], fault, None) from None
    try:
        json.dumps(tests, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise reject_value(
            ["tests"], "a string has half of a surrogate pair, which is not Unicode", None
        ) from None
    return tests


async def _run(
    runner: PureRunner, code: str, stdin: str | None, limits: LimitOverrides, *, patient: bool
) -> tuple[Outcome, bytes]:
    """Run one program; return its outcome and standard output. Raises Refused unless they are about the program."""
    written: list[bytes] = []
    given = None if stdin is None else stdin.encode()
    work = make_pure_program("python", code, runner.tenant.settings.runtimes.network, stdin=given)
    outcome, _ = await runner.run(work, limits, patient=patient, on_raw_stdout=written.append)
    if outcome.status not in _FAILURES:
        if not patient:
            raise_refusal(outcome)
        raise Refused(500, f"a test has no result: {explain(outcome)}")
    return outcome, b"".join(written)


def _make_limits(seconds: float) -> LimitOverrides:
    return LimitOverrides(timeout_ms=to_milliseconds(seconds), output_bytes=OUTPUT_BYTES)


def _measure(outcome: Outcome, *, passed: bool) -> float:
    return outcome.usage.wall_ms / 1000 if passed else -1.0


def _add_test(program: str, test: str, word: str) -> str:
    """Return a program that runs another one, then a test of it, and then writes `word`.

    As there, the name of the module is not `__main__`, so that a block for scripts does not run.
    """
    lines = [
        "context = {'__builtins__': __builtins__}",
        f"exec(compile({program!r}, 'program.py', 'exec'), context)",
        f"exec(compile({test!r}, 'test.py', 'exec'), context)",
        f"print({word!r})",
    ]
    return "\n".join(lines)


def is_same_output(expected: str, written: bytes) -> bool:
    """Return whether output is as expected: line by line without white space around, or equal as numbers.

    The output is hostile, and is read up to its first difference.
    """
    pairs = zip_longest(_list_lines(expected), _list_lines(written.decode("utf-8", "replace")))
    return all(one is not None and two is not None and _is_same_line(one, two) for one, two in pairs)


def _list_lines(text: str) -> Iterator[str]:
    text, start = text.strip(), 0
    while (end := text.find("\n", start)) != -1:
        yield text[start:end].strip()
        start = end + 1
    yield text[start:].strip()


def _is_same_line(expected: str, written: str) -> bool:
    if expected == written:
        return True
    try:
        numbers = _read_numbers(expected)
        same = numbers is not None and numbers == _read_numbers(written)
    except InvalidOperation:  # no number, or a signalling NaN
        return False
    return same


def _read_numbers(line: str) -> list[Decimal] | None:
    words = line.split()
    if max(map(len, words), default=0) > _MAX_NUMBER_CHARS:
        return None
    return [Decimal(word) for word in words]
