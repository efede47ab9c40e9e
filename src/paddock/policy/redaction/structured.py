"""Walk JSON values for redaction: every string and name is redacted, and a name helps to judge its value."""

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
    """Return a copy of a JSON value; yield its scalars and names, at any depth, and receive the replacement of each.

    A scalar is yielded with the name of its member, also from within lists; names, and scalars without one, with None.
    """
    root: list[Any] = [value]
    todo: list[tuple[Any, str | None]] = [(root, None)]
    while todo:
        container, name = todo.pop()
        is_object = isinstance(container, dict)
        members: list[tuple[Any, Any]] = list(container.items() if is_object else enumerate(container))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if is_object:
            container.clear()
        for index, child in members:
            key = index
            if is_object:
                name = index
                key = yield None, index
            if isinstance(child, dict | list | tuple):
                container[key] = dict(child) if isinstance(child, dict) else list(child)  # pyright: ignore[reportUnknownArgumentType]
                todo.append((container[key], name))
            else:
                container[key] = yield name, child
    return root[0]
