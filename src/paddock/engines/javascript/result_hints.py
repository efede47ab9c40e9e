"""Hints for programs that take the result of a tool for something else, such as an object for the array within it.

The text of the program shows what was read, and the results of its calls show what there was. A hint needs both.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import NamedTuple, cast

from paddock.engines.javascript.expressions import ErrorSite, find_assignment, find_callee, split_names
from paddock.model.base import Json
from paddock.model.late_pattern import compile_late
from paddock.model.outcome import ErrorInfo

_MAX_MEMBERS = 200
"""Maximum number of members of a result that are remembered."""
_MAX_LISTED = 6
_MAX_NAME_CHARS = 40
_NAME = r"[A-Za-z_$][\w$]*"
_NO_FUNCTION = compile_late(rf"({_NAME}|\(intermediate value\))\.{_NAME} is not a function")
_NOT_ITERABLE = compile_late(rf"({_NAME}|\(intermediate value\)) is not iterable")
_NOT_READ = compile_late(r"Cannot read properties of undefined \(reading ")
_MEMBER = compile_late(rf"({_NAME}|\(\s*await\s+servers\b.*\))\s*\??\.\s*({_NAME})", re.DOTALL)
_CALL_IN_GROUP = compile_late(r"\(\s*await\s+(servers\b.*)\)", re.DOTALL)
_AWAITED_CALL = compile_late(r"await\s+(servers\b.*)", re.DOTALL)
_RETURNS = compile_late(
    rf"\breturn\s+(?:({_NAME})|(\(\s*await\s+servers\b[^;\n]{{0,1000}}\)))(?:\s*\??\.\s*({_NAME}))?[^;\n]{{0,200}}"
)


class ResultShape(NamedTuple):
    """What a call returned, without its data."""

    kind: str
    members: tuple[str, ...] = ()
    """Names of the members of an object."""
    arrays: tuple[str, ...] = ()
    """Those that are arrays."""

    @classmethod
    def of(cls, value: Json) -> "ResultShape":
        """Return the shape of a value."""
        if not isinstance(value, dict):
            return cls(
                "an array" if isinstance(value, list) else "a text" if isinstance(value, str) else "no object"
            )
        fields = dict(islice(cast("dict[str, Json]", value).items(), _MAX_MEMBERS))
        return cls(
            "an object", tuple(fields), tuple(name for name, each in fields.items() if isinstance(each, list))
        )

    def describe(self) -> str:
        """Return what there was, such as: an object with `result`."""
        short = [
            name for name in self.members[:_MAX_LISTED] if len(name) <= _MAX_NAME_CHARS and name.isprintable()
        ]
        more = "" if len(short) == len(self.members) else " and more"
        return f"{self.kind} with {', '.join(f'`{name}`' for name in short)}{more}" if short else self.kind


Shapes = Mapping[tuple[str, str], ResultShape]
"""The last results of tools, by server and name as the program wrote them."""


def explain_wrong_use(error: ErrorInfo, source: str, shapes: Shapes) -> str:
    """Return the hint on an error because a tool's result is no array, or lacks a member; empty for other errors."""
    if error.name != "TypeError" or not shapes:
        return ""
    site = ErrorSite.of(error, source)
    if site is None:
        return ""
    if _NOT_READ.match(error.message):
        read = _MEMBER.fullmatch(site.base())
        return _explain_missing(read[1], read[2], site.before, shapes) if read else ""
    found = _NO_FUNCTION.fullmatch(error.message) or _NOT_ITERABLE.fullmatch(error.message)
    if found is None:
        return ""
    base = site.base() if found[1].startswith("(") else found[1]
    called = _find_call(base, site.before)
    shape = None if not called else _find_shape(called, shapes)
    if shape is None or shape.kind == "an array":
        return ""
    use = f": use `{base}.{shape.arrays[0]}`" if len(shape.arrays) == 1 else ""
    return f"{called} returned {shape.describe()}{use}"


def explain_nothing(source: str, shapes: Shapes) -> str:
    """Return why a program without a result returned none: it read a member that a tool's result does not have."""
    if not shapes:
        return ""
    for found in reversed([*_RETURNS.finditer(source)]):
        name, group, member = found[1], found[2], found[3]
        before = source[: found.start()]
        if not member and not group and not find_assignment(name, before).whole:
            member = name  # const { items } = await servers.s.list()
        if member and (hint := _explain_missing(group or name, member, before, shapes)):
            return f"the program returned nothing: {hint}"
    return ""


def _explain_missing(base: str, member: str, before: str, shapes: Shapes) -> str:
    """Return that a result has no such member; empty if it has, or is not known."""
    called = _find_call(base, before)
    shape = _find_shape(called, shapes) if called else None
    if shape is None or member in shape.members or (not shape.members and member == "length"):
        return ""
    return f"{called} returned {shape.describe()}, without `{member}`"


def _find_call(base: str, before: str) -> str:
    """Return the call whose result an expression is, such as `servers.s.list`; empty for other expressions."""
    if group := _CALL_IN_GROUP.match(base):
        return find_callee(group[1])
    if not re.fullmatch(_NAME, base):
        return ""
    value = _AWAITED_CALL.match(find_assignment(base, before).value)
    return "" if value is None else find_callee(value[1])


def _find_shape(called: str, shapes: Shapes) -> ResultShape | None:
    names = split_names(called)
    return shapes.get((names[1], names[2])) if len(names) == 3 else None
