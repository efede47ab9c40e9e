"""JSON values: every text and name in them is redacted, and a name decides about its value as it does in a text."""

from collections.abc import Callable
from typing import Any

from paddock.model.base import Json

Copy = dict[str, Any] | list[Any]


def map_scalars(value: Json, change: Callable[[Any], Any]) -> Json:
    """Return a copy of a JSON value with every scalar and every name of a member changed, at any depth."""
    return map_members(value, change, lambda _name, scalar: change(scalar))


def map_members(value: Json, change: Callable[[Any], Any], change_member: Callable[[str, Any], Any]) -> Json:
    """Return a copy of a JSON value with its scalars and names changed, at any depth.

    `change_member` takes the name of a member and its scalar, or each scalar of its list.
    """
    root: list[Any] = [value]
    todo: list[tuple[Copy, str | None]] = [(root, None)]

    def take(child: Json, name: str | None) -> Json:
        if not isinstance(child, dict | list | tuple):
            return change(child) if name is None else change_member(name, child)
        copy: Copy = dict(child) if isinstance(child, dict) else list(child)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        todo.append((copy, name))
        return copy

    while todo:
        container, name = todo.pop()
        if isinstance(container, dict):
            members = list(container.items())
            container.clear()
            for key, child in members:
                container[change(key)] = take(child, key)
        else:
            container[:] = [take(child, name) for child in container]
    return root[0]
