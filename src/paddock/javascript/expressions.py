"""The expression at which a program failed, and what its first name was given, as far as the text tells.

V8 reports a line and a column; the names around them are read from the program's own text. It is a guess about text,
good enough for a hint and for nothing else: where it is not clear, there is no answer. A program has at most
`limits.*.code_bytes`, and every pattern is bounded.
"""

import re
from collections import deque
from typing import NamedTuple

from paddock.javascript.source_map import NEWLINE_PATTERN
from paddock.model.outcome import ErrorInfo

_MAX_EXPRESSION_CHARS = 2000
"""Characters of an expression that are looked at."""
_OPENING_BRACKETS = {")": "(", "]": "[", "}": "{"}
_NAME_SYNTAX = r"[A-Za-z_$][\w$]*"
_MEMBERS_PATTERN = re.compile(
    rf"{_NAME_SYNTAX}(?:\s*\??\.\s*{_NAME_SYNTAX}|\s*(?:\?\.)?\[\s*(?:\"[^\"\n]*\"|'[^'\n]*'|\w+)\s*\])*"
)
_PART_PATTERN = re.compile(rf"{_NAME_SYNTAX}|\"([^\"\n]*)\"|'([^'\n]*)'|\d+")
_ASYNC_METHODS = (
    "paddock.exec",
    "paddock.compute",
    "paddock.tool",
    "paddock.script.run",
    "paddock.output.query",
)
_KEYWORD_PATTERN = re.compile(
    r"(?<![\w$.])(?:return|await|typeof|case|of|in|throw|yield|else|void|delete|do|instanceof|new)\s*$"
)
_STATIC = {f"Promise.{name}" for name in ("all", "allSettled", "race", "any")}


class ErrorSite(NamedTuple):
    """The text before and after the place of an error."""

    before: str
    after: str

    @classmethod
    def of(cls, error: ErrorInfo, source: str) -> "ErrorSite | None":
        """Return the place of an error, None where that is not known."""
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
        """Return the expression whose member could not be read: `r.items` where `r.items.length` failed at `length`."""
        return find_last_expression(re.sub(r"\s*(?:\?\.|\.|\[)\s*$", "", self.before))

    def next(self, name: str = "") -> str:
        """Return the names from here on, in this line: `g.search`; from `name` on, where that is given."""
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
    """Return the expression of names, members, calls and brackets that ends a text; empty where there is none."""
    text = text[-_MAX_EXPRESSION_CHARS:]
    at = len(text)
    while at > 0:
        at = len(text[:at].rstrip())
        if text[at - 1 : at] in _OPENING_BRACKETS:
            at = _opening(text, at - 1)
            if at < 0:
                return ""
            if not re.search(r"[\w$\])]\s*(?:\?\.)?$", text[:at]) or _KEYWORD_PATTERN.search(text[:at]):
                break  # a group of its own
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
    """Return where the bracket was opened that closes at `at`; -1 where it was not."""
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
    """What a name was given."""

    value: str
    """The text of it and what follows; empty where it is not clear."""
    whole: bool = True
    """Whether the name stands for all of it, not for a part that was taken out."""


def find_assignment(name: str, before: str) -> AssignedValue:
    """Return what `name` was given last in the text before it; a parameter of that name in between makes it unclear."""
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
    """Return what a text calls at its beginning, without arguments: `servers.g.search`. Empty where it calls none."""
    found = _MEMBERS_PATTERN.match(text)
    if found is None or not text[found.end() :].lstrip().startswith("("):
        return ""
    return re.sub(r"\s+", "", found[0])


def gives_promise(called: str, source: str) -> bool:
    """Tell whether calling `called`, a tool, a method of the SDK or a function of the program, gives a promise."""
    called = called.replace("mentu.", "paddock.", 1) if called.startswith("mentu.") else called
    if called.startswith(("servers.", "servers[")):
        return len(split_names(called)) > 2  # a tool, not a server
    if called in _STATIC or called in _ASYNC_METHODS:
        return True
    if not re.fullmatch(_NAME_SYNTAX, called):
        return False
    own = re.escape(called)
    return bool(re.search(rf"\basync\s+function\s*\*?\s*{own}\s*\(|(?<![\w$.]){own}\s*=\s*async\b", source))
