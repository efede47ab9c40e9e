"""Annotations of settings: what narrows each, and who may set it. A setting without one is an error at import."""

from enum import Enum
from pathlib import Path
from typing import Annotated

from pydantic import Field

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
    return Narrows(lambda bound, value: weakest_first.index(value) >= weakest_first.index(bound))


def _is_earlier(bound: str, value: str) -> bool:
    """Compare dates of which an empty one is no bound; the common beginning of two notations decides."""
    length = min(len(bound), len(value))
    return not bound or (bool(value) and value[:length] <= bound[:length])


SAME = Narrows(lambda bound, value: bound == value, "differs from")
"""No other value."""
FREE = Narrows(lambda _bound, _value: True)
"""Any value: none allows more than another."""
AMONG = Narrows(lambda bound, value: all(each in bound for each in value))
"""A list with no other members."""
SUPERSET = Narrows(lambda bound, value: set(value) >= set(bound))
"""A list of names with all members, or more."""
FEWER = Narrows(lambda bound, value: not bound or (bool(value) and set(value) <= set(bound)))
"""A list of names with no other members; an empty one means everything."""
EARLIER = Narrows(_is_earlier)

Permission = Annotated[bool, Narrows(lambda bound, value: bound or not value)]
"""Whether something is allowed: `false` is narrower."""
Safeguard = Annotated[bool, Narrows(lambda bound, value: value or not bound)]
"""Whether something protects: `true` is narrower."""
Count = Annotated[int, Field(ge=0), SMALLER]
"""A maximum that may be 0."""
AllowedNames = Annotated[
    tuple[str, ...], Narrows(lambda bound, value: "*" in bound or set(value) <= set(bound))
]
"""Names of what is allowed: fewer are narrower, and `*` means everything."""
OwnersPath = Annotated[Path, SAME, Mark.OWNERS_ONLY]
"""A path that belongs to the owner of the machine or the user; who may set it is bound to an earlier one."""
