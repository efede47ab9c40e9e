"""How often a schema may look at one value: what keeps a hostile schema from costing time (no source but arithmetic).

Validation is a walk over pairs of schema and value. Keywords such as `allOf` and `$ref` look at the same value again,
and references make few bytes into many looks: thirty definitions that name the one before them twice are a billion.
So the looks are counted before anything is validated, level by level: in-place keywords add up, and a member of a
value meets the sum of what its parents' keywords say about its name. Everything is counted as if it applied. What
the counting itself costs is bounded too: nothing is compiled before.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import frexp
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import unquote, urldefrag, urljoin

from paddock.model.base import Json
from paddock.schema.number_cost import list_numbers

MAX_LOOKS = 1_000
"""Looks at one value; a schema that people write needs a few."""
MAX_PARTS = 3_000
MAX_VALUES = 50_000
"""JSON values in a schema and names of members, those of `enum`, `const` and `required` too."""
_MAX_LEVELS = 64
_MAX_STEPS = 20_000
"""References and members that are followed while counting; after that, deeper values are refused."""

_KEYWORDS: dict[str, Literal["same", "member", "reference"]] = {
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "not", "if", "then", "else"), "same"),
    **dict.fromkeys(("dependentSchemas", "dependencies"), "same"),
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), "member"),
    **dict.fromkeys(("unevaluatedProperties", "propertyNames", "unevaluatedItems"), "member"),
    **dict.fromkeys(("items", "prefixItems", "additionalItems", "contains"), "member"),
    **dict.fromkeys(("$ref", "$dynamicRef", "$recursiveRef"), "reference"),
}
"""Keywords that hold schemas: of the same value, of its members and items, or elsewhere."""
_MAP_KEYWORDS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_META_HOST = "://json-schema.org/"
_ANY = "*"
_ITEM = "[]"
_ITEMS = ("items", "prefixItems", "additionalItems", "contains", "unevaluatedItems")
_ID_CHARS = 2_000
_ENTRIES_PER_LOOK = {"enum": 64, "dependentRequired": 4, "dependentSchemas": 4, "dependencies": 4}
"""Entries of a keyword that take as long as one look."""
_WHOLE_VALUE_LOOKS = 5
"""Looks that comparing with a list or an object of `enum` stands for, at each part of the value."""
_UNEVALUATED_FACTOR = 3
"""What `unevaluated...` multiplies: it asks all that looks at the same value once more what it has evaluated."""
_FRACTION_LOOKS = 20
"""Looks that dividing by a fraction stands for, with a quarter of one for each binary place of a tiny one."""
_MAX_POINTER_CHARS = 60
_MAX_INDEX_DIGITS = 10
_WORD_CHARS = 15
"""Characters that take as long to tell as a number or a word."""
_TOO_OFTEN = f"it looks more than {MAX_LOOKS} times at one value"

Schema = dict[str, Any]
Edge = tuple[str | None, int]
"""What is looked at (`/NAME`: a member; `*`: any member; `[]`: any item; None: the value itself), and the schema's
number."""


class CostlySchemaError(ValueError):
    """A schema that looks too often at one value, or into itself without end."""


@dataclass(frozen=True, slots=True)
class SchemaCost:
    """What a schema costs at most."""

    looks: int
    """Most looks at one value, at any depth up to `depth`."""
    depth: int | None
    """Depth below which looks are within bounds; None when they are so at every depth."""
    patterns: Mapping[str, int] = field(default_factory=dict[str, int])
    """Patterns that texts are matched against, and how often the schema has each."""
    matched: frozenset[str] = frozenset()
    """Where those texts are: `/NAME` of a member, `*` any member, `[]` any item, `` the value itself."""
    compared: int = 0
    """Most numbers of `enum` and `const` that one value is compared with."""
    odd: int = 0
    """What those of them stand for that take long (`paddock.schema.number_cost`)."""
    unique: int = 0
    """How often the items of one list are looked at for equal ones."""
    asked: int = 0
    """Most names that one object is asked for: each that is missing is an error with a copy of the object."""
    names: bool = False
    """Whether the names of members are looked at: each that is wrong is such an error, too."""
    characters: int = field(default=0, compare=False)
    """Characters of the schema's texts and numbers; what is told of an error may hold many of them."""


def compute_cost(document: Json) -> SchemaCost:
    """Return what validating with a schema costs at most. Raises CostlySchemaError."""
    if not isinstance(document, dict):
        return SchemaCost(1, None)
    graph = _Graph(cast("Schema", document))
    level = graph.close_level(Counter({0: 1}))
    most = graph.sum_looks(level)
    if most.looks > MAX_LOOKS:
        raise CostlySchemaError(_TOO_OFTEN)
    return graph.make_cost(*_follow_levels(graph, level, most))


def _follow_levels(graph: "_Graph", level: Counter[int], most: "_MaxCost") -> tuple["_MaxCost", int | None]:
    """Return what one value costs at most at any depth, and the depth below which that is not known."""
    seen: set[frozenset[tuple[int, int]]] = set()
    for depth in range(1, _MAX_LEVELS):
        state = frozenset(level.items())
        if not level or state in seen:
            return most, None
        seen.add(state)
        level, below = graph.find_next_level(level)
        if below.looks > MAX_LOOKS or graph.steps > _MAX_STEPS:
            return most, depth
        most = most.or_more(below)
    return most, _MAX_LEVELS


class _MaxCost(NamedTuple):
    """What one value costs at most."""

    looks: int
    asked: int
    compared: int
    odd: int
    unique: int

    def or_more(self, other: "_MaxCost") -> "_MaxCost":
        return _MaxCost(*map(max, self, other))


class _Graph:
    """The subschemas of a document by number, and which look at which."""

    def __init__(self, document: Schema) -> None:
        self.patterns: Counter[str] = Counter()
        self.characters = 0
        self.steps = 0
        self._nodes: list[Schema] = []
        self._costs: list[_MaxCost] = []
        self._closures: dict[int, Counter[int]] = {}
        self._edges: list[list[Edge]] = []
        self._numbers: dict[int, int] = {}
        self._bases: list[str] = []
        self._names: dict[str, int] = {}
        self._anchors: dict[str, list[int]] = {}
        self._collect_schemas(document)
        self._edges = [list(self._edges_of(number)) for number in range(len(self._nodes))]

    def make_cost(self, most: _MaxCost, depth: int | None) -> SchemaCost:
        """Return the cost of the schema, of which `most` is known down to `depth`."""
        return SchemaCost(
            most.looks,
            depth,
            self.patterns,
            self._find_matched(),
            compared=most.compared,
            odd=most.odd,
            unique=most.unique,
            asked=most.asked,
            names=any("propertyNames" in node for node in self._nodes),
            characters=self.characters,
        )

    def sum_looks(self, level: Counter[int]) -> _MaxCost:
        """Return what a value costs that is looked at as `level` says."""
        costs = [(count, self._costs[node]) for node, count in level.items()]
        return _MaxCost(
            *(sum(count * each[field] for count, each in costs) for field in range(len(_MaxCost._fields)))
        )

    def close_level(self, start: Counter[int]) -> Counter[int]:
        """Return the looks at a value, in-place keywords followed. Raises CostlySchemaError."""
        found: Counter[int] = Counter()
        for node, count in start.items():
            for other, times in self._compute_closure(node, ()).items():
                self.steps += 1
                found[other] += count * times
        return found

    def find_next_level(self, level: Counter[int]) -> tuple[Counter[int], _MaxCost]:
        """Return the most looks of every schema at one member of a value, and what one member costs at most."""
        by_name: dict[str, Counter[int]] = {}
        for node, count in level.items():
            for name, target in self._edges[node]:
                self.steps += 1
                if name is not None:
                    by_name.setdefault(_ANY if name == _ITEM else name, Counter())[target] += count
        everywhere = by_name.pop(_ANY, Counter[int]())
        most = self.close_level(everywhere)
        worst = self.sum_looks(most)
        for looks in by_name.values():
            looks.update(everywhere)
            member = self.close_level(looks)
            worst = worst.or_more(self.sum_looks(member))
            for node, count in member.items():
                most[node] = max(most[node], count)
        return most, worst

    def _compute_closure(self, node: int, path: tuple[int, ...]) -> Counter[int]:
        if node in self._closures:
            return self._closures[node]
        if node in path:
            raise CostlySchemaError("it refers to itself without end")
        if len(path) > _MAX_LEVELS:
            raise CostlySchemaError(f"it follows more than {_MAX_LEVELS} references for one value")
        found = Counter({node: 1})
        times = (
            _UNEVALUATED_FACTOR
            if self._nodes[node].keys() & {"unevaluatedProperties", "unevaluatedItems"}
            else 1
        )
        for name, target in self._edges[node]:
            if name is None:
                found.update(
                    {
                        other: times * looks
                        for other, looks in self._compute_closure(target, (*path, node)).items()
                    }
                )
                if found.total() > MAX_LOOKS:
                    raise CostlySchemaError(_TOO_OFTEN)
        self._closures[node] = found
        return found

    def _find_matched(self) -> frozenset[str]:
        """Return where texts are that patterns look at."""
        above: dict[int, list[int]] = {}
        for node, edges in enumerate(self._edges):
            for name, target in edges:
                if name is None:
                    above.setdefault(target, []).append(node)
        todo = [number for number, node in enumerate(self._nodes) if isinstance(node.get("pattern"), str)]
        reached = set(todo)
        while todo:
            new = [node for node in above.get(todo.pop(), ()) if node not in reached]
            reached.update(new)
            todo += new
        places = {name for edges in self._edges for name, to in edges if name is not None and to in reached}
        return frozenset(places | ({""} if 0 in reached else set()))

    def _collect_schemas(self, document: Schema) -> None:
        todo: list[tuple[Json, str]] = [(document, "")]
        values = 0
        while todo:
            value, base = todo.pop()
            if isinstance(value, dict):
                schema = cast("Schema", value)
                base = self._add_schema(schema, base)
                members = [*schema, *schema.values()]
            elif isinstance(value, list):
                members = cast("list[Json]", value)
            else:
                self.characters += len(value) if isinstance(value, str) else _WORD_CHARS
                self.characters += value.bit_length() // 4 if isinstance(value, int) else 0
                continue
            values += len(members)
            if values > MAX_VALUES:
                raise CostlySchemaError(f"it has more than {MAX_VALUES} values")
            todo += [(child, base) for child in members]

    def _add_schema(self, schema: Schema, base: str) -> str:
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
        if isinstance(pattern := schema.get("pattern"), str):
            self.patterns[pattern] += 1
        if isinstance(members := schema.get("patternProperties"), dict):
            self.patterns.update(cast("Schema", members).keys())
        found = list_numbers([schema.get("enum"), schema.get("const")])
        unique = int(schema.get("uniqueItems") is True)
        self._costs.append(
            _MaxCost(_weigh_schema(schema), _count_required(schema), found.total, found.odd, unique)
        )
        return base

    def _edges_of(self, number: int) -> Iterator[Edge]:
        for keyword, child in self._nodes[number].items():
            kind = _KEYWORDS.get(keyword)
            if kind is None:
                continue
            if kind == "reference":
                if isinstance(child, str):
                    yield from ((None, target) for target in self._find_targets(child, number, keyword))
                continue
            name = None if kind == "same" else _ITEM if keyword in _ITEMS else _ANY
            if isinstance(child, list):
                yield from ((name, self._numbers[id(each)]) for each in child if isinstance(each, dict))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            elif isinstance(child, dict):
                if keyword not in _MAP_KEYWORDS:
                    yield name, self._numbers[id(child)]  # pyright: ignore[reportUnknownArgumentType]
                    continue
                for member, schema in cast("Schema", child).items():
                    if isinstance(schema, dict):
                        at = f"/{member}" if keyword == "properties" else name
                        yield at, self._numbers[id(schema)]  # pyright: ignore[reportUnknownArgumentType]

    def _find_targets(self, reference: str, number: int, keyword: str) -> list[int]:
        address, fragment = urldefrag(urljoin(self._bases[number], reference))
        if keyword != "$ref" and fragment in self._anchors:
            return self._anchors[fragment]
        pointer = unquote(fragment)
        if (found := self._names.get(f"{address}#{pointer}")) is not None:
            return [found]
        if (root := self._names.get(f"{address}#")) is not None and pointer.startswith("/"):
            at = self._resolve_pointer(self._nodes[root], pointer)
            if isinstance(at, bool):
                return []
            if isinstance(at, dict):
                return [self._numbers[id(at)]]  # pyright: ignore[reportUnknownArgumentType]
        if _META_HOST in address:
            return []
        raise CostlySchemaError(
            f"the reference {reference[:_MAX_POINTER_CHARS]!r} leads out of it; nothing is fetched"
        )

    def _resolve_pointer(self, root: Schema, pointer: str) -> Json:
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


def _weigh_schema(schema: Schema) -> int:
    """Return how many looks one look of a schema stands for."""
    weight = 1
    for keyword, share in _ENTRIES_PER_LOOK.items():
        entries = schema.get(keyword)
        if isinstance(entries, list | dict):
            weight += len(entries) // share  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(options := schema.get("enum"), list):
        weight += _WHOLE_VALUE_LOOKS * sum(
            isinstance(each, list | dict) for each in cast("list[Json]", options)
        )
    for keyword in ("allOf", "anyOf", "oneOf"):
        if isinstance(options := schema.get(keyword), list):
            weight += sum(isinstance(each, bool) for each in cast("list[Json]", options))
    divisor = schema.get("multipleOf")
    if isinstance(divisor, float) and not divisor.is_integer():
        weight += _FRACTION_LOOKS + max(0, -_FRACTION_LOOKS - frexp(divisor)[1]) // 4
    return weight


def _count_required(schema: Schema) -> int:
    """Return how many names a schema asks an object for at most."""
    lists: list[Json] = [schema.get("required")]
    for keyword in ("dependentRequired", "dependencies"):
        if isinstance(members := schema.get(keyword), dict):
            lists += cast("Schema", members).values()
    return sum(len(cast("list[Json]", each)) for each in lists if isinstance(each, list))
