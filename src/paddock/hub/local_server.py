"""A server in this very process, as a value: functions of the caller that programs may call as tools."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.model.base import Json


class NoJsonError(Exception):
    """What a function returned has no form in JSON."""


@dataclass(frozen=True, slots=True)
class LocalTool:
    """One function, as a server lists it."""

    definition: Mapping[str, Json]
    """Its entry in `tools/list`."""
    start: Callable[[Mapping[str, Json]], Callable[[], Any]]
    """Returns the call for some arguments, not made yet. Raises InvalidArguments."""
    write: Callable[[Any], str]
    """Returns what the function returned as JSON text. Raises NoJsonError."""
    is_async: bool
    """Whether the call returns an awaitable, for the event loop of the session; others run in a thread."""
    timeout_ms: int | None = None
    """Maximum time of a call, where it is less than that of the request."""


@dataclass(slots=True, repr=False)
class LocalServer:
    """The functions of one `Paddock`. Those of a server that is open may become more."""

    name: str
    tools: dict[str, LocalTool] = field(default_factory=dict[str, LocalTool])
    hide: Callable[[str], str] = str
    """Removes secrets from texts that functions raise."""
    timeout_ms: int = 3_600_000
    """More than any request may take: requests and tools have lower limits."""
    running: int = 0
    """Functions that run, those included that nobody waits for any more."""

    def __repr__(self) -> str:
        return f"LocalServer({self.name!r}, {len(self.tools)} tools)"
