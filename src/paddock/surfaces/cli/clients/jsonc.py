"""Edit JSON with comments and trailing commas in place: only the bytes of the edited member change.

`parse` returns each value with its place in the text. Edits are computed from these places, and the caller parses the
result again (`edit.py`). Therefore a bug here leads to a rejection, never to a damaged file.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, cast

MAX_DEPTH = 200
_BLANK_PATTERN = re.compile(r"(?:[ \t\r\n\ufeff]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING_PATTERN = re.compile(r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"')
_LITERAL_PATTERN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_MAX_DIGITS = 4000
"""Maximum number of digits; Python parses at most 4300."""
_FIRST_INDENT = re.compile(r'^([ \t]+)"', re.MULTILINE)


class JsoncError(ValueError):
    """A text is neither JSON nor JSON with comments; says why, and where."""

    def __init__(self, text: str, at: int, why: str) -> None:
        line = text.count("\n", 0, at) + 1
        column = at - (text.rfind("\n", 0, at) + 1) + 1
        super().__init__(f"line {line}, column {column}: {why}")


@dataclass
class JsoncNode:
    """A value and its place in the text, from `start` up to `end`."""

    value: Any
    start: int
    end: int
    members: "list[Member]" = field(default_factory=list["Member"])
    """Members of an object in order, or the items of a list, without names."""


@dataclass
class Member:
    """A member of an object, or an item of a list."""

    name: str
    start: int
    value: JsoncNode
    comma: int | None = None
    """Position of the comma after it."""


@dataclass
class _JsoncReader:
    text: str
    at: int = 0
    depth: int = 0

    def refuse(self, why: str) -> NoReturn:
        raise JsoncError(self.text, min(self.at, len(self.text)), why)

    def skip_blanks(self) -> str:
        """Skip blanks and comments; return the next character, empty at the end."""
        found = _BLANK_PATTERN.match(self.text, self.at)
        assert found is not None
        self.at = found.end()
        if self.text.startswith("/*", self.at):
            self.refuse("this comment has no end")
        return self.text[self.at : self.at + 1]

    def read_value(self) -> JsoncNode:
        first = self.skip_blanks()
        start = self.at
        if first in ("{", "["):
            self.depth += 1
            if self.depth > MAX_DEPTH:
                self.refuse(f"nested more than {MAX_DEPTH} deep")
            node = self._read_object(start) if first == "{" else self._read_list(start)
            self.depth -= 1
            return node
        if first == '"':
            return JsoncNode(self._read_string(), start, self.at)
        found = _LITERAL_PATTERN.match(self.text, self.at)
        if found is None:
            self.refuse("expected a value" if first else "the text ends where a value is expected")
        if len(found[0]) > _MAX_DIGITS:
            self.refuse("this number is too long")
        self.at = found.end()
        return JsoncNode(json.loads(found[0]), start, self.at)

    def _read_string(self) -> str:
        found = _STRING_PATTERN.match(self.text, self.at)
        if found is None:
            self.refuse("this string has no end, or contains a forbidden character")
        self.at = found.end()
        return json.loads(found[0])

    def _read_object(self, start: int) -> JsoncNode:
        members: list[Member] = []
        self.at += 1
        while (first := self.skip_blanks()) != "}":
            if first != '"':
                self.refuse("expected a name in double quotes, or `}`")
            if members and members[-1].comma is None:
                self.refuse("expected a comma, or `}`")
            place = self.at
            name = self._read_string()
            if self.skip_blanks() != ":":
                self.refuse("expected `:` after the name")
            self.at += 1
            members.append(Member(name, place, self.read_value()))
            if self.skip_blanks() == ",":
                members[-1].comma = self.at
                self.at += 1
        self.at += 1
        return JsoncNode({each.name: each.value.value for each in members}, start, self.at, members)

    def _read_list(self, start: int) -> JsoncNode:
        items: list[Member] = []
        self.at += 1
        while self.skip_blanks() != "]":
            if items and items[-1].comma is None:
                self.refuse("expected a comma, or `]`")
            items.append(Member("", self.at, self.read_value()))
            if self.skip_blanks() == ",":
                items[-1].comma = self.at
                self.at += 1
        self.at += 1
        return JsoncNode([each.value.value for each in items], start, self.at, items)


def parse(text: str) -> JsoncNode:
    """Return the document in a text. Raises JsoncError."""
    reader = _JsoncReader(text)
    node = reader.read_value()
    if reader.skip_blanks():
        reader.refuse("expected nothing after the value")
    return node


def set_member(text: str, path: Sequence[str], value: object) -> str:
    """Return the text with the member at a path set; missing objects on the path are created.

    In a list, only the changed items are replaced. Raises JsoncError, also if a value on the path is not an object, and
    ValueError if a name on it occurs twice.
    """
    node = parse(text)
    for depth, name in enumerate(path):
        _check_object(text, node, path[:depth])
        member = _find_once(node, name)
        if member is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return _insert_member(text, node, name, value)
        node = member.value
    if node.value == value and type(node.value) is type(value):
        return text
    if is_item_edit(node.value, value):
        items = cast("list[object]", value)
        for item in items[len(node.members) :]:
            text = _insert_member(text, node, None, item)
            node = _JsoncReader(text, node.start).read_value()
        for member, item in reversed(
            list(zip(node.members, items, strict=True))
        ):  # earlier places stay valid
            if member.value.value != item or type(member.value.value) is not type(item):
                text = text[: member.start] + _write_value(text, item, "") + text[member.value.end :]
        return text
    indent = _indent_at(text, node.start)
    return text[: node.start] + _write_value(text, value, indent) + text[node.end :]


def is_item_edit(before: object, after: object) -> bool:
    """Return whether a list can become another one by replacing items, or its first items, and appending some."""
    if not isinstance(before, list) or not isinstance(after, list):
        return False
    old, new = cast("list[object]", before), cast("list[object]", after)
    return 0 < len(old) <= len(new) and (len(old) == len(new) or old[1:] == new[1 : len(old)])


def remove_member(text: str, path: Sequence[str]) -> str:
    """Return the text without the member at a path. Raises the errors of `set_member`."""
    node = parse(text)
    for depth, name in enumerate(path):
        _check_object(text, node, path[:depth])
        member = _find_once(node, name)
        if member is None:
            return text
        if depth == len(path) - 1:
            return _remove_member(text, node, member)
        node = member.value
    return text


def _check_object(text: str, node: JsoncNode, path: Sequence[str]) -> None:
    if not isinstance(node.value, dict):
        raise JsoncError(
            text, node.start, f"`{'.'.join(path)}` is not an object" if path else "this is not an object"
        )


def _find_once(node: JsoncNode, name: str) -> Member | None:
    found = [member for member in node.members if member.name == name]
    if len(found) > 1:
        raise ValueError(f"`{name}` occurs twice there")
    return found[0] if found else None


def _insert_member(text: str, node: JsoncNode, name: str | None, value: object) -> str:
    newline = "\r\n" if "\r\n" in text else "\n"
    base = _indent_at(text, node.start)
    if not node.members:
        inside = _before_last_blanks(text[node.start + 1 : node.end - 1])
        inner = base + _find_indent_unit(text)
        member = f"{newline}{inner}{_write_member(text, name, value, inner)}{newline}{base}"
        return text[: node.start + 1] + inside + member + text[node.end - 1 :]
    last = node.members[-1]
    first_line = text[node.start : node.members[0].start]
    after = last.value.end if last.comma is None else last.comma + 1
    if "\n" not in first_line:  # everything is on one line
        pair = f"{_write_label(name)}{_escape_surrogates(json.dumps(value, ensure_ascii=False))}"
        if last.comma is None:
            return f"{text[:after]}, {pair}{text[after:]}"
        return f"{text[:after]} {pair},{text[after:]}"
    inner = _indent_at(text, node.members[0].start)
    end = _end_of_line(text, after, node.end - 1)
    pair = f"{newline}{inner}{_write_member(text, name, value, inner)}"
    if last.comma is None:
        return f"{text[: last.value.end]},{text[last.value.end : end]}{pair}{text[end:]}"
    return f"{text[:end]}{pair},{text[end:]}"


def _before_last_blanks(inside: str) -> str:
    """Return the inside of an empty object, up to the line of its closing brace."""
    line, newline, rest = inside.rpartition("\n")
    if not inside.strip():
        return ""
    return line.removesuffix("\r") if newline and not rest.strip() else inside.rstrip(" \t")


def _end_of_line(text: str, at: int, end: int) -> int:
    """Return the end of a line, including its comment, which belongs to the text before it."""
    blank = _BLANK_PATTERN.match(text, at, end)
    assert blank is not None
    line = text.find("\n", at, blank.end())
    while line != -1 and text.count("/*", at, line) > text.count("*/", at, line):
        line = text.find("\n", line + 1, blank.end())
    if line == -1:
        return at + len(text[at : blank.end()].rstrip())
    return line - 1 if text[line - 1] == "\r" else line


def _remove_member(text: str, node: JsoncNode, member: Member) -> str:
    at = node.members.index(member)
    if len(node.members) == 1:
        before, after = (
            text[node.start + 1 : member.start].rstrip(" \t"),
            text[_find_end(member) : node.end - 1],
        )
        if before.endswith("\n") and after.lstrip(" \t\r").startswith("\n"):
            after = after.partition("\n")[2]
        inside = before + after
        return text[: node.start + 1] + (inside if inside.strip() else "") + text[node.end - 1 :]
    following = node.members[at + 1] if at + 1 < len(node.members) else None
    if following is not None and "\n" not in text[_find_end(member) : following.start]:
        return text[: member.start] + text[following.start :]
    end = _find_end(member)
    if not text[
        text.rfind("\n", 0, member.start) + 1 : member.start
    ].strip():  # a comment beside it belongs to it
        end = _end_of_line(text, end, node.end - 1)
    has_line = text[end:].lstrip(" \t\r").startswith("\n")
    start = len(text[: member.start].rstrip(" \t\r\n" if has_line else " \t"))
    previous = node.members[at - 1] if at else None
    if previous is None or previous.comma is None or member.comma is not None:
        return text[:start] + text[end:]
    return text[: previous.comma] + text[previous.comma + 1 : start] + text[end:]


def _find_end(member: Member) -> int:
    return member.value.end if member.comma is None else member.comma + 1


def _write_member(text: str, name: str | None, value: object, indent: str) -> str:
    return f"{_write_label(name)}{_write_value(text, value, indent)}"


def _write_label(name: str | None) -> str:
    """Return the text before the value of a member; an item of a list has no name."""
    return "" if name is None else f"{_escape_surrogates(json.dumps(name, ensure_ascii=False))}: "


def _write_value(text: str, value: object, indent: str) -> str:
    """Return a value for a place after its name, with further lines indented as in the text."""
    newline = "\r\n" if "\r\n" in text else "\n"
    lines = json.dumps(value, indent=_find_indent_unit(text), ensure_ascii=False, allow_nan=False).split("\n")
    return _escape_surrogates(f"{newline}{indent}".join(lines))


def _escape_surrogates(text: str) -> str:
    """Return a text with lone surrogates escaped as in JSON."""
    return text.encode("utf-8", "backslashreplace").decode()


def _indent_at(text: str, at: int) -> str:
    """Return the blanks at the beginning of a place's line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _find_indent_unit(text: str) -> str:
    """Return one level of indentation of a text."""
    found = _FIRST_INDENT.search(text)
    return found[1] if found else "  "
