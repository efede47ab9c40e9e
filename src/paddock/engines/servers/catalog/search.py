"""Find tools by the words of a person or a model.

The ranking is BM25 of SQLite (FTS5): part of every Python, loaded in milliseconds, with weights for the columns and
Porter's stemmer. Paddock adds only the input: names split at case changes, digits and underscores. The weights come
from `benchmarks/bench_discovery.py`, which measures them on labelled questions. With the extra `semantic`,
`semantic.py` combines these scores with those of a model.
"""

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from heapq import nlargest
from typing import Any, cast

from paddock.engines.servers.catalog.queries import (
    default_limit,
    fuse_scores,
    interleave_lists,
    plan_queries,
    split_words,
    telling_words,
)
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.model.base import Json

_COLUMN_WEIGHTS = {"name": 4.0, "server": 4.0, "description": 2.0, "parameters": 0.3}
"""The searched columns and their weights. The unsplit name is a part of the column `name`, too."""
MAX_SEARCHED_CHARS = 4_000
"""Maximum searched length of a description, in characters, so that a hostile one cannot exhaust memory."""
MAX_SEARCHED_PARAMETERS = 100
"""Maximum number of searched parameters of a tool."""
_MAX_QUERY_WORDS = 32
_WEIGHTS = ", ".join(map(str, _COLUMN_WEIGHTS.values()))
_RANK_QUERY = f"SELECT rowid, -bm25(tools, {_WEIGHTS}) FROM tools WHERE tools MATCH ?"  # noqa: S608 - constants

Scores = Mapping[int, float]
"""Scores of tools by their number in the index; a tool without a score does not match."""
Mix = Callable[[str, Scores], Scores]
"""Returns the final scores of a text, given the scores of its words."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A found tool. `score` is comparable within one query; larger is better."""

    tool: CatalogTool
    score: float


class ToolIndex:
    """An index of tools. Building it is linear in the text; searching does not change it."""

    def __init__(self, tools: Sequence[CatalogTool]) -> None:
        self._tools = tuple(tools)
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        self._base.execute(
            f"CREATE VIRTUAL TABLE tools USING fts5({', '.join(_COLUMN_WEIGHTS)}, content='',"
            " tokenize='porter unicode61')"
        )
        columns = (
            (
                entry.tool.name,
                entry.server,
                entry.tool.description[:MAX_SEARCHED_CHARS],
                " ".join(_iterate_parameters(entry.tool.input_schema))[:MAX_SEARCHED_CHARS],
            )
            for entry in self._tools
        )
        rows = (
            (number, *(" ".join(split_words(text)) for text in texts)) for number, texts in enumerate(columns)
        )
        self._base.executemany(
            "INSERT INTO tools (rowid, name, server, description, parameters) VALUES (?, ?, ?, ?, ?)", rows
        )

    def __del__(self) -> None:
        self._base.close()

    def search_tools(
        self,
        queries: str | Sequence[str],
        *,
        server: str | None = None,
        limit: int | None = None,
        mix: Mix | None = None,
    ) -> tuple[Hit, ...]:
        """Return the best tools for a query, best first, or for several, interleaved by rank without repeats.

        With `server`, only its tools; at most `limit`, by default 8 and at least 2 for each query. Empty if no word of
        the queries is known. The result is deterministic. Raises ValueError for too many queries.
        """
        count = default_limit(queries) if limit is None else limit
        ranked: list[list[int]] = []
        found: dict[int, float] = {}
        for pieces in plan_queries(queries):
            scores = fuse_scores([self._score_tools(piece, mix) for piece in pieces])
            if server is not None:
                scores = {n: score for n, score in scores.items() if self._tools[n].server == server}
            # Equal scores keep the order of the tools, as with `sorted`.
            numbers = nlargest(count, sorted(scores), key=scores.__getitem__)
            ranked.append(numbers)
            for number in numbers:
                found[number] = max(found.get(number, 0.0), scores[number])
        return tuple(
            Hit(self._tools[number], float(f"{found[number]:.4g}"))
            for number in interleave_lists(ranked)[:count]
        )

    def _score_tools(self, text: str, mix: Mix | None) -> Scores:
        scores: Scores = {}
        if terms := telling_words(text)[:_MAX_QUERY_WORDS]:
            # Each term is quoted: a query consists of words and is never FTS5 syntax.
            match = " OR ".join(f'"{term}"' for term in terms)
            with closing(self._base.execute(_RANK_QUERY, (match,))) as rows:
                scores = dict(cast("Iterable[tuple[int, float]]", rows))
        return scores if mix is None else mix(text, scores)


def keyword_search(tools: Sequence[CatalogTool], query: str, *, limit: int = 20) -> tuple[Hit, ...]:
    """Return tools by the compat score: a word equal to the name counts 10, in it 5, in the description 2.

    Spec 2.1, `mcp_discover`. Tools without a score are left out; equal scores keep the order of `tools`.
    """
    wanted = query.lower().split()
    scored = [
        Hit(tool, keyword_score(wanted, tool.tool.name, tool.tool.description[:MAX_SEARCHED_CHARS]))
        for tool in tools
    ]
    return tuple(
        sorted((hit for hit in scored if hit.score > 0), key=lambda hit: hit.score, reverse=True)[:limit]
    )


def keyword_score(wanted: Sequence[str], name: str, description: str) -> float:
    """Return the compat score of a name and description for words in lower case."""
    name, description = name.lower(), description.lower()
    return sum(
        (10 if word == name else 5 if word in name else 0) + (2 if word in description else 0)
        for word in wanted
    )


def compute_confidence(score: float, query: str) -> float:
    """Return the compat confidence of a score from 0 to 1: `min(score / (words * 12), 1)`, two decimals."""
    count = len(query.split())
    return round(min(score / (count * 12), 1), 2) if count else 0.0


def is_searched_in_part(tool: ToolInfo) -> bool:
    """Return whether a tool exceeds a limit, so that a part of its words is not searched."""
    return (
        len(tool.description) > MAX_SEARCHED_CHARS
        or len(_read_members(tool.input_schema)) > MAX_SEARCHED_PARAMETERS
        or sum(len(text) + 1 for text in _iterate_parameters(tool.input_schema)) > MAX_SEARCHED_CHARS
    )


def _read_members(schema: Mapping[str, Json]) -> dict[str, Any]:
    properties: Any = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _iterate_parameters(schema: Mapping[str, Json]) -> Iterator[str]:
    """Yield names and descriptions of a schema's top-level parameters."""
    for name, member in list(_read_members(schema).items())[:MAX_SEARCHED_PARAMETERS]:
        yield name
        text = cast("dict[str, Any]", member).get("description") if isinstance(member, dict) else None
        if isinstance(text, str):
            yield text
