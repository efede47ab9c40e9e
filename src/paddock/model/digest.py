"""The gist of a program's output: what failed, where, in the words of the tool that said so (spec 5.6, S55).

A digest is read out of hostile text, and bounded: 20 failures, 200 characters a message, 30 lines of excerpt. Whether a
program succeeded is never read out of its output.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Literal

from paddock.model.artifact import Wire
from paddock.model.base import Json
from paddock.model.faults import faults

Kind = Literal["tsc", "node-test", "eslint", "npm", "generic"]

MOST_FAILURES = 20
MESSAGE_CHARS = 200
EXCERPT_LINES = 30


class Failure(Wire):
    """One thing that went wrong."""

    name: str | None = None
    """Code of an error, rule of a linter, name of a test."""
    file: str | None = None
    line: int | None = None
    message: str


class Digest(Wire):
    """What output comes to."""

    kind: Kind
    ok: bool
    summary: str
    failures: tuple[Failure, ...] = ()
    truncated_failures: int | None = None
    """Failures that are not listed."""
    excerpt: str | None = None
    """The last lines, where the tool is unknown or said nothing that is known."""

    def to_wire(self) -> dict[str, Json]:
        """Return the digest as JSON, without what there is not."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TSC = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d{1,9}),\d+\): error (?P<name>TS\d+): (?P<message>.*)"
    r"|(?P<file2>\S.*?):(?P<line2>\d{1,9}):\d+ - error (?P<name2>TS\d+): (?P<message2>.*)"
    r"|error (?P<name3>TS\d+): (?P<message3>.*)"
)
_TEST_COUNT = re.compile(r"(?:#|ℹ) (tests|pass|fail|cancelled) (\d{1,9})")  # noqa: RUF001 - as node prints it
_TAP_FAILURE = re.compile(r"\s*not ok \d+ - (.*)")
_TAP_FACT = re.compile(r"\s+(location|error|failureType): (.*)")
_SPEC_PLACE = re.compile(r"test at (.+):(\d{1,9}):\d+")
_SPEC_FAILURE = re.compile(r"\s*✖ (.+?)(?: \([\d.]+ms\))?")
_ESLINT_COUNT = re.compile(r"✖ \d+ problems? \((\d+) errors?, (\d+) warnings?\)")
_ESLINT = re.compile(r"\s++(\d{1,9}):\d{1,9}\s++(error|warning)\s++(.*)")
_NPM_ERROR = re.compile(r"npm (?:ERR!|error) ?(.*)")
_NPM_DONE = re.compile(r"(?:added|removed|changed|audited|up to date)\b.*")

_COMMANDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("tsc", re.compile(r"(?:^|[\s/])tsc(?:\.js)?(?:\s|$)")),
    ("node-test", re.compile(r"(?:^|\s)--test(?:\s|$)")),
    ("eslint", re.compile(r"(?:^|[\s/])eslint(?:\.js)?(?:\s|$)")),
    ("npm", re.compile(r"(?:^|[\s/])npm(?:-cli\.js)?(?:\s|$)")),
)


def digest(lines: Iterable[str], *, command: str, ok: bool) -> Digest:
    """Return the gist of output; `command` is what was run, as far as it tells which tool it was."""
    told = [_COLOUR.sub("", line).rstrip("\r") for line in lines]
    kind = _kind(told, command)
    summary, found = _READERS[kind](told, ok=ok)
    failures = () if ok else tuple(islice(found, MOST_FAILURES))
    left = 0 if ok else sum(1 for _ in found)
    silent = not ok and (not failures or kind in ("npm", "generic"))
    return Digest(
        kind=kind,
        ok=ok,
        summary=f"{kind}: {summary}",
        failures=failures,
        truncated_failures=left or None,
        excerpt="\n".join(told[-EXCERPT_LINES:]) if silent and told else None,
    )


def _kind(lines: list[str], command: str) -> Kind:
    """Return the tool whose output this is: by what it says, else by what was called."""
    evidence: tuple[tuple[Kind, re.Pattern[str]], ...] = (
        ("tsc", _TSC),
        ("node-test", _TEST_COUNT),
        ("eslint", _ESLINT_COUNT),
    )
    for kind, pattern in evidence:
        if any(pattern.fullmatch(line) for line in lines):
            return kind
    for kind, pattern in _COMMANDS:
        if pattern.search(command):
            return kind
    return "npm" if any(_NPM_ERROR.fullmatch(line) for line in lines) else "generic"


def _failure(
    message: str, *, name: str | None = None, file: str | None = None, line: str | None = None
) -> Failure:
    text = message.strip()
    return Failure(name=name, file=file, line=int(line) if line else None, message=text[:MESSAGE_CHARS])


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number or 'no'} {noun}s"


def _tsc(lines: list[str], *, ok: bool) -> tuple[str, Iterator[Failure]]:  # noqa: ARG001 - one signature for all
    found = [match for line in lines if (match := _TSC.fullmatch(line))]
    failures = [
        _failure(
            match["message"] or match["message2"] or match["message3"] or "",
            name=match["name"] or match["name2"] or match["name3"],
            file=match["file"] or match["file2"],
            line=match["line"] or match["line2"],
        )
        for match in found
    ]
    files = len({each.file for each in failures if each.file})
    return _count(len(failures), "error") + (f" in {_count(files, 'file')}" if files else ""), iter(failures)


def _node_test(lines: list[str], *, ok: bool) -> tuple[str, Iterator[Failure]]:  # noqa: ARG001
    counts = {match[1]: int(match[2]) for line in lines if (match := _TEST_COUNT.fullmatch(line))}
    failed = counts.get("fail", 0) + counts.get("cancelled", 0)
    summary = f"{_count(counts.get('tests', 0), 'test')}, {counts.get('pass', 0)} passed, {failed} failed"
    tap = any(_TAP_FAILURE.fullmatch(line) for line in lines)
    return summary, _tap_failures(lines) if tap else _spec_failures(lines)


def _tap_failures(lines: list[str]) -> Iterator[Failure]:
    """Yield what failed by itself; a suite that failed through its tests is not one more failure."""
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
            known = file and line_number.isdecimal() and len(line_number) < 10  # noqa: PLR2004 - a line, not a flood
            yield _failure(
                facts.get("error", ""),
                name=match[1],
                file=file if known else None,
                line=line_number if known else None,
            )


def _spec_failures(lines: list[str]) -> Iterator[Failure]:
    """Yield what stands below `failing tests:`, each with its place before and its error after it."""
    for number, line in enumerate(lines):
        if (place := _SPEC_PLACE.fullmatch(line)) and number + 1 < len(lines):
            name = _SPEC_FAILURE.fullmatch(lines[number + 1])
            message = lines[number + 2] if number + 2 < len(lines) else ""
            yield _failure(message, name=name[1] if name else None, file=place[1], line=place[2])


def _eslint(lines: list[str], *, ok: bool) -> tuple[str, Iterator[Failure]]:  # noqa: ARG001
    counts = next((match for line in reversed(lines) if (match := _ESLINT_COUNT.fullmatch(line))), None)
    if counts is None:
        return "no problems", iter(())
    failures: list[Failure] = []
    file = None
    for line in lines:
        if (match := _ESLINT.fullmatch(line)) is None:
            file = line if line and not line[0].isspace() else file
        elif match[2] == "error":
            message, _, rule = match[3].rpartition("  ")
            failures.append(
                _failure(message or rule, name=rule if message else None, file=file, line=match[1])
            )
    return f"{_count(int(counts[1]), 'error')}, {_count(int(counts[2]), 'warning')}", iter(failures)


def _npm(lines: list[str], *, ok: bool) -> tuple[str, Iterator[Failure]]:
    errors = [match[1] for line in lines if (match := _NPM_ERROR.fullmatch(line)) and match[1]]
    code = next((text.removeprefix("code ") for text in errors if text.startswith("code ")), None)
    if ok:
        return next((line for line in reversed(lines) if _NPM_DONE.fullmatch(line)), "done")[
            :MESSAGE_CHARS
        ], iter(())
    message = next((text for text in errors if not text.startswith(("code ", "errno ", "syscall "))), "")
    failures = [_failure(message, name=code)] if errors else []
    return f"failed with {code}" if code else "failed", iter(failures)


def _generic(lines: list[str], *, ok: bool) -> tuple[str, Iterator[Failure]]:
    found = (_failure(each.said, file=each.file, line=each.line) for each in faults(lines))
    return f"{'ok' if ok else 'failed'}, {_count(len(lines), 'line')} of output", found


_READERS: dict[Kind, Callable[..., tuple[str, Iterator[Failure]]]] = {
    "tsc": _tsc,
    "node-test": _node_test,
    "eslint": _eslint,
    "npm": _npm,
    "generic": _generic,
}
