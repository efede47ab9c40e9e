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
    """What a search found, the best first, and what is missing."""

    tools: tuple[FoundTool, ...]
    """The tools, the best first."""
    notes: tuple[str, ...]
    """Which servers could not be asked, which tools were left out or have definitions to beware of, and why."""
