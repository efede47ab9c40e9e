"""How often a schema may look at one value: what keeps a hostile schema from costing time (no source but arithmetic).

Validation is a walk over pairs of schema and value. Keywords such as `allOf` and `$ref` look at the same value again,
and references make few bytes into many looks: thirty definitions that name the one before them twice are a billion.
So the looks are counted before anything is validated, level by level: in-place keywords add up, and a member of a
value meets the sum of what its parents' keywords say about its name. Everything is counted as if it applied.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, cast
from urllib.parse import unquote, urldefrag, urljoin

from paddock.model.base import Json

MOST_LOOKS = 1_000
"""Looks at one value; a schema that people write needs a few."""
MOST_PARTS = 3_000
_LEVELS = 64
_STEPS = 20_000
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
_MAPS = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_META = "://json-schema.org/"
_ANY = "*"
_ENUM_SHARE = 64
_TOO_OFTEN = f"it looks more than {MOST_LOOKS} times at one value"

Schema = dict[str, Any]
Edge = tuple[str | None, int]
"""Name of the member that is looked at (None: the value itself; `*`: any member or item), and the schema's number."""


class CostlySchemaError(ValueError):
    """A schema that looks too often at one value, or into itself without end."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a schema costs at most."""

    looks: int
    """Most looks at one value, at any depth up to `depth`."""
    depth: int | None
    """Depth below which looks are within bounds; None when they are so at every depth."""
    patterns: bool
    """Whether texts are matched against patterns."""


def cost(document: Json) -> Cost:
    """Return what validating with a schema costs at most. Raises CostlySchemaError."""
    if not isinstance(document, dict):
        return Cost(1, None, patterns=False)
    graph = _Graph(cast("Schema", document))
    level = graph.closed(Counter({0: 1}))
    looks = graph.looks(level)
    if looks > MOST_LOOKS:
        raise CostlySchemaError(_TOO_OFTEN)
    seen: set[frozenset[tuple[int, int]]] = set()
    for depth in range(1, _LEVELS):
        state = frozenset(level.items())
        if not level or state in seen:
            return Cost(looks, None, graph.patterns)
        seen.add(state)
        level, worst = graph.below(level)
        if worst > MOST_LOOKS or graph.steps > _STEPS:
            return Cost(looks, depth, graph.patterns)
        looks = max(looks, worst)
    return Cost(looks, _LEVELS, graph.patterns)


class _Graph:
    """The subschemas of a document by number, and which look at which."""

    def __init__(self, document: Schema) -> None:
        self.patterns = False
        self.steps = 0
        self._nodes: list[Schema] = []
        self._weights: list[int] = []
        self._closures: dict[int, Counter[int]] = {}
        self._edges: list[list[Edge]] = []
        self._numbers: dict[int, int] = {}
        self._bases: list[str] = []
        self._names: dict[str, int] = {}
        self._anchors: dict[str, list[int]] = {}
        self._collect(document)
        self._edges = [list(self._edges_of(number)) for number in range(len(self._nodes))]

    def looks(self, level: Counter[int]) -> int:
        """Return how many looks a value costs that is looked at as `level` says."""
        return sum(count * self._weights[node] for node, count in level.items())

    def closed(self, start: Counter[int]) -> Counter[int]:
        """Return the looks at a value, in-place keywords followed. Raises CostlySchemaError."""
        found: Counter[int] = Counter()
        for node, count in start.items():
            for other, times in self._closure(node, ()).items():
                self.steps += 1
                found[other] += count * times
        return found

    def below(self, level: Counter[int]) -> tuple[Counter[int], int]:
        """Return the most looks of every schema at one member of a value, and the most of all at one member."""
        by_name: dict[str, Counter[int]] = {}
        for node, count in level.items():
            for name, target in self._edges[node]:
                self.steps += 1
                if name is not None:
                    by_name.setdefault(name, Counter())[target] += count
        everywhere = by_name.pop(_ANY, Counter[int]())
        most = self.closed(everywhere)
        worst = self.looks(most)
        for looks in by_name.values():
            looks.update(everywhere)
            member = self.closed(looks)
            worst = max(worst, self.looks(member))
            for node, count in member.items():
                most[node] = max(most[node], count)
        return most, worst

    def _closure(self, node: int, path: tuple[int, ...]) -> Counter[int]:
        if node in self._closures:
            return self._closures[node]
        if node in path:
            raise CostlySchemaError("it refers to itself without end")
        if len(path) > _LEVELS:
            raise CostlySchemaError(f"it follows more than {_LEVELS} references for one value")
        found = Counter({node: 1})
        for name, target in self._edges[node]:
            if name is None:
                found.update(self._closure(target, (*path, node)))
                if found.total() > MOST_LOOKS:
                    raise CostlySchemaError(_TOO_OFTEN)
        self._closures[node] = found
        return found

    def _collect(self, document: Schema) -> None:
        todo: list[tuple[Json, str, str]] = [(document, "", "")]
        while todo:
            value, base, pointer = todo.pop()
            if isinstance(value, list):
                members = [(str(index), item) for index, item in enumerate(cast("list[Json]", value))]
            elif isinstance(value, dict):
                schema = cast("Schema", value)
                base, pointer = self._add(schema, base, pointer)
                members = list(schema.items())
            else:
                continue
            for name, child in members:
                step = name.replace("~", "~0").replace("/", "~1")
                todo.append((child, base, f"{pointer}/{step}"))

    def _add(self, schema: Schema, base: str, pointer: str) -> tuple[str, str]:
        if len(self._nodes) >= MOST_PARTS:
            raise CostlySchemaError(f"it has more than {MOST_PARTS} parts")
        number = len(self._nodes)
        if isinstance(own := schema.get("$id"), str):
            self._names.setdefault(f"{base}#{pointer}", number)
            base, pointer = urljoin(base, own).removesuffix("#"), ""
        self._nodes.append(schema)
        self._numbers[id(schema)] = number
        self._bases.append(base)
        self._names.setdefault(f"{base}#{pointer}", number)
        for key in ("$anchor", "$dynamicAnchor"):
            if isinstance(anchor := schema.get(key), str):
                self._names.setdefault(f"{base}#{anchor}", number)
                self._anchors.setdefault(anchor, []).append(number)
        self.patterns |= "pattern" in schema or "patternProperties" in schema
        options = schema.get("enum")
        share = len(cast("list[Json]", options)) // _ENUM_SHARE if isinstance(options, list) else 0
        self._weights.append(1 + share)
        return base, pointer

    def _edges_of(self, number: int) -> Iterator[Edge]:
        for keyword, child in self._nodes[number].items():
            kind = _KEYWORDS.get(keyword)
            if kind is None:
                continue
            if kind == "reference":
                if isinstance(child, str):
                    yield from ((None, target) for target in self._targets(child, number, keyword))
                continue
            name = None if kind == "same" else _ANY
            if isinstance(child, list):
                yield from ((name, self._numbers[id(each)]) for each in child if isinstance(each, dict))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
            elif isinstance(child, dict):
                if keyword not in _MAPS:
                    yield name, self._numbers[id(child)]  # pyright: ignore[reportUnknownArgumentType]
                    continue
                for member, schema in cast("Schema", child).items():
                    if isinstance(schema, dict):
                        at = f"/{member}" if keyword == "properties" else name
                        yield at, self._numbers[id(schema)]  # pyright: ignore[reportUnknownArgumentType]

    def _targets(self, reference: str, number: int, keyword: str) -> list[int]:
        address, fragment = urldefrag(urljoin(self._bases[number], reference))
        if keyword != "$ref" and fragment in self._anchors:
            return self._anchors[fragment]
        found = self._names.get(f"{address}#{unquote(fragment)}")
        if found is not None:
            return [found]
        if _META in address:
            return []
        raise CostlySchemaError(f"the reference {reference!r} leads out of it; nothing is fetched")
