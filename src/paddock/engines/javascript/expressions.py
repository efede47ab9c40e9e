"""Find the expression at which a program failed, and the value that was assigned to its first name.

V8 reports a line and a column; this module reads the names around them from the program's text. The result is a guess,
good enough only for a hint, and empty if the text is not clear. A program has at most `limits.*.code_bytes`, and every
pattern is bounded.
"""

import re
from collections import deque
from typing import NamedTuple

from paddock.engines.javascript.source_map import NEWLINE_PATTERN
from paddock.model.compat import SDK_ALIAS
from paddock.model.late_pattern import compile_late
from paddock.model.outcome import ErrorInfo

_MAX_EXPRESSION_CHARS = 2000
"""Maximum length of an expression that is examined, in characters."""
_OPENING_BRACKETS = {")": "(", "]": "[", "}": "{"}
_NAME_SYNTAX = r"[A-Za-z_$][\w$]*"
_MEMBERS_PATTERN = compile_late(
    rf"{_NAME_SYNTAX}(?:\s*\??\.\s*{_NAME_SYNTAX}|\s*(?:\?\.)?\[\s*(?:\"[^\"\n]*\"|'[^'\n]*'|\w+)\s*\])*"
)
_PART_PATTERN = compile_late(rf"{_NAME_SYNTAX}|\"([^\"\n]*)\"|'([^'\n]*)'|\d+")
_ASYNC_METHODS = (
    "paddock.changes.accept",
    "paddock.changes.discard",
    "paddock.changes.undo",
    "paddock.compute",
    "paddock.exec",
    "paddock.output.query",
    "paddock.script.run",
    "paddock.tool",
)
_KEYWORD_PATTERN = compile_late(
    r"(?<![\w$.])(?:return|await|typeof|case|of|in|throw|yield|else|void|delete|do|instanceof|new)\s*$"
)
_STATIC = {f"Promise.{name}" for name in ("all", "allSettled", "race", "any")}


class ErrorSite(NamedTuple):
    """The text before and after the position of an error."""

    before: str
    after: str

    @classmethod
    def of(cls, error: ErrorInfo, source: str) -> "ErrorSite | None":
        """Return the site of an error; None if its position is not known."""
        if error.line is None or error.column is None:
            return None
        text = source.removeprefix("\ufeff")
        start = 0
        for _ in range(error.line - 1):
            found = NEWLINE_PATTERN.search(text, start)
            if found is None:
                return None
            start = found.end()
        line = NEWLINE_PATTERN.split(text[start : start + 100_000], maxsplit=1)[0]
        at = len(
            line.encode("utf-16-le", "surrogatepass")[: 2 * (error.column - 1)].decode("utf-16-le", "ignore")
        )
        return cls(text[: start + at], text[start + at :])

    def base(self) -> str:
        """Return the expression whose member could not be read: `r.items` if `r.items.length` failed at `length`."""
        return find_last_expression(re.sub(r"\s*(?:\?\.|\.|\[)\s*$", "", self.before))

    def next(self, name: str = "") -> str:
        """Return the names that follow in this line, such as `g.search`; if `name` is given, from there on."""
        line = NEWLINE_PATTERN.split(self.after[:_MAX_EXPRESSION_CHARS], maxsplit=1)[0]
        if name:
            found = re.search(rf"(?<![\w$.]){re.escape(name)}(?![\w$])", line)
            if found is None:
                return ""
            line = line[found.start() :]
        found = _MEMBERS_PATTERN.match(line)
        return found[0] if found else ""


def split_names(members: str) -> list[str]:
    """Return the names in a text such as `a.b["c"]`."""
    return [found[1] or found[2] or found[0] for found in _PART_PATTERN.finditer(members)]


def find_last_expression(text: str) -> str:
    """Return the expression of names, members, calls and brackets at the end of a text; "" without one."""
    text = text[-_MAX_EXPRESSION_CHARS:]
    at = len(text)
    while at > 0:
        at = len(text[:at].rstrip())
        if text[at - 1 : at] in _OPENING_BRACKETS:
            at = _opening(text, at - 1)
            if at < 0:
                return ""
            if not re.search(r"[\w$\])]\s*(?:\?\.)?$", text[:at]) or _KEYWORD_PATTERN.search(text[:at]):
                break  # a group in parentheses, not a call
            at = len(re.sub(r"\?\.$", "", text[:at]))
            continue
        name = re.search(r"[\w$]+$", text[:at])
        if name is None:
            break
        at = name.start()
        if (dot := re.search(r"(?:\?\.|\.)\s*$", text[:at].rstrip())) is None:
            break
        at = dot.start()
    return text[at:].strip()


def _opening(text: str, at: int) -> int:
    """Return the index of the bracket that the one at `at` closes; -1 without one."""
    depth = 0
    for index in range(at, -1, -1):
        if text[index] in _OPENING_BRACKETS:
            depth += 1
        elif text[index] in "([{":
            depth -= 1
            if not depth:
                return index
    return -1


class AssignedValue(NamedTuple):
    """The value that was assigned to a name."""

    value: str
    """The text from the value on; "" if it is not clear."""
    whole: bool = True
    """Whether the name got the whole value, not a part of it by destructuring."""


def find_assignment(name: str, before: str) -> AssignedValue:
    """Return the last value assigned to `name` in `before`; empty if a parameter of that name follows it."""
    own = re.escape(name)
    assigned = re.compile(
        rf"(?:(?<![\w$.]){own}\s*(?::[^=;\n]{{1,200}})?|\{{[^{{}}]{{0,500}}(?<![\w$.]){own}\b[^{{}}]{{0,500}}\}}"
        rf"|\[[^\[\]]{{0,500}}(?<![\w$.]){own}\b[^\[\]]{{0,500}}\])\s*=(?![=>])\s*"
    )
    last = next(iter(deque(assigned.finditer(before), maxlen=1)), None)
    if last is None:
        return AssignedValue("")
    rest = before[last.end() :]
    bound = re.compile(
        rf"(?<![\w$.]){own}\s*=>|\([^()]{{0,500}}(?<![\w$.]){own}\b[^()]{{0,500}}\)\s*(?:=>|\{{)"
        rf"|\b(?:const|let|var)\s+{own}\s+(?:of|in)\b|\bcatch\s*\(\s*{own}\s*\)"
    )
    return AssignedValue(
        "" if bound.search(rest) else rest[:_MAX_EXPRESSION_CHARS], whole=last[0][0] not in "[{"
    )


def find_iterated(name: str, before: str) -> str:
    """Return the array whose members a callback or a loop calls `name`: `rows` for `rows.map((name) =>`."""
    own = re.escape(name)
    found = re.search(
        rf"(?<![\w$.])({_NAME_SYNTAX})\s*\.\s*(?:map|flatMap|filter|forEach|find|some|every)\(\s*(?:async\s*)?"
        rf"\(?\s*{own}\b[^()=>]{{0,200}}\)?\s*=>[^;]{{0,500}}$"
        rf"|\bfor\s*\(\s*(?:const|let|var)\s+{own}\s+of\s+({_NAME_SYNTAX})\s*\)[^;]{{0,500}}$",
        before[-_MAX_EXPRESSION_CHARS:],
    )
    return "" if found is None else found[1] or found[2]


def find_callee(text: str) -> str:
    """Return what a text calls at its beginning, without arguments, such as `servers.g.search`; "" without a call."""
    found = _MEMBERS_PATTERN.match(text)
    if found is None or not text[found.end() :].lstrip().startswith("("):
        return ""
    return re.sub(r"\s+", "", found[0])


def gives_promise(called: str, source: str) -> bool:
    """Return whether a call of a tool, a method of the SDK or a function of the program returns a promise."""
    if called.startswith(f"{SDK_ALIAS}."):
        called = f"paddock{called.removeprefix(SDK_ALIAS)}"
    if called.startswith(("servers.", "servers[")):
        return len(split_names(called)) > 2  # a tool, not a server
    if called in _STATIC or called in _ASYNC_METHODS:
        return True
    if not re.fullmatch(_NAME_SYNTAX, called):
        return False
    own = re.escape(called)
    return bool(re.search(rf"\basync\s+function\s*\*?\s*{own}\s*\(|(?<![\w$.]){own}\s*=\s*async\b", source))
