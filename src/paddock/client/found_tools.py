"""The answer of `Paddock.search_tools`."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool of an upstream server. `score` is comparable within one query; larger is better."""

    server: str
    tool: str
    score: float
    signature: str
    """Its name, arguments and result as one line of TypeScript, with its description."""


@dataclass(frozen=True, slots=True)
class FoundTools:
    """What a search found, the best first, and what is missing."""

    tools: tuple[FoundTool, ...]
    notes: tuple[str, ...]
    """Which servers could not be asked, which tools were left out or have definitions to beware of, and why."""
