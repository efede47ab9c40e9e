"""The depth of JSON values: one that was read near the limit of a stack cannot be written again."""

from typing import TYPE_CHECKING, cast

from paddock.model.base import Json

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_DEPTH = 200
"""Maximum depth of an untrusted value; later stages, in Paddock and behind it, must be able to write it."""


def is_deeper(value: Json, limit: int) -> bool:
    """Return whether a value has more than `limit` levels of objects and arrays."""
    level: list[Iterable[Json]] = [[value]]
    for _ in range(limit + 1):
        deeper: list[Iterable[Json]] = []
        for container in level:
            for child in container:
                if isinstance(child, list):
                    deeper.append(cast("list[Json]", child))
                elif isinstance(child, dict):
                    deeper.append(cast("dict[str, Json]", child).values())
        if not deeper:
            return False
        level = deeper
    return True
