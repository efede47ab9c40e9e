"""Search over tools: how well it finds what people ask for, and how fast. Tools and questions: `discovery/`.

There are two sets of questions. Half of `questions.txt` chose the weights of BM25's columns, and the other half judges
them, over the tools of `tools.json`. `steps.txt` and `tasks.txt` chose nothing. They are asked over all tools, and
compare ways to search. All questions are Paddock's own.
"""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import NamedTuple

from benchmarks.measure import Line, Scale, Target, milliseconds
from paddock.engines.servers.catalog.catalog import Catalog
from paddock.engines.servers.catalog.queries import plan_queries
from paddock.engines.servers.catalog.search import ToolIndex
from paddock.engines.servers.catalog.semantic import Semantics
from paddock.engines.servers.catalog.semantic_choice import SemanticSettings, find_packages
from paddock.engines.servers.catalog.sentence_process import SentenceProcess
from paddock.engines.servers.catalog.vectors import VectorCache
from paddock.engines.servers.result import CatalogTool, ToolInfo
from paddock.engines.servers.typescript import render_signature

TITLE = "Discovery"
NOTE = (
    "All questions are Paddock's own. A *task* is a text that takes 2 to 4 tools, and its figure is the share of these\n"
    "among the first ten; a *step* takes one tool. *Plain BM25* ranks by all words of names and descriptions. *Today*\n"
    "is one query, as a whole; *sentences* is the same, split at their ends; *list* is one short query for each step.\n"
    "*Semantic* is the same three with the model of `paddock-sandbox[semantic]`. A *first search* has neither the model\n"
    "nor vectors, and is answered by words; *until meaning ranks* is the time after which the next one is not."
)

_DATA = Path(__file__).parent / "discovery"
_MANY = 500
_FIRST = 10

_MARKS = str.maketrans(".!?", ",,,")

Question = tuple[str, frozenset[str]]
Search = Callable[[str | Sequence[str]], list[str]]


class Step(NamedTuple):
    """A short query, and the tools of which any one does what it asks for."""

    query: str
    right: frozenset[str]


class Task(NamedTuple):
    """What a user asks for, and the steps that it takes."""

    text: str
    steps: tuple[Step, ...]


def catalog() -> list[CatalogTool]:
    """Return the tools of `tools.json`: those of real servers as they list them, and some that are invented."""
    listed = json.loads((_DATA / "tools.json").read_text())["servers"]
    return [
        CatalogTool(
            server,
            ToolInfo(tool["name"], tool["description"], tool["inputSchema"], tool.get("outputSchema"), {}),
        )
        for server, known in listed.items()
        for tool in known["tools"]
    ]


def invented() -> list[CatalogTool]:
    """Return the tools of `invented.txt`."""
    rows = [[part.strip() for part in line.split("|")] for line in _lines("invented.txt")]
    return [
        CatalogTool(
            server,
            ToolInfo(
                name,
                description,
                {
                    "type": "object",
                    "properties": {each.strip(): {"type": "string"} for each in names.split(",") if each},
                },
                None,
                {},
            ),
        )
        for server, name, description, names in rows
    ]


def questions() -> list[Question]:
    """Return the labelled questions with the names of the tools that answer them."""
    pairs = [line.split(" | ") for line in _lines("questions.txt")]
    return [(question, frozenset(answers.split(", "))) for question, answers in pairs]


def steps() -> list[Task]:
    """Return the questions that take one tool, as tasks of one step."""
    found = [_step(line) for line in _lines("steps.txt")]
    return [Task(step.query, (step,)) for step in found]


def tasks() -> list[Task]:
    """Return the tasks that take several tools."""
    found: list[Task] = []
    for line in _lines("tasks.txt"):
        text, *parts = line.split(" || ")
        found.append(Task(text, tuple(map(_step, parts))))
    return found


def recall(index: ToolIndex, asked: list[Question], limit: int) -> float:
    """Return the mean share of the right tools among the first `limit`."""
    shares = [
        len(right & {hit.tool.name for hit in index.search_tools(question, limit=limit)})
        / min(len(right), limit)
        for question, right in asked
    ]
    return sum(shares) / len(shares)


def share_of_steps(search: Search, asked: Sequence[Task], *, as_list: bool = False) -> float:
    """Return the mean share of a task's steps for which one of the right tools is among the first ten."""
    shares: list[float] = []
    for task in asked:
        found = set(search([step.query for step in task.steps] if as_list else task.text))
        shares.append(sum(bool(step.right & found) for step in task.steps) / len(task.steps))
    return sum(shares) / len(shares)


def plain_bm25(tools: Sequence[CatalogTool]) -> Search:
    """Return the floor: BM25 over names and descriptions as they are written, without stems, weights or fillers."""
    base = sqlite3.connect(":memory:")
    base.execute("CREATE VIRTUAL TABLE plain USING fts5(text, tokenize='unicode61')")
    rows = [(number, f"{tool.name} {tool.tool.description}") for number, tool in enumerate(tools)]
    base.executemany("INSERT INTO plain (rowid, text) VALUES (?, ?)", rows)
    ranked = f"SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY bm25(plain), rowid LIMIT {_FIRST}"

    def search(query: str | Sequence[str]) -> list[str]:
        text = query if isinstance(query, str) else " ".join(query)
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(_plain_words(text)))
        with closing(base.execute(ranked, (match,))) as found:
            return [tools[number].name for (number,) in found]

    return search


def by_words(index: ToolIndex, *, whole: bool = False) -> Search:
    """Return the search without the model; a text is one piece where `whole`."""

    def search(query: str | Sequence[str]) -> list[str]:
        return [hit.tool.name for hit in index.search_tools(_joined(query) if whole else query, limit=_FIRST)]

    return search


class ByMeaning:
    """The search with the model, over tools whose vectors are there."""

    def __init__(self, index: ToolIndex, tools: Sequence[CatalogTool], directory: Path) -> None:
        self._index, self._tools = index, tuple(tools)
        self._loop = asyncio.new_event_loop()
        self._semantics = Semantics(VectorCache(directory), self._start)
        self._loop.run_until_complete(self._semantics.prepare(self._tools))

    async def _start(self) -> SentenceProcess:
        started = await SentenceProcess.start(find_packages()[0])
        self.pid = started.pid
        return started

    def searching(self, *, whole: bool = False) -> Search:
        def search(query: str | Sequence[str]) -> list[str]:
            asked = _joined(query) if whole else query
            texts = list(dict.fromkeys(piece for pieces in plan_queries(asked) for piece in pieces))
            mix = self._loop.run_until_complete(self._semantics.make_mixer(self._tools, texts))
            return [hit.tool.name for hit in self._index.search_tools(asked, limit=_FIRST, mix=mix)]

        return search

    def close(self) -> None:
        self._loop.run_until_complete(self._semantics.close())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()


class FirstSearches(NamedTuple):
    """How long the searches of a new process take, in seconds, and how long its end."""

    first: float
    until_meaning: float
    next: float
    end: float


async def first_searches(tools: Sequence[CatalogTool], directory: Path) -> FirstSearches:
    """Search in a new process until the meaning of tools ranks them."""

    async def ask(_server: str) -> Sequence[CatalogTool]:
        return tools

    async def search() -> tuple[float, str]:
        started = perf_counter()
        _, listing = await catalog.search_tools(["open issues of a repository", "send a mail"])
        return perf_counter() - started, listing.ranking

    meaning = SemanticSettings("auto", directory)
    catalog = Catalog(["all"], ask, meaning=meaning)
    began = perf_counter()
    (first, note), spent = await search(), 0.0
    assert note, "the first search must not wait"
    while note:
        await asyncio.sleep(0.02)
        spent, note = await search()
    ready = perf_counter()
    await meaning.close()
    return FirstSearches(first, ready - began, spent, perf_counter() - ready)


def measure(scale: Scale) -> list[Line]:
    tools, asked = catalog(), questions()
    index, judged = ToolIndex(tools), asked[1::2]
    note = f"{len(judged)} questions of our own that tuned nothing, {len(tools)} tools"
    lines = [
        Line("recall@5", round(recall(index, judged, 5), 3), "", Target(0.8, at_least=True), note),
        Line("recall@10", round(recall(index, judged, 10), 3), "", Target(0.9, at_least=True), note),
        Line("recall@10 of all questions", round(recall(index, asked, 10), 3), ""),
    ]
    many = [
        CatalogTool(f"{tool.server}{number}", tool.tool)
        for number in range(1 + _MANY // len(tools))
        for tool in tools
    ][:_MANY]
    builds = [milliseconds(lambda: ToolIndex(many)) for _ in range(scale.of(9, 2))]
    lines.append(Line(f"building the index of {_MANY} tools", median(builds), "ms", Target(200)))
    large = ToolIndex(many)
    searches = [milliseconds(lambda q=question: large.search_tools(q)) for question, _ in asked]
    lines.append(Line(f"a search over {_MANY} tools, median", median(searches), "ms", Target(5)))
    lines.append(Line(f"a search over {_MANY} tools, slowest question", max(searches), "ms"))
    signatures = [len(render_signature(tool)) for tool in tools]
    lines.append(Line("one-line signature, median", median(signatures), "characters"))
    return lines + _compare([*tools, *invented()], scale)


def _compare(tools: list[CatalogTool], scale: Scale) -> list[Line]:
    """Return what each way to search finds of the questions that chose nothing, and how long one takes."""
    every, single = tasks(), steps()
    tools = tools[: scale.of(len(tools), 40)]
    every, single = every[: scale.of(len(every), 10)], single[: scale.of(len(single), 10)]
    note = f"{len(every)} tasks and {len(single)} steps of our own, {len(tools)} tools"
    index = ToolIndex(tools)
    with TemporaryDirectory() as directory:
        meaning = ByMeaning(index, tools, Path(directory))
        ways = {
            "plain BM25": (plain_bm25(tools), False),
            "today": (by_words(index, whole=True), False),
            "sentences": (by_words(index), False),
            "list": (by_words(index), True),
            "semantic, today": (meaning.searching(whole=True), False),
            "semantic, sentences": (meaning.searching(), False),
            "semantic, list": (meaning.searching(), True),
        }
        lines: list[Line] = []
        for name, (search, as_list) in ways.items():
            found = share_of_steps(search, every, as_list=as_list)
            lines.append(Line(f"tasks, recall@10: {name}", round(found, 3), "", None, note))
            if not as_list:
                found = share_of_steps(search, single)
                lines.append(Line(f"steps, recall@10: {name}", round(found, 3), "", None, note))
        for name, (search, as_list) in ways.items():
            spent = [
                milliseconds(lambda q=[s.query for s in task.steps] if as_list else task.text: search(q))
                for task in every
            ]
            lines.append(Line(f"a task: {name}, median", median(spent), "ms"))
        lines.append(Line("memory of the model's process", _read_memory(meaning.pid), "MiB"))
        meaning.close()
        new, kept = (asyncio.run(first_searches(tools, Path(directory) / name)) for name in ("new", "new"))
    stored = f"{len(tools)} tools, no stored vector"
    return [
        *lines,
        Line("first search", 1000 * new.first, "ms", Target(100), stored),
        Line("until meaning ranks", new.until_meaning, "s", None, stored),
        Line("until meaning ranks, vectors stored", kept.until_meaning, "s"),
        Line("the search then", 1000 * kept.next, "ms"),
        Line("end of the model's process", 1000 * kept.end, "ms", Target(100)),
    ]


def _read_memory(pid: int) -> float:
    """Return the resident memory of a process, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


def _joined(query: str | Sequence[str]) -> str:
    """Return a query in which no sentence ends, so that it is searched as a whole."""
    text = query if isinstance(query, str) else " ".join(query)
    return text.translate(_MARKS)


def _lines(name: str) -> list[str]:
    lines = (_DATA / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _step(line: str) -> Step:
    query, right = line.split(" | ")
    return Step(query, frozenset(right.split(", ")))


def _plain_words(text: str) -> list[str]:
    return "".join(each if each.isalnum() else " " for each in text.lower()).split()
