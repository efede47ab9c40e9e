"""Set or remove one entry in a client's configuration file: JSON with or without comments, TOML, YAML.

The rest of the file is unchanged, byte for byte in JSON and YAML, and as `tomlkit` preserves it in TOML. The result is
parsed again and compared with the intended document; an edit with another effect is rejected.
"""

import copy
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any, Protocol, cast

from paddock.surfaces.cli.clients import jsonc

_KEPT_VALUES = frozenset({"command", "args", "cmd", "type"})
"""Keys of an entry that Paddock writes; the user's values of all other keys are kept."""


class EditError(Exception):
    """A file cannot be edited; the text says why, with line and column if the file is at fault."""


class _Format(Protocol):
    def load(self, text: str) -> object:
        """Return the document in a text. Raises ValueError."""
        ...

    def set(self, text: str, path: Sequence[str], value: object) -> str:
        """Return the text with the member at a path set. Raises ValueError."""
        ...

    def remove(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the member at a path. Raises ValueError."""
        ...


def read_entries(text: str, file: PurePath, key: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a file by name; none if the object is missing. Raises EditError."""
    try:
        found: object = _format_of(file).load(text)
    except (ValueError, RecursionError) as error:
        raise EditError(_one_line(error)) from None
    for depth, name in enumerate(("", *key)):
        if depth:
            found = cast("dict[str, object]", found).get(name)
        if depth and found is None:  # missing or `null`
            return {}
        if not isinstance(found, dict):
            raise EditError(_no_object(key[:depth]))
    return cast("dict[str, Any]", found)


def edit_entry(text: str, file: PurePath, path: Sequence[str], entry: Mapping[str, Any] | None) -> str:
    """Return the text of a file with an entry set at a path, or without the entry for None.

    In an existing entry, only the command and its arguments change; missing keys are added. Raises EditError.
    """
    form = _format_of(file)
    try:
        before = form.load(text)
        wanted, changes = _plan_edit(before, path, entry)
        after = text
        for where, value in changes:
            after = form.set(after, where, value)
        if entry is None and wanted != before:
            after = form.remove(after, path)
        # An empty object on the path to the entry may be missing.
        if _prune_empty(form.load(after), path) != _prune_empty(wanted, path):
            raise EditError("it uses a notation that Paddock does not edit")
    except (ValueError, RecursionError) as error:
        raise EditError(_one_line(error)) from None
    return after


def _plan_edit(
    before: object, path: Sequence[str], entry: Mapping[str, Any] | None
) -> tuple[object, Sequence[tuple[Sequence[str], object]]]:
    """Return the intended document, and the members to set for it. Raises EditError."""
    wanted = copy.deepcopy(before)
    node: object = wanted
    for depth, name in enumerate(path[:-1]):
        if not isinstance(node, dict):
            raise EditError(_no_object(path[:depth]))
        held = cast("dict[str, object]", node)
        if held.get(name) is None:
            if entry is None:
                return before, []
            value: object = dict(entry)
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            changes = [(path[: depth + 1], value)] if name in held else [(path, dict(entry))]
            held[name] = value
            return wanted, changes  # `null` is replaced, and missing objects are created
        node = held[name]
    if not isinstance(node, dict):
        raise EditError(_no_object(path[:-1]))
    holder = cast("dict[str, Any]", node)
    if entry is None:
        holder.pop(path[-1], None)
        return (wanted if wanted != before else before), []
    there: object = holder.get(path[-1])
    if not isinstance(there, dict):
        holder[path[-1]] = dict(entry)
        return wanted, [(path, dict(entry))]
    fields = cast("dict[str, Any]", there)
    new = {
        key: value
        for key, value in entry.items()
        if key not in fields or (key in _KEPT_VALUES and fields[key] != value)
    }
    fields.update(new)
    return wanted, [((*path, key), value) for key, value in new.items()]


def _no_object(path: Sequence[str]) -> str:
    return f"`{'.'.join(path)}` is not an object" if path else "the file as a whole is not an object"


def _prune_empty(document: object, path: Sequence[str]) -> object:
    if not path or not isinstance(document, dict):
        return document
    held = cast("dict[str, object]", document)
    below = _prune_empty(held.get(path[0]), path[1:])
    rest = {name: value for name, value in held.items() if name != path[0]}
    return rest if below in (None, {}) else {**rest, path[0]: below}


def _one_line(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())


def _format_of(file: PurePath) -> _Format:
    match file.suffix:
        case ".toml":
            return _Toml()
        case ".yaml" | ".yml":
            return _Yaml()
        case _:
            return _Json()


class _Json:
    def load(self, text: str) -> object:
        return jsonc.parse(text).value if text.strip() else {}

    def set(self, text: str, path: Sequence[str], value: object) -> str:
        return jsonc.set_member(text if text.strip() else "{}\n", path, value)

    def remove(self, text: str, path: Sequence[str]) -> str:
        return jsonc.remove_member(text, path)


class _Toml:
    def load(self, text: str) -> object:
        return tomllib.loads(text)

    def set(self, text: str, path: Sequence[str], value: object) -> str:
        import tomlkit

        document: Any = tomlkit.parse(text)
        node = document
        for depth, name in enumerate(path[:-1]):
            if name not in node:
                is_last = depth == len(path) - 2
                node[name] = tomlkit.table(is_super_table=is_last and isinstance(value, dict))
            node = node[name]
        there = node.get(path[-1])
        items = cast("list[object]", value)
        if jsonc.is_item_edit(there, items):
            for at, item in enumerate(items[: len(there)]):
                if there[at] != item:
                    there[at] = item
            for item in items[len(there) :]:
                there.append(item)
        else:
            node[path[-1]] = value
        return tomlkit.dumps(document)

    def remove(self, text: str, path: Sequence[str]) -> str:
        import tomlkit

        document: Any = tomlkit.parse(text)
        node = document
        for name in path[:-1]:
            node = node[name]
        del node[path[-1]]
        return tomlkit.dumps(document)


class _Yaml:
    """YAML, edited by the lines of block mappings; PyYAML reports their positions."""

    def load(self, text: str) -> object:
        import yaml

        try:
            found: object = yaml.safe_load(text)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
            raise ValueError(f"{where}{error.problem}") from None
        except yaml.YAMLError as error:
            raise ValueError(str(error)) from None
        return {} if found is None else found

    def set(self, text: str, path: Sequence[str], value: object) -> str:
        nodes = self._find_nodes(text, path[:-1])
        if (
            len(nodes) == len(path)
            and (edited := self._set_in_place(text, nodes[-1], path[-1], value)) is not None
        ):
            return edited
        for outer in reversed(path[len(nodes) :]):  # the missing part of the path
            value = {outer: value}
        return self._set_in_last(text, nodes, path[len(nodes) - 1], value)

    def remove(self, text: str, path: Sequence[str]) -> str:
        nodes = self._find_nodes(text, path[:-1])
        if len(nodes[-1].value) == 1 and len(nodes) > 1:
            return self._set_in_last(text, nodes[:-1], path[-2], {})
        lines = text.splitlines(keepends=True)
        first, last = self._find_span(nodes[-1], path[-1])
        return "".join([*lines[:first], *lines[last + 1 :]])

    def _find_nodes(self, text: str, path: Sequence[str]) -> list[Any]:
        """Return the block mappings on a path, starting with the document's own, as far as they exist."""
        import yaml

        node: Any = yaml.compose(text, Loader=yaml.SafeLoader)
        found = [node]
        for name in path:
            pairs: list[tuple[Any, Any]] = node.value if isinstance(node, yaml.MappingNode) else []
            node = next((value for key, value in pairs if key.value == name), None)
            if not isinstance(node, yaml.MappingNode) or not node.value:
                break
            found.append(node)
        if any(each is not None and each.flow_style for each in found):
            raise ValueError("it is written in flow style, which Paddock does not edit")
        return found

    def _set_in_last(self, text: str, nodes: Sequence[Any], name: str, value: object) -> str:
        """Return the text with a member set in the last of some mappings."""
        import yaml

        mapping = nodes[-1]
        indent = " " * (mapping.start_mark.column if mapping is not None else 0)
        dumped = yaml.safe_dump({name: value}, sort_keys=False, allow_unicode=True, width=1_000_000)
        block = [f"{indent}{line}" for line in dumped.splitlines(keepends=True)]
        lines = text.splitlines(keepends=True)
        if mapping is None:
            first = last = len(lines)
        elif any(key.value == name for key, _ in mapping.value):
            first, last = self._find_span(mapping, name)
            last += 1
        else:
            first = last = self._last_line(mapping) + 1
        if first and first <= len(lines) and not lines[first - 1].endswith("\n"):
            lines[first - 1] += "\n"
        return "".join([*lines[:first], *block, *lines[last:]])

    def _set_in_place(self, text: str, mapping: Any, name: str, value: object) -> str | None:  # noqa: ANN401 - as below
        """Return the text with a scalar or the items of a list replaced in place; None if that is not possible."""
        import yaml

        pairs: list[tuple[Any, Any]] = [] if mapping is None else mapping.value
        node = next((held for key, held in pairs if key.value == name), None)
        is_list = isinstance(node, yaml.SequenceNode)
        nodes: list[Any] = node.value if is_list else [node]
        new = cast("list[object]", value) if is_list and isinstance(value, list) else [value]
        if any(not isinstance(each, yaml.ScalarNode) or each.style in ("|", ">") for each in nodes):
            return None
        old = [each.value for each in nodes]
        if not jsonc.is_item_edit(old, new) or any(isinstance(each, list | dict) for each in new):
            return None
        words = [
            yaml.safe_dump([each], default_flow_style=True, allow_unicode=True, width=1_000_000)[1:-2]
            for each in new
        ]
        added = words[len(old) :]
        edited = self._add_items(text, node, added) if added else text
        for each, was, now, word in reversed(list(zip(nodes, old, new, words, strict=False))):
            if was != now:
                edited = edited[: each.start_mark.index] + word + edited[each.end_mark.index :]
        return edited

    def _add_items(self, text: str, node: Any, words: Sequence[str]) -> str:  # noqa: ANN401 - as below
        """Return the text with items at the end of a list."""
        last = node.value[-1]
        if node.flow_style:
            end = last.end_mark.index
            return text[:end] + "".join(f", {word}" for word in words) + text[end:]
        lines = text.splitlines(keepends=True)
        after = self._last_line(last) + 1
        if not lines[after - 1].endswith("\n"):
            lines[after - 1] += "\n"
        block = [f"{' ' * node.start_mark.column}- {word}\n" for word in words]
        return "".join([*lines[:after], *block, *lines[after:]])

    def _find_span(self, mapping: Any, name: str) -> tuple[int, int]:  # noqa: ANN401 - PyYAML has no types for nodes
        """Return the first and the last line of a member."""
        key, value = next(pair for pair in mapping.value if pair[0].value == name)
        return key.start_mark.line, max(key.end_mark.line, self._last_line(value))

    def _last_line(self, node: Any) -> int:  # noqa: ANN401 - PyYAML has no types for nodes
        """Return the last line of a value's content: PyYAML includes following blank lines."""
        import yaml

        if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
            key, value = node.value[-1]
            return max(key.end_mark.line, self._last_line(value))
        if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
            return self._last_line(node.value[-1])
        at_line_start = node.end_mark.column == 0 and node.end_mark.line > node.start_mark.line
        return node.end_mark.line - 1 if at_line_start else node.end_mark.line
