"""The digest of a program's output: what failed and where, in the words of the tool.

It is made from hostile text, and bounded: 20 failures, 200 characters a message, 30 lines of excerpt. Whether a program
succeeded is never decided by its output.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Literal

from paddock.model.artifact import CamelCaseModel
from paddock.model.base import Json
from paddock.model.late_pattern import compile_late
from paddock.record.output.digest import suites
from paddock.record.output.digest.faults import faults
from paddock.record.output.digest.suites import MESSAGE_CHARS, DigestFailure, count_nouns, failure

Kind = Literal["tsc", "node-test", "eslint", "npm", "pytest", "unittest", "go-test", "rust-test", "generic"]

MAX_FAILURES = 20
MAX_EXCERPT_LINES = 30


class Digest(CamelCaseModel):
    """A summary of output."""

    kind: Kind
    ok: bool
    summary: str
    failures: tuple[DigestFailure, ...] = ()
    truncated_failures: int | None = None
    """Number of failures that are not listed."""
    excerpt: str | None = None
    """The last lines, if the tool or its output was not recognised."""

    def to_wire(self) -> dict[str, Json]:
        """Return the digest as JSON, without empty fields."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


_COLOUR_PATTERN = compile_late(r"\x1b\[[0-9;]*m")
_TSC_PATTERN = compile_late(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d{1,9}),\d+\): error (?P<name>TS\d+): (?P<message>.*)"
    r"|(?P<file2>\S.*?):(?P<line2>\d{1,9}):\d+ - error (?P<name2>TS\d+): (?P<message2>.*)"
    r"|error (?P<name3>TS\d+): (?P<message3>.*)"
)
_ESLINT_COUNT = compile_late(r"✖ \d+ problems? \((\d+) errors?, (\d+) warnings?\)")
_ESLINT_PATTERN = compile_late(r"\s++(\d{1,9}):\d{1,9}\s++(error|warning)\s++(.*)")
_NPM_ERROR = compile_late(r"npm (?:ERR!|error) ?(.*)")
_NPM_DONE = compile_late(r"(?:added|removed|changed|audited|up to date)\b.*")

_EVIDENCE_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("tsc", _TSC_PATTERN),
    ("node-test", suites.NODE_TEST),
    ("eslint", _ESLINT_COUNT),
    ("pytest", suites.PYTEST),
    ("unittest", suites.UNITTEST),
    ("go-test", suites.GO_TEST),
    ("rust-test", suites.RUST_TEST),
)
_COMMAND_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("tsc", compile_late(r"(?:^|[\s/])tsc(?:\.js)?(?:\s|$)")),
    ("node-test", compile_late(r"(?:^|\s)--test(?:\s|$)")),
    ("eslint", compile_late(r"(?:^|[\s/])eslint(?:\.js)?(?:\s|$)")),
    ("npm", compile_late(r"(?:^|[\s/])npm(?:-cli\.js)?(?:\s|$)")),
)


def digest(lines: Iterable[str], *, command: str, ok: bool) -> Digest:
    """Return the digest of output; `command` is the command that was run, which may name the tool."""
    plain = [_COLOUR_PATTERN.sub("", line).rstrip("\r") for line in lines]
    kind = _kind(plain, command)
    summary, found = _READERS[kind](plain) if kind in _READERS else _BY_STATUS[kind](plain, ok=ok)
    failures = () if ok else tuple(islice(found, MAX_FAILURES))
    left = 0 if ok else sum(1 for _ in found)
    silent = not ok and (not failures or kind in ("npm", "generic"))
    return Digest(
        kind=kind,
        ok=ok,
        summary=f"{kind}: {summary}",
        failures=failures,
        truncated_failures=left or None,
        excerpt="\n".join(plain[-MAX_EXCERPT_LINES:]) if silent and plain else None,
    )


def _kind(lines: Sequence[str], command: str) -> Kind:
    """Return the tool whose output this is, by the output, else by the command."""
    for kind, pattern in _EVIDENCE_PATTERNS:
        if any(map(pattern.fullmatch, lines)):
            return kind
    for kind, pattern in _COMMAND_PATTERNS:
        if pattern.search(command):
            return kind
    return "npm" if any(map(_NPM_ERROR.fullmatch, lines)) else "generic"


def _tsc(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    found = [match for line in lines if (match := _TSC_PATTERN.fullmatch(line))]
    failures = [
        failure(
            match["message"] or match["message2"] or match["message3"] or "",
            name=match["name"] or match["name2"] or match["name3"],
            file=match["file"] or match["file2"],
            line=match["line"] or match["line2"],
        )
        for match in found
    ]
    files = len({found.file for found in failures if found.file})
    return count_nouns(len(failures), "error") + (f" in {count_nouns(files, 'file')}" if files else ""), iter(
        failures
    )


def _eslint(lines: Sequence[str]) -> tuple[str, Iterator[DigestFailure]]:
    counts = next((match for line in reversed(lines) if (match := _ESLINT_COUNT.fullmatch(line))), None)
    if counts is None:
        return "no problems", iter(())
    failures: list[DigestFailure] = []
    file = None
    for line in lines:
        if (match := _ESLINT_PATTERN.fullmatch(line)) is None:
            file = line if line and not line[0].isspace() else file
        elif match[2] == "error":
            message, _, rule = match[3].rpartition("  ")
            failures.append(
                failure(message or rule, name=rule if message else None, file=file, line=match[1])
            )
    return f"{count_nouns(int(counts[1]), 'error')}, {count_nouns(int(counts[2]), 'warning')}", iter(failures)


def _npm(lines: Sequence[str], *, ok: bool) -> tuple[str, Iterator[DigestFailure]]:
    errors = [match[1] for line in lines if (match := _NPM_ERROR.fullmatch(line)) and match[1]]
    code = next((text.removeprefix("code ") for text in errors if text.startswith("code ")), None)
    if ok:
        return next((line for line in reversed(lines) if _NPM_DONE.fullmatch(line)), "done")[
            :MESSAGE_CHARS
        ], iter(())
    message = next((text for text in errors if not text.startswith(("code ", "errno ", "syscall "))), "")
    failures = [failure(message, name=code)] if errors else []
    return f"failed with {code}" if code else "failed", iter(failures)


def _generic(lines: Sequence[str], *, ok: bool) -> tuple[str, Iterator[DigestFailure]]:
    found = (failure(fault.message, file=fault.file, line=fault.line) for fault in faults(lines))
    return f"{'ok' if ok else 'failed'}, {count_nouns(len(lines), 'line')} of output", found


_READERS: dict[Kind, Callable[[Sequence[str]], tuple[str, Iterator[DigestFailure]]]] = {
    "tsc": _tsc,
    "eslint": _eslint,
    "node-test": suites.node_test,
    "pytest": suites.pytest,
    "unittest": suites.unittest,
    "go-test": suites.go_test,
    "rust-test": suites.rust_test,
}
_BY_STATUS: dict[Kind, Callable[..., tuple[str, Iterator[DigestFailure]]]] = {
    "npm": _npm,
    "generic": _generic,
}
"""Tools whose output does not show whether they succeeded."""
