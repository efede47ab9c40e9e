"""Find tools by what a person or a model calls them.

Ranking is BM25 as SQLite has it (FTS5): in every Python, loaded in milliseconds, with weights for the columns and
Porter's stemmer. Ours is only what it is fed: names taken apart at case, digits and underscores. The weights
come from `benchmarks/bench_search.py`, which measures them on labelled questions.
"""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, cast

from paddock.hub.result import ToolInfo, has_hidden
from paddock.model.base import Json
from paddock.model.invisible import spell_invisible

_COLUMNS = {"name": 4.0, "server": 4.0, "description": 2.0, "parameters": 0.3}
"""What is searched, and how much a word there counts. The name's own spelling counts as name, too."""
SEARCHED_CHARS = 4_000
"""Characters of a description that are searched: hostile ones must not push others out of memory."""
SEARCHED_PARAMETERS = 100
"""Parameters of a tool that are searched."""
_MOST_WORDS = 32

_SEAM = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_WORD = re.compile(r"[^\W_]+")
_FILLERS = frozenset(
    "a an and are as at be by can do does for from get give have how i in into is it its let me my of on or our out"  # noqa: SIM905 - words
    " please show so some tell that the their them then there this to us use want was we what when where which who"
    " will with would you your".split()
)
"""Words of questions that say nothing about a tool. `get` is one: every other tool's name begins with it."""


@dataclass(frozen=True, slots=True)
class CatalogTool:
    """A tool of an upstream server, as the catalogue shows it."""

    server: str
    tool: ToolInfo
    changed: bool = False
    """The server now says something else than what was pinned; this is the pinned definition."""
    hides: bool = False
    """It was `changed` from the start: its definition holds invisible characters, which a person has to accept."""
    alias: str = ""
    """A second name, which is an identifier; empty where there is none."""

    @property
    def name(self) -> str:
        """The name by which people and programs call it: `server.tool`."""
        return f"{self.server}.{self.tool.name}"

    @property
    def warning(self) -> str:
        """What is to be said to whoever reads its definition; empty when nothing is."""
        if not self.hides and not has_hidden(self.tool):
            return ""
        return (
            f"{spell_invisible(self.name)} has invisible characters in its definition; they are spelled out"
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A tool that was found. `score` is comparable within one search; larger is better."""

    tool: CatalogTool
    score: float


class Index:
    """Tools that can be searched. Building is linear in the text; searching does not change it."""

    def __init__(self, tools: Sequence[CatalogTool]) -> None:
        self._tools = tuple(tools)
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        self._base.execute(
            f"CREATE VIRTUAL TABLE tools USING fts5({', '.join(_COLUMNS)}, content='', tokenize='porter unicode61')"
        )
        rows = ((number, *_texts(tool)) for number, tool in enumerate(self._tools))
        self._base.executemany(
            "INSERT INTO tools (rowid, name, server, description, parameters) VALUES (?, ?, ?, ?, ?)", rows
        )

    def __del__(self) -> None:
        self._base.close()

    def search(self, query: str, *, server: str | None = None, limit: int = 8) -> tuple[Hit, ...]:
        """Return the best tools for a question, best first; the same question has the same answer.

        Only tools of `server` when it is given. Empty when no word of the question is known.
        """
        terms = _terms(query)
        if not terms:
            return ()
        # Every term in quotes: the question is words, never the query language of FTS5.
        match = " OR ".join(f'"{term}"' for term in terms)
        weights = ", ".join(str(weight) for weight in _COLUMNS.values())
        score = f"-bm25(tools, {weights}) AS score"
        ranked = f"SELECT rowid, {score} FROM tools WHERE tools MATCH ? ORDER BY score DESC, rowid"  # noqa: S608 - constants
        hits: list[Hit] = []
        with closing(self._base.execute(ranked, (match,))) as rows:
            for number, score in cast("Iterable[tuple[int, float]]", rows):
                entry = self._tools[number]
                if server is None or entry.server == server:
                    hits.append(Hit(entry, float(f"{score:.4g}")))
                if len(hits) == limit:
                    break
        return tuple(hits)


def words(text: str) -> list[str]:
    """Return the words of a name or text in lower case, taken apart at case, digits, underscores and marks."""
    return _WORD.findall(_SEAM.sub(" ", text).lower())


def keyword_search(tools: Sequence[CatalogTool], query: str, *, limit: int = 20) -> tuple[Hit, ...]:
    """Return tools by the seed's score: a word equal to the name counts 10, in it 5, in the description 2.

    Spec 2.1, `mcp_discover`. What scores nothing is not returned; equals stay in the order of `tools`.
    """
    wanted = query.lower().split()
    scored = [
        Hit(tool, keyword_score(wanted, tool.tool.name, tool.tool.description[:SEARCHED_CHARS]))
        for tool in tools
    ]
    return tuple(
        sorted((hit for hit in scored if hit.score > 0), key=lambda hit: hit.score, reverse=True)[:limit]
    )


def keyword_score(wanted: Sequence[str], name: str, description: str) -> float:
    """Return the seed's score of a name and description for words in lower case (spec 2.1)."""
    name, description = name.lower(), description.lower()
    return sum(
        (10 if word == name else 5 if word in name else 0) + (2 if word in description else 0)
        for word in wanted
    )


def confidence(score: float, query: str) -> float:
    """Return the seed's confidence of a score from 0 to 1: `min(score / (words * 12), 1)`, two decimals (spec 2.1)."""
    count = len(query.split())
    return round(min(score / (count * 12), 1), 2) if count else 0.0


def _terms(query: str) -> list[str]:
    """Return the different words of a question; its fillers only when there is nothing else."""
    found = dict.fromkeys(words(query[:SEARCHED_CHARS]))
    telling = [word for word in found if word not in _FILLERS]
    return (telling or list(found))[:_MOST_WORDS]


def _texts(entry: CatalogTool) -> tuple[str, str, str, str]:
    """Return what is indexed of a tool, one text for each column."""
    tool = entry.tool
    return (
        " ".join(words(tool.name)),
        " ".join(words(entry.server)),
        " ".join(words(tool.description[:SEARCHED_CHARS])),
        " ".join(words(" ".join(_parameters(tool.input_schema))[:SEARCHED_CHARS])),
    )


def is_searched_in_part(tool: ToolInfo) -> bool:
    """Tell whether some words of a tool find nothing, because there are too many."""
    return (
        len(tool.description) > SEARCHED_CHARS
        or len(_members(tool.input_schema)) > SEARCHED_PARAMETERS
        or sum(len(text) + 1 for text in _parameters(tool.input_schema)) > SEARCHED_CHARS
    )


def _members(schema: Mapping[str, Json]) -> dict[str, Any]:
    properties: Any = schema.get("properties")
    return cast("dict[str, Any]", properties) if isinstance(properties, dict) else {}


def _parameters(schema: Mapping[str, Json]) -> Iterator[str]:
    """Yield names and descriptions of the parameters at the top of a schema."""
    for name, member in list(_members(schema).items())[:SEARCHED_PARAMETERS]:
        yield name
        text = cast("dict[str, Any]", member).get("description") if isinstance(member, dict) else None
        if isinstance(text, str):
            yield text
