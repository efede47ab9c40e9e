"""Search over tools: how well it finds what people ask for, and how fast. Catalogue and questions: `discovery/`."""

import json
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, Target, milliseconds
from paddock.hub.result import ToolInfo
from paddock.hub.search import CatalogTool, Index
from paddock.hub.signatures import signature

TITLE = "Discovery"

_DATA = Path(__file__).parent / "discovery"
_MANY = 500

Question = tuple[str, frozenset[str]]


def catalog() -> list[CatalogTool]:
    """Return the tools of the real servers, as they list them."""
    listed = json.loads((_DATA / "tools.json").read_text())["servers"]
    return [
        CatalogTool(
            server,
            ToolInfo(tool["name"], tool["description"], tool["inputSchema"], tool.get("outputSchema"), {}),
        )
        for server, known in listed.items()
        for tool in known["tools"]
    ]


def questions() -> list[Question]:
    """Return the labelled questions with the names of the tools that answer them."""
    lines = (_DATA / "questions.txt").read_text().splitlines()
    pairs = [line.split(" | ") for line in lines if line and not line.startswith("#")]
    return [(question, frozenset(answers.split(", "))) for question, answers in pairs]


def recall(index: Index, asked: list[Question], limit: int) -> float:
    """Return the mean share of the right tools among the first `limit`."""
    shares = [
        len(right & {hit.tool.name for hit in index.search(question, limit=limit)}) / min(len(right), limit)
        for question, right in asked
    ]
    return sum(shares) / len(shares)


def measure(scale: Scale) -> list[Line]:
    tools, asked = catalog(), questions()
    index, judged = Index(tools), asked[1::2]
    note = f"{len(judged)} questions that tuned nothing, {len(tools)} tools"
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
    builds = [milliseconds(lambda: Index(many)) for _ in range(scale.of(9, 2))]
    lines.append(Line(f"building the index of {_MANY} tools", median(builds), "ms", Target(200)))
    large = Index(many)
    searches = [milliseconds(lambda q=question: large.search(q)) for question, _ in asked]
    lines.append(Line(f"a search over {_MANY} tools, median", median(searches), "ms", Target(5)))
    lines.append(Line(f"a search over {_MANY} tools, slowest question", max(searches), "ms"))
    signatures = [len(signature(tool)) for tool in tools]
    lines.append(Line("one-line signature, median", median(signatures), "characters"))
    return lines
