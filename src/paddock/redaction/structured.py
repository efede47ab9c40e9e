"""JSON values: every text and name in them is redacted, and a name decides about its value as it does in a text."""

from collections.abc import Callable, Generator
from typing import Any

from paddock.model.base import Json


def map_scalars(value: Json, change: Callable[[Any], Any]) -> Json:
    """Return a copy of a JSON value with every scalar and every name of a member changed, at any depth."""
    members = walk_members(value)
    try:
        _, scalar = next(members)
        while True:
            _, scalar = members.send(change(scalar))
    except StopIteration as end:
        return end.value


def walk_members(value: Json) -> Generator[tuple[str | None, Any], Any, Json]:
    """Return a copy of a JSON value; yield its scalars and names, at any depth, and take what replaces each.

    A scalar comes with the name of its member, also from lists in lists; names, and scalars without one, with None.
    """
    root: list[Any] = [value]
    todo: list[tuple[dict[str, Any] | list[Any], str | None]] = [(root, None)]
    while todo:
        container, name = todo.pop()
        members = list(container.items() if isinstance(container, dict) else enumerate(container))
        if isinstance(container, dict):
            container.clear()
        for key, child in members:
            if isinstance(container, dict):
                name = key  # noqa: PLW2901
                key = yield None, key  # noqa: PLW2901
            if isinstance(child, dict | list | tuple):
                copy: Any = dict(child) if isinstance(child, dict) else list(child)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                todo.append((copy, name))
                container[key] = copy
            else:
                container[key] = yield name, child
    return root[0]
