"""The answer of `Paddock.search_tools`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool of an upstream server."""

    server: str
    """Its server."""
    tool: str
    """Its name."""
    score: float
    """How well it suits the query: larger is better. Scores of different queries do not compare."""
    signature: str
    """Its name, arguments and result as one line of TypeScript, with its description."""


@dataclass(frozen=True, slots=True)
class FoundTools:
    """The found tools, best first, and what is missing."""

    tools: tuple[FoundTool, ...]
    """The tools, the best first."""
    notes: tuple[str, ...]
    """Servers that could not be asked, tools that were left out or have suspicious definitions, and the reasons."""
