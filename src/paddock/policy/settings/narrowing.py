"""Annotations of settings: what narrows each, and who may set it. A setting without one is an error at import."""

from enum import Enum
from operator import eq, ge, le
from pathlib import Path
from typing import Annotated

from pydantic import Field

from paddock.model.directories import GrantedDirectory, find_uncovered
from paddock.model.limits import SMALLER, Narrows


class Mark(Enum):
    """Annotation of a setting: who may set it, and where."""

    OWNERS_ONLY = "owners only"
    """No workspace and no token may set it: it names files and users of the machine, or buckets."""
    FILES_ONLY = "files only"
    """Variables and flags cannot express it, or may not set it."""
    JOINED = "joined"
    """The values of all files are combined and none replaces another; it needs no `Narrows`. Files only, too."""


def stricter(*weakest_first: str) -> Narrows:
    """Return the annotation of a choice, whose later values allow less."""

    def is_stricter(bound: str, value: str) -> bool:
        return weakest_first.index(value) >= weakest_first.index(bound)

    return Narrows(is_stricter)


def _accept_anything(_bound: object, _value: object) -> bool:
    return True


def _is_among(bound: tuple[object, ...], value: tuple[object, ...]) -> bool:
    return all(each in bound for each in value)


def _is_superset(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return set(value) >= set(bound)


def _is_allowed(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return "*" in bound or set(value) <= set(bound)


def _fewer_names(bound: tuple[str, ...], value: tuple[str, ...]) -> bool:
    return not bound or (bool(value) and set(value) <= set(bound))


def _is_earlier(bound: str, value: str) -> bool:
    """Compare dates of which an empty one is no bound; the common beginning of two notations decides."""
    length = min(len(bound), len(value))
    return not bound or (bool(value) and value[:length] <= bound[:length])


def _is_covered(bound: tuple[GrantedDirectory, ...], value: tuple[GrantedDirectory, ...]) -> bool:
    return find_uncovered(value, bound) is None


SAME = Narrows(eq, "differs from")
"""No other value."""
FREE = Narrows(_accept_anything)
"""Any value: none allows more than another."""
AMONG = Narrows(_is_among)
"""A list with no other members."""
SUPERSET = Narrows(_is_superset)
"""A list of names with all members, or more."""
FEWER = Narrows(_fewer_names)
"""A list of names with no other members; an empty one means everything."""
COVERED = Narrows(_is_covered)
"""Directories that are, or are below, directories with as much access."""
EARLIER = Narrows(_is_earlier)

Permission = Annotated[bool, Narrows(ge)]
"""Whether something is allowed: `false` is narrower."""
Safeguard = Annotated[bool, Narrows(le)]
"""Whether something protects: `true` is narrower."""
Count = Annotated[int, Field(ge=0), SMALLER]
"""A maximum that may be 0."""
AllowedNames = Annotated[tuple[str, ...], Narrows(_is_allowed)]
"""Names of what is allowed: fewer are narrower, and `*` means everything."""
OwnersPath = Annotated[Path, SAME, Mark.OWNERS_ONLY]
"""A path of the machine's owner or the user. A later source cannot change it."""
