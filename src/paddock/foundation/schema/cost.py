"""What checking one value with one schema costs, counted before the validator runs.

Validation is a walk over pairs of schema and value. Keywords such as `allOf` and `$ref` look at the same value again,
and references make few bytes into many looks: thirty definitions that name the one before them twice are a billion.
The count walks the value once, with the set of schemas that look at each part of it:

    state of a part   how often each schema looks at it, keywords of the same value followed
    step              from the state of a list or an object to that of its items, of a member, or of its names

States and steps are cached, as a regular expression caches those of its automaton. Every keyword counts as if it
applied. No state has more than MAX_LOOKS looks, and no step takes longer than the looks that it finds. Therefore the
count itself is bounded, whatever the schema says.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from math import frexp
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote, urldefrag, urljoin

from paddock.foundation.schema.pattern_cost import measure_patterns
from paddock.model.base import Json
from paddock.model.json_meter import MAX_CHECKED_VALUES

MAX_LOOKS = 1_000
"""Looks at one part of a value; a schema that people write needs a few."""
MAX_PARTS = 3_000
MAX_VALUES = 50_000
"""JSON values in a schema and names of members, those of `enum`, `const` and `required` too."""
MAX_WORK = MAX_CHECKED_VALUES
"""Looks at all parts of a value, and what takes as long: 50 ms, with numbers that are slow to compare 300 ms."""
_MAX_LEVELS = 64
_MAX_VALUE_LEVELS = 4_000
"""Levels of a value; the validator takes a stack frame for each."""
_MAX_CACHED = 100_000
"""Entries of cached states."""

_KEYWORDS: dict[str, Literal["same", "member", "item", "name", "reference"]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"), "same"),
    **dict.fromkeys(("dependentSchemas", "dependencies"), "same"),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), "member"),
    "unevaluatedProperties": "member",
    "propertyNames": "name",
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems"), "item"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), "reference"),
}
"""Keywords that hold schemas: of the same value, its members, items or names, or elsewhere."""
_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_SAME, _ANY, _ITEM, _NAME = "same", "member", "item", "name"
"""Edges, beside `/NAME` for a member of that name."""
_META_HOST = "://json-schema.org/"
_ID_CHARS = 2_000
_MAX_POINTER_CHARS = 60
_MAX_INDEX_DIGITS = 10

_ENTRIES_PER_LOOK = {"enum": 64, "dependentRequired": 4, "dependentSchemas": 4, "dependencies": 4}
"""Entries of a keyword that take as long as one look."""
_WHOLE_VALUE_LOOKS = 5
"""Looks that comparing with a list or an object of `enum` stands for, at each part of the value."""
_UNEVALUATED, _UNEVALUATED_FACTOR = frozenset({"unevaluatedProperties", "unevaluatedItems"}), 3
"""What `unevaluated...` multiplies: it asks all that looks at the same value once more what it has evaluated."""
_FRACTION_LOOKS = 20
"""Looks that dividing by a fraction stands for, with a quarter of one for each binary place of a tiny one."""
_PATTERN_LOOKS = 5
"""Looks that a character stands for that meets a pattern, for each KiB of the pattern: it may meet all its states."""
_WORD_BITS = 50
"""Bits of a number that are one more part: to divide a large one takes longer."""
_PART_CHARS = 200
"""Characters that take as long to copy as one part of a value."""
_WORD_CHARS = 15
"""Characters that take as long to tell as a number or a word."""
_MIN_INT64, _INT64_LIMIT = -(2**63), 2**63
_TOO_OFTEN = f"it looks more than {MAX_LOOKS} times at one value"
_TOO_LONG = "the value is too large for its schema, or takes too long to check with it; pass less at once"

Schema = dict[str, Any]


class CostlySchemaError(ValueError):
    """A schema that looks too often at one value, or into itself without end."""


class CostlyValueError(ValueError):
    """A value that its schema would take too long to check, or to say what is wrong with."""


class ValueCost(NamedTuple):
    """What checking a value costs at most."""

    work: int
    """Looks at all its parts, and what takes as long."""
    most_looks: int
    """Looks at the part that has most of them."""
    error_chars: int
    """Characters in all errors: each copies its path and what it is about, and most a part of the schema."""


class _Weight(NamedTuple):
    """What one look of a schema costs; in a state all looks at a part, and what those above say of all within."""

    looks: int = 0
    errors: int = 0
    """Looks, and names that an object is asked for: each that is missing is an error with a copy of the object."""
    pattern_kib: int = 0
    """Size of the patterns that a text is matched against."""
    name_kib: int = 0
    """Size of the patterns that each name of a member is matched against."""
    deep: int = 0
    """Looks at each part within, too, by options that are compared with all of it."""
    compared: int = 0
    """Numbers in `enum` and `const`, which are compared with those within, too."""
    unique: int = 0
    """Looks for equal items, each of which is compared with all that is within."""
    copies: int = 0
    """Errors that have a copy of the part: its own, and those above."""

    def plus(self, other: "_Weight", times: int) -> "_Weight":
        return _Weight(*(a + times * b for a, b in zip(self, other, strict=True)))

    def inherit(self) -> "_Weight":
        """Return what is left of it for everything within."""
        return _Weight(0, 0, 0, 0, self.deep, self.compared, self.unique, self.copies)


_PLAIN = _Weight(looks=1, errors=1, copies=1)


@dataclass(slots=True, eq=False)
class _CostState:
    """How often each schema looks at a part of a value, by the schema's number."""

    counts: Mapping[int, int]
    weight: _Weight
    next: dict[str, "_CostState"] = field(default_factory=dict[str, "_CostState"])


class SchemaCost:
    """The subschemas of a document by number, which look at which, and what a value costs with them."""

    def __init__(self, document: Schema) -> None:
        """Read a schema. Raises CostlySchemaError, and ValueError for its patterns."""
        self._characters = 0
        self._nodes: list[Schema] = []
        self._numbers: dict[int, int] = {}
        self._bases: list[str] = []
        self._names: dict[str, int] = {}
        self._anchors: dict[str, list[int]] = {}
        self._states: dict[tuple[frozenset[tuple[int, int]], _Weight], _CostState] = {}
        self._cached = 0
        self._collect_schemas(document)
        self._edges = [self._list_edges(number) for number in range(len(self._nodes))]
        sizes = measure_patterns(Counter(each for node in self._nodes for each in _list_patterns(node)))
        self._weights = [_weigh_schema(node, sizes) for node in self._nodes]
        self._same = [
            (edges.get(_SAME, []), _UNEVALUATED_FACTOR if node.keys() & _UNEVALUATED else 1)
            for node, edges in zip(self._nodes, self._edges, strict=True)
        ]
        self._refuse_costly()
        self._root = self._close({0: 1}, _Weight())

    def measure(self, value: Json) -> ValueCost:
        """Return what checking a value costs at most. Raises CostlyValueError for too much."""
        work = most_looks = error_chars = wide = most_unique = path_chars = of_names = levels = 0
        level: dict[_CostState, list[Json]] = {self._root: [value]}
        while level:
            below: defaultdict[_CostState, list[Json]] = defaultdict(list)
            max_name_chars = names_asked = 0
            for state, parts in level.items():
                looks, errors, pattern_kib, name_kib, deep, compared, unique, copies = state.weight
                copies += of_names
                told = looks * self._characters + errors * path_chars
                most_looks, most_unique = max(most_looks, looks), max(most_unique, unique)
                for part in parts:
                    cost, characters = looks + deep or 1, _PART_CHARS
                    match part:
                        case str():
                            characters += len(part)
                            cost += _PATTERN_LOOKS * pattern_kib * len(part)
                        case int() | float():
                            slow, words = _weigh_number(part)
                            wide += slow if isinstance(part, int) else 0
                            cost = cost * words + compared * slow
                        case list() | tuple() if part:
                            below[self._step(state, _ITEM)] += part
                        case dict() if part:
                            members = cast("dict[str, Json]", part)
                            name_chars = sum(map(len, members))
                            max_name_chars = max(max_name_chars, *map(len, members))
                            names_asked = max(names_asked, self._add_members(members, state, below))
                            characters += name_chars
                            cost += _PATTERN_LOOKS * name_kib * name_chars
                        case _:
                            pass
                    work += cost
                    error_chars += copies * characters + told
                if work + most_unique * wide * wide // 6 > MAX_WORK:
                    raise CostlyValueError(_TOO_LONG)
            levels += 1
            if levels > _MAX_VALUE_LEVELS:
                raise CostlyValueError(f"the value is nested more than {_MAX_VALUE_LEVELS} deep")
            level, path_chars, of_names = below, path_chars + max_name_chars, of_names + names_asked
        return ValueCost(work, most_looks, error_chars)

    def _add_members(
        self, members: dict[str, Json], state: _CostState, below: dict[_CostState, list[Json]]
    ) -> int:
        """Add the members of an object to those of its level, and its names where a schema looks at them.

        Returns how many errors the names may have, each of which has a copy of the object.
        """
        steps = state.next
        for name, member in members.items():
            key = f"/{name}"
            below[steps.get(key) or self._step(state, key)].append(member)
        names = self._step(state, _NAME)
        if not names.counts:
            return 0
        below[names] += members
        return names.weight.looks * len(members)

    def _step(self, state: _CostState, key: str) -> _CostState:
        """Return the state of items, names or members below a state. Raises CostlyValueError for too many looks."""
        found = state.next.get(key)
        if found is not None:
            return found
        keys = [key]
        if key.startswith("/"):
            if not any(key in self._edges[number] for number in state.counts):
                return self._step(state, _ANY)
            keys.append(_ANY)
        starts: Counter[int] = Counter()
        for number, count in state.counts.items():
            for each in keys:
                for target in self._edges[number].get(each, ()):
                    starts[target] += count
        found = state.next[key] = self._close(starts, state.weight.inherit())
        return found

    def _close(self, starts: Mapping[int, int], above: _Weight) -> _CostState:
        """Return the state in which schemas look so often at a value, keywords of the same value followed."""
        counts: dict[int, int] = {}
        looks = 0
        pending = list(starts.items())
        while pending:
            number, times = pending.pop()
            counts[number] = counts.get(number, 0) + times
            looks += times * self._weights[number].looks
            if looks > MAX_LOOKS:
                raise CostlyValueError(_TOO_LONG)
            targets, factor = self._same[number]
            if targets:
                pending += [(target, factor * times) for target in targets]
        key = frozenset(counts.items()), above
        if (known := self._states.get(key)) is not None:
            return known
        self._cached += 1 + len(counts)
        if self._cached > _MAX_CACHED:
            self._states, self._cached = {}, 0
            self._root = _CostState(self._root.counts, self._root.weight)
        plain = sum(times for number, times in counts.items() if self._weights[number] is _PLAIN)
        weight = above.plus(_PLAIN, plain)
        for number, times in counts.items():
            if self._weights[number] is not _PLAIN:
                weight = weight.plus(self._weights[number], times)
        return self._states.setdefault(key, _CostState(counts, weight))

    def _refuse_costly(self) -> None:
        """Raise CostlySchemaError where a value that any schema looks at would cost too much, whatever it is."""
        same: dict[int, list[int]] = {}
        reached = [0]
        for number in reached:  # grows as it goes; definitions that nothing refers to do no harm
            if number not in same:
                same[number] = self._same[number][0]
                reached += (target for targets in self._edges[number].values() for target in targets)
        looks, levels = dict[int, int](), dict[int, int]()
        try:
            for number in TopologicalSorter(same).static_order():
                below = sum(looks[each] for each in same[number])
                looks[number] = self._weights[number].looks + self._same[number][1] * below
                levels[number] = 1 + max((levels[each] for each in same[number]), default=0)
                if looks[number] > MAX_LOOKS:
                    raise CostlySchemaError(_TOO_OFTEN)
                if levels[number] > _MAX_LEVELS:
                    raise CostlySchemaError(f"it follows more than {_MAX_LEVELS} references for one value")
        except CycleError:
            raise CostlySchemaError("it refers to itself without end") from None

    def _collect_schemas(self, document: Schema) -> None:
        pending: list[tuple[Json, str]] = [(document, "")]
        values = 0
        while pending:
            value, base = pending.pop()
            if isinstance(value, dict):
                schema = cast("Schema", value)
                base = self._add_schema(schema, base)
                members = [*schema, *schema.values()]
            elif isinstance(value, list):
                members = cast("list[Json]", value)
            else:
                self._characters += len(value) if isinstance(value, str) else _WORD_CHARS
                self._characters += value.bit_length() // 4 if isinstance(value, int) else 0
                continue
            values += len(members)
            if values > MAX_VALUES:
                raise CostlySchemaError(f"it has more than {MAX_VALUES} values")
            pending += [(child, base) for child in members]

    def _add_schema(self, schema: Schema, base: str) -> str:
        """Give a number to what may be a schema; return the address that schemas within it are relative to."""
        if len(self._nodes) >= MAX_PARTS:
            raise CostlySchemaError(f"it has more than {MAX_PARTS} parts")
        number = len(self._nodes)
        if isinstance(own := schema.get("$id"), str):
            base = urljoin(base, own[: _ID_CHARS + 1]).removesuffix("#")
            if len(base) > _ID_CHARS:
                raise CostlySchemaError(f"its $id has more than {_ID_CHARS} characters")
            self._names.setdefault(f"{base}#", number)
        self._nodes.append(schema)
        self._numbers[id(schema)] = number
        self._bases.append(base)
        if number == 0:
            self._names.setdefault("#", number)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(key), str):
                self._names.setdefault(f"{base}#{anchor}", number)
                self._anchors.setdefault(anchor, []).append(number)
        return base

    def _list_edges(self, number: int) -> dict[str, list[int]]:
        """Return the schemas that one holds, by what they look at."""
        edges: dict[str, list[int]] = {}
        for keyword, child in self._nodes[number].items():
            kind = _KEYWORDS.get(keyword)
            if kind == "reference":
                targets = self._find_targets(child, number, keyword) if isinstance(child, str) else []
                edges.setdefault(_SAME, []).extend(targets)
                continue
            children: Iterable[tuple[str, Json]] = [("", child)]
            if isinstance(child, list):
                children = (("", each) for each in cast("list[Json]", child))
            elif keyword in _MAP_KEYWORDS and isinstance(child, dict):
                children = cast("Schema", child).items()
            for name, each in children:
                if kind is not None and isinstance(each, dict):
                    key = f"/{name}" if keyword == "properties" else kind
                    edges.setdefault(key, []).append(self._numbers[id(each)])  # pyright: ignore[reportUnknownArgumentType]
        return edges

    def _find_targets(self, reference: str, number: int, keyword: str) -> list[int]:
        address, fragment = urldefrag(urljoin(self._bases[number], reference))
        if keyword != "$ref" and fragment in self._anchors:
            return self._anchors[fragment]
        pointer = unquote(fragment)
        if (found := self._names.get(f"{address}#{pointer}")) is not None:
            return [found]
        if (root := self._names.get(f"{address}#")) is not None and pointer.startswith("/"):
            at = _resolve_pointer(self._nodes[root], pointer)
            if isinstance(at, bool):
                return []
            if isinstance(at, dict):
                return [self._numbers[id(at)]]  # pyright: ignore[reportUnknownArgumentType]
        if _META_HOST in address:
            return []
        raise CostlySchemaError(
            f"the reference {reference[:_MAX_POINTER_CHARS]!r} leads out of it; nothing is fetched"
        )


def _resolve_pointer(root: Schema, pointer: str) -> Json:
    """Return what a JSON pointer (RFC 6901) leads to, None when it leads nowhere."""
    at: Json = root
    steps = pointer.split("/", _MAX_LEVELS + 1)[1:]
    if len(steps) > _MAX_LEVELS:
        raise CostlySchemaError(f"a reference of it has more than {_MAX_LEVELS} steps")
    for step in steps:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict):
            at = cast("Schema", at).get(name)
        elif isinstance(at, list) and name.isdecimal() and len(name) < _MAX_INDEX_DIGITS:
            at = (*cast("list[Json]", at), None)[min(int(name), len(at))]  # pyright: ignore[reportUnknownArgumentType]
        else:
            return None
    return at


def _list_patterns(schema: Schema) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(members := schema.get("patternProperties"), dict):
        yield from cast("Schema", members)


def _weigh_schema(schema: Schema, sizes: Mapping[str, int]) -> _Weight:
    """Return what one look of a schema costs; `sizes` are the KiB of patterns."""
    looks = 1
    for keyword, share in _ENTRIES_PER_LOOK.items():
        entries = schema.get(keyword)
        looks += len(entries) // share if isinstance(entries, list | dict) else 0  # pyright: ignore[reportUnknownArgumentType]
    options = _as_list(schema.get("enum"))
    whole = _WHOLE_VALUE_LOOKS * sum(isinstance(each, list | dict) for each in options)
    for keyword in ("allOf", "anyOf", "oneOf"):
        looks += sum(isinstance(each, bool) for each in _as_list(schema.get(keyword)))
    divisor = schema.get("multipleOf")
    if isinstance(divisor, float) and not divisor.is_integer():
        looks += _FRACTION_LOOKS + max(0, -_FRACTION_LOOKS - frexp(divisor)[1]) // 4
    asked = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(members := schema.get(keyword), dict):
            asked += cast("Schema", members).values()
    numbers = list(_iterate_numbers([options, schema.get("const")]))
    pattern, members = schema.get("pattern"), schema.get("patternProperties")
    errors = looks + whole + sum(len(_as_list(each)) for each in asked)
    weight = _Weight(
        looks=looks + whole,
        errors=errors,
        copies=errors,
        deep=whole + sum(_weigh_number(each)[0] for each in numbers),
        compared=len(numbers),
        unique=int(schema.get("uniqueItems") is True),
        pattern_kib=sizes[pattern] if isinstance(pattern, str) else 0,
        name_kib=sum(sizes[each] for each in cast("Schema", members)) if isinstance(members, dict) else 0,
    )
    return _PLAIN if weight == _PLAIN else weight


def _iterate_numbers(value: Json) -> Iterator[int | float]:
    """Yield the numbers in a value, at any depth."""
    pending: list[Json] = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, list):
            pending += cast("list[Json]", each)
        elif isinstance(each, dict):
            pending += cast("Schema", each).values()
        elif isinstance(each, int | float) and not isinstance(each, bool):
            yield each


def _weigh_number(number: float) -> tuple[int, int]:
    """Return how much longer a number takes to compare than whole numbers of 64 bits, and to divide than a short one.

    To compare two numbers of which one is a fraction, or larger, takes a third of a microsecond and more; fractions
    near zero take a hundred times that.
    """
    if isinstance(number, int):
        bits = number.bit_length()
        if bits < _WORD_BITS:
            return 0, 1
        return 0 if _MIN_INT64 <= number < _INT64_LIMIT else 2 + bits // 64, 1 + bits // _WORD_BITS
    places = frexp(number)[1]
    return 8 + max(0, places) // 64 + max(0, -places) // 8, 1 + max(0, places) // _WORD_BITS


def _as_list(value: Json) -> list[Json]:
    return cast("list[Json]", value) if isinstance(value, list) else []
