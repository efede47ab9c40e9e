"""Read what the compiler prints, and keep what a model can act on.

A program that runs must not be refused because a type could be stricter. Therefore an error counts only if it involves
a tool: the compiler names a place in its declarations, a type of ours or a promise, or a name does not exist at all.
The output contains text of strangers: it is cut, and positions are clamped to the program.
"""

import re
from collections.abc import Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from paddock.model.invisible import spell_invisible
from paddock.model.texts import ellipsis

_MAX_MESSAGE_CHARS = 400
_HEADER_PATTERN = re.compile(r"^(\w+)\.[jt]s:(\d+):(\d+) - error TS(\d+): (.*)$")
_ESCAPE_PATTERN = re.compile(r"\x1b\[[0-9;]*m")
_DECLARED_PATTERN = re.compile(r"^\s+servers\.d\.ts:\d+:\d+", re.MULTILINE)
"""A place that belongs to an error: where the type that it violates is declared."""
_OWN_TYPE_PATTERN = re.compile(r"\b(?:Servers|Server|Arguments|Result)\$|\bPromise<")
_TYPE_PATTERN = re.compile(r"Property '([^']*)' does not exist on type '([^']*)'")
_PLAIN_TYPE_PATTERN = re.compile(r"(?:string|number|boolean|[\w$<>]+\[\])")
_NAME_PATTERN = re.compile(r"Cannot find name '([^']*)'")
_WIDENED_PATTERN = re.compile(
    r"Type '(?:string|number|boolean)' is not assignable to type '(?:\"|-?\d|true\b|false\b)"
)
"""A literal in a variable has lost its value: `{ unit: "c" }` has a `unit: string`, which may be right."""

_UNKNOWN_NAMES: Final = frozenset({2304, 2552, 2580, 2581, 2582, 2583, 2584, 2591, 2592, 2593})
_UNKNOWN_MEMBERS: Final = frozenset({2339, 2551})
_MISFITS: Final = frozenset(
    # Wrong and missing arguments, members that no argument has, values of another type.
    {2322, 2345, 2353, 2554, 2555, 2559, 2560, 2561, 2739, 2740, 2741, 2769, 2820}
    # A promise, or a result, used as what it is not: called, iterated, calculated with.
    | {2349, 2362, 2363, 2365, 2488, 2489, 2495, 2504, 2548, 2549, 2802}
)
"""Codes of https://github.com/microsoft/TypeScript/blob/main/src/compiler/diagnosticMessages.json."""


class Finding(NamedTuple):
    """What is wrong in a program, in the coordinates of the checked file."""

    file: str
    """Name of the file without its suffix."""
    line: int
    column: int
    code: int
    message: str


def read_findings(printed: str, source: str, *, in_session: bool = False) -> list[Finding]:
    """Return the errors in the compiler's output that count for a program with this text.

    Programs in a session may use names that earlier ones have declared.
    """
    found: list[Finding] = []
    for each, block in _split_errors(_ESCAPE_PATTERN.sub("", printed)):
        chain = [line.strip() for line in takewhile(str.strip, block.split("\n"))]
        if _counts(each, chain, block, source, in_session=in_session):
            found.append(each._replace(message=_word_message(each, chain)))
    return found


def _split_errors(printed: str) -> Iterator[tuple[Finding, str]]:
    """Yield each error with the lines below its first one: a chain of reasons, its place, and places of types."""
    current: Finding | None = None
    lines: list[str] = []
    for line in printed.splitlines():
        if header := _HEADER_PATTERN.match(line):
            if current is not None:
                yield current, "\n".join(lines)
            file, row, column, code, message = header.groups()
            current, lines = Finding(file, int(row[:9]), int(column[:9]), int(code[:9]), message), []
        else:
            lines.append(line)
    if current is not None:
        yield current, "\n".join(lines)


def _counts(finding: Finding, chain: list[str], block: str, source: str, *, in_session: bool) -> bool:
    whole = "\n".join([finding.message, *chain])
    if finding.code in _UNKNOWN_NAMES:
        name = _NAME_PATTERN.search(finding.message)
        return name is not None and not in_session and not _may_exist(name[1], source)
    if finding.code in _UNKNOWN_MEMBERS:
        member = _TYPE_PATTERN.search(finding.message)
        if member is None or _is_probed(member[1], source):
            return False
        kind = member[2]
        is_ours = _OWN_TYPE_PATTERN.search(kind) or _PLAIN_TYPE_PATTERN.fullmatch(kind)
        return bool(is_ours) and " | " not in kind and " & " not in kind
    if finding.code not in _MISFITS or _WIDENED_PATTERN.search(whole):
        return False
    return bool(_OWN_TYPE_PATTERN.search(whole) or _DECLARED_PATTERN.search(block))


def _may_exist(name: str, source: str) -> bool:
    """Return whether a program tests for a name first, or may have made it a member of the global object."""
    return bool(re.search(rf"\btypeof\s+{re.escape(name)}\b|\bglobalThis\b|\bself\b|\bthis\b", source))


def _is_probed(member: str, source: str) -> bool:
    """Return whether a program assigns a member itself, or asks whether it is there (`a.b?.c`, `"b" in a`)."""
    name = re.escape(member)
    return bool(re.search(rf"\.\s*{name}\s*(?:=(?![=>])|\?\.|\?\?)|[\"']{name}[\"']\s+in\b", source))


def _word_message(finding: Finding, chain: list[str]) -> str:
    if finding.code in _UNKNOWN_NAMES:
        name = _NAME_PATTERN.search(finding.message)
        assert name is not None
        near = re.search(r"Did you mean '[^']*'\?", finding.message)
        text = f"{name[0]}.{f' {near[0]}' if near else ''}"
    else:
        text = chain[-1] if chain else finding.message
    if finding.code in _UNKNOWN_MEMBERS and "on type 'Promise<" in text:
        text += " Write `await` before the call."
    return ellipsis(spell_invisible(text), _MAX_MESSAGE_CHARS)
