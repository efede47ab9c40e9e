"""Read the output of test runners: names, positions and messages of failed tests.

The text is hostile: each line is searched a bounded number of times, by patterns that do not backtrack.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePath
from typing import NamedTuple

from paddock.model.artifact import CamelCaseModel
from paddock.model.late_pattern import compile_late

NODE_TEST = compile_late(r"(?:#|ℹ) (tests|pass|fail|cancelled) (\d{1,9})")  # noqa: RUF001 - as node prints it
PYTEST = compile_late(
    r"(?:=++ )?+((?:\d{1,9} (?:failed|passed|skipped|deselected|xfailed|xpassed|warnings?|errors?|rerun)(?:, )?+)++"
    r"|no tests ran) in \d{1,9}\.\d{1,9}s(?: \([\d:., a-z]++\))?+(?: =++)?+"
)
UNITTEST = compile_late(r"Ran (\d{1,9}) tests? in \d{1,9}\.\d{1,9}s")
GO_TEST = compile_late(r"(ok  |FAIL|\?   )\t\S++(?:\t.*+| \[.*+)?+")
RUST_TEST = compile_late(r"test result: (?:ok|FAILED)\. (\d{1,9}) passed; (\d{1,9}) failed;.*+")
"""Lines that only these runners print."""

_TAP_FAILURE = compile_late(r"\s*not ok \d+ - (.*)")
_TAP_FACT = compile_late(r"\s+(location|error|failureType): (.*)")
_SPEC_PLACE_PATTERN = compile_late(r"test at (.+):(\d{1,9}):\d+")
_SPEC_FAILURE = compile_late(r"\s*✖ (.+?)(?: \([\d.]+ms\))?")

_PYTEST_TITLE = compile_late(r"_{3,}+ (?:ERROR (?:at (?:setup|teardown) of|collecting) )?+(.+) _{3,}+")
_PYTEST_PLACE_PATTERN = compile_late(r"([^\s:]++):(\d{1,9}): ?\S?.*+")
_PYTEST_ERROR_PATTERN = compile_late(r"E   (\s*+)(\S.*+)")
_PYTEST_FAILED = compile_late(r"(?:FAILED|ERROR) (\S.*+)")

_UNITTEST_RULE = "=" * 70
_UNITTEST_FAILED = compile_late(r"(FAIL|ERROR|UNEXPECTED SUCCESS): (\S++)(?: \(([\w.]++)\))?+(.*+)")
_UNITTEST_END = compile_late(r"(?:FAILED|OK|NO TESTS RAN)(?: \((.*)\))?")
_FRAME_PATTERN = compile_late(r'\s++File "([^"]++)", line (\d{1,9})\b.*+')

_GO_TEST = compile_late(r"(?:=== (?:RUN|NAME|CONT) |\s*+--- ([A-Z]++):) ++(\S++)(?: \([\d.]++s\))?+")
_GO_ERROR_PATTERN = compile_late(r"\s++([^\s:]++(?<=\.go)):(\d{1,9}): (.*+)")
_GO_BUILD = compile_late(r"([^\s:]++(?<=\.go)):(\d{1,9})(?::\d{1,9})?+: (.*+)")
_GO_FRAME = compile_late(r"\t([^\s:]++(?<=\.go)):(\d{1,9})\b.*+")
_GO_OWN = compile_late(r"/src/(?:testing|runtime)/")

_RUST_SECTION = compile_late(r"---- (\S.*) stdout ----")
_RUST_PANIC = compile_late(r"thread '[^']*+' (?:\(\d++\) )?+panicked at (.++)")
_RUST_PLACE_PATTERN = compile_late(r"(?:.*', )?([^\s:']++):(\d{1,9}):\d{1,9}:?+")
_MAX_RUST_LINES = 6
"""Maximum lines of a panic's message before its position, in Rust before 1.73."""


MESSAGE_CHARS = 200


class DigestFailure(CamelCaseModel):
    """One failure in a digest."""

    name: str | None = None
    """Code of an error, rule of a linter, or name of a test."""
    file: str | None = None
    line: int | None = None
    message: str


def failure(
    message: str, *, name: str | None = None, file: str | None = None, line: str | None = None
) -> DigestFailure:
    """Return a failure with its message cut to 200 characters; `line` must be digits."""
    text = message.strip()
    return DigestFailure(name=name, file=file, line=int(line) if line else None, message=text[:MESSAGE_CHARS])


def count_nouns(number: int, noun: str) -> str:
    """Return a number with its noun: `no errors`, `1 error`, `2 errors`."""
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


class _SuiteSection(NamedTuple):
    """A runner's report of one failure."""

    message: str
    file: str | None = None
    line: str | None = None


def node_test(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    """Read the output of `node --test`, as TAP or for people."""
    counts = {match[1]: int(match[2]) for line in lines if (match := NODE_TEST.fullmatch(line))}
    failed = counts.get("fail", 0) + counts.get("cancelled", 0)
    summary = (
        f"{count_nouns(counts.get('tests', 0), 'test')}, {counts.get('pass', 0)} passed, {failed} failed"
    )
    tap = any(_TAP_FAILURE.fullmatch(line) for line in lines)
    return summary, _tap_failures(lines) if tap else _spec_failures(lines)


def _tap_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    """Yield the failures, without suites that failed only because of their tests."""
    for number, line in enumerate(lines):
        if (match := _TAP_FAILURE.fullmatch(line)) is None:
            continue
        facts: dict[str, str] = {}
        for index in range(number + 1, min(number + 12, len(lines))):
            if lines[index].strip() == "...":
                break
            if fact := _TAP_FACT.fullmatch(lines[index]):
                facts[fact[1]] = fact[2].strip("'\"")
                if fact[2] in ("|-", ">-", "|", ">") and index + 1 < len(lines):
                    facts[fact[1]] = lines[index + 1].strip()
        if facts.get("failureType") != "subtestsFailed":
            file, _, place = facts.get("location", "").partition(":")
            line_number = place.partition(":")[0]
            known = file and line_number.isdecimal() and len(line_number) < 10  # a plausible line number
            yield failure(
                facts.get("error", ""),
                name=match[1],
                file=file if known else None,
                line=line_number if known else None,
            )


def _spec_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    """Yield the tests below `failing tests:`; the position is before each, the error after it."""
    for number, line in enumerate(lines):
        if (place := _SPEC_PLACE_PATTERN.fullmatch(line)) and number + 1 < len(lines):
            name = _SPEC_FAILURE.fullmatch(lines[number + 1])
            message = lines[number + 2] if number + 2 < len(lines) else ""
            yield failure(message, name=name[1] if name else None, file=place[1], line=place[2])


def pytest(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    """Read the output of pytest, in any of its styles."""
    ends = [match[1] for line in lines if (match := PYTEST.fullmatch(line))]
    return ends[-1] if ends else "no result", _pytest_failures(lines)


def _pytest_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    """Yield the tests of the summary at the end, each with position and message of its section above."""
    sections = _pytest_sections(lines)
    for line in lines:
        if (match := _PYTEST_FAILED.fullmatch(line)) is None:
            continue
        node, sep, reason = match[1].partition(" - ")
        if "[" in node and not node.endswith("]"):  # a parameter contains the separator
            node, sep, reason = match[1].partition("] - ")
            node += sep[:1]
        file, _, test = node.partition("::")
        key = test.replace("::", ".") or file
        known = sections.get((key, PurePath(file).name)) or sections.get((key, None)) or _SuiteSection("")
        yield failure(
            known.message or reason or "failed", name=test or None, file=known.file or file, line=known.line
        )


def _pytest_sections(lines: Sequence[str]) -> dict[tuple[str, str | None], _SuiteSection]:
    """Return the first section of each title, by title and file name, with the last line in that file."""
    found: dict[tuple[str, str | None], _SuiteSection] = {}
    title, message, outright, places = "", "", False, dict[str, str]()
    for line in (*lines, "==="):
        if (match := _PYTEST_TITLE.fullmatch(line)) or line[:3] == line[-3:] == "===":
            last = next(reversed(places.items()), (None, None))
            if title:
                found.setdefault((title, None), _SuiteSection(message, *last))
                for file, number in places.items():
                    found.setdefault((title, PurePath(file).name), _SuiteSection(message, file, number))
            title, message, outright, places = match[1] if match else "", "", False, {}
        elif not title:
            continue
        elif match := _PYTEST_PLACE_PATTERN.fullmatch(line) or _FRAME_PATTERN.fullmatch(
            line.removeprefix("E ")
        ):
            outright = outright or line.startswith("E ")
            places.pop(match[1], None)
            places[match[1]] = match[2]
        elif not message and (match := _PYTEST_ERROR_PATTERN.fullmatch(line)) and not (outright and match[1]):
            message = match[2]
    return found


def unittest(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    """Read the output of Python's unittest."""
    ran = [int(match[1]) for line in lines if (match := UNITTEST.fullmatch(line))]
    ends = [match[1] for line in lines if (match := _UNITTEST_END.fullmatch(line))]
    result = ends[-1] if ends and ends[-1] else "all passed" if ran and ran[-1] else ""
    return ", ".join(filter(None, (count_nouns(ran[-1] if ran else 0, "test"), result))), _unittest_failures(
        lines
    )


def _unittest_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    for number, line in enumerate(lines):
        match = _UNITTEST_FAILED.fullmatch(line)
        if match is None or not number or lines[number - 1] != _UNITTEST_RULE:
            continue
        test, owner = match[2], match[3]
        name = test if owner is None else owner if owner.endswith(f".{test}") else f"{owner}.{test}"
        found = _traceback(lines, number + 1)
        message = found.message or ("unexpected success" if match[1].startswith("UNEXPECTED") else "")
        yield failure(message, name=name + match[4].rstrip(), file=found.file, line=found.line)


def _traceback(lines: Sequence[str], start: int) -> _SuiteSection:
    """Return the last frame before the next failure, and the first line of text below it."""
    found = _SuiteSection("")
    for index in range(start, len(lines)):
        line = lines[index]
        if line == _UNITTEST_RULE or UNITTEST.fullmatch(line):
            break
        if match := _FRAME_PATTERN.fullmatch(line):
            found = _SuiteSection("", match[1], match[2])
        elif found.file and not found.message and line and not line[0].isspace():
            found = found._replace(message=line)
    return found


def go_test(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    """Read the output of `go test`, with or without `-v`."""
    states = [match[1].strip() for line in lines if (match := GO_TEST.fullmatch(line))]
    passed, failed = states.count("ok"), states.count("FAIL")
    return f"{count_nouns(passed, 'package')} passed, {failed} failed", _go_failures(lines)


def _go_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    """Yield compile errors, and the failed tests, each with its last message."""
    messages: dict[str, _SuiteSection] = {}
    failed: list[str] = []
    running, panicking = "", False
    for line in lines:
        if match := _GO_TEST.fullmatch(line):
            running, panicking = match[2], False
            if match[1] == "FAIL":
                failed.append(running)
        elif match := _GO_ERROR_PATTERN.fullmatch(line):
            messages[running] = _SuiteSection(match[3], match[1], match[2])
        elif line.startswith("panic: "):
            messages[running], panicking = _SuiteSection(line), True
        elif panicking and (match := _GO_FRAME.fullmatch(line)) and not _GO_OWN.search(line):
            messages[running], panicking = messages[running]._replace(file=match[1], line=match[2]), False
        elif match := _GO_BUILD.fullmatch(line):
            yield failure(match[3], file=match[1], line=match[2])
        elif line.startswith(("FAIL\t", "ok  \t")):
            yield from _go_tests(failed, messages)
            messages, failed, running = {}, [], ""
    yield from _go_tests(failed, messages)


def _go_tests(failed: Iterable[str], message: dict[str, _SuiteSection]) -> Iterator[DigestFailure]:
    """Yield the failed tests of a package, without parents that failed only because of their subtests."""
    parents = {name.rpartition("/")[0] for name in failed}
    for name in dict.fromkeys(failed):
        if name in message or name not in parents:
            found = message.get(name, _SuiteSection("failed"))
            yield failure(found.message, name=name, file=found.file, line=found.line)


def rust_test(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    """Read the output of Rust's test harness, as `cargo test` prints it."""
    ends = [match for line in lines if (match := RUST_TEST.fullmatch(line))]
    passed, failed = (sum(int(match[group]) for match in ends) for group in (1, 2))
    return f"{count_nouns(passed + failed, 'test')}, {passed} passed, {failed} failed", _rust_failures(lines)


def _rust_failures(lines: Sequence[str]) -> Iterator[DigestFailure]:
    for number, line in enumerate(lines):
        if match := _RUST_SECTION.fullmatch(line):
            found = _panic(lines, number + 1)
            yield failure(found.message, name=match[1], file=found.file, line=found.line)


def _panic(lines: Sequence[str], start: int) -> _SuiteSection:
    """Return the first panic, or the first `Error:` line, of a section."""
    for index in range(start, len(lines)):
        line = lines[index]
        if _RUST_SECTION.fullmatch(line) or line == "failures:":
            break
        if match := _RUST_PANIC.fullmatch(line):
            return _read_panic(match[1], lines[index + 1 : index + _MAX_RUST_LINES])
        if line.startswith("Error: "):
            return _SuiteSection(line)
    return _SuiteSection("failed")


def _read_panic(text: str, below: Sequence[str]) -> _SuiteSection:
    if text.startswith("'"):  # before Rust 1.73: the message in quotes, then the position
        place = next(
            (match for line in (text, *below) if (match := _RUST_PLACE_PATTERN.fullmatch(line))), None
        )
        message = text[1:].rpartition("', ")[0] or text[1:]
        return _SuiteSection(message, place[1], place[2]) if place else _SuiteSection(message)
    place = _RUST_PLACE_PATTERN.fullmatch(text)
    message = below[0] if below else ""
    return _SuiteSection(message, place[1], place[2]) if place else _SuiteSection(message)
