"""A server in this process: functions of the caller that programs may call as tools."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paddock.model.base import Json


class NoJsonError(Exception):
    """The value that a function returned cannot be written as JSON."""


@dataclass(frozen=True, slots=True)
class LocalTool:
    """One function, as a server lists it."""

    definition: Mapping[str, Json]
    """Its entry in `tools/list`."""
    start: Callable[[Mapping[str, Json]], Callable[[], Any]]
    """Returns a callable that makes the call with some arguments. Raises InvalidArguments."""
    write: Callable[[Any], str]
    """Returns the function's value as JSON text. Raises NoJsonError."""
    is_async: bool
    """Whether the call returns an awaitable, for the event loop of the session; others run in a thread."""
    timeout_ms: int | None = None
    """Maximum time of a call, if it is shorter than that of the request."""


@dataclass(slots=True, repr=False)
class LocalServer:
    """The functions of one `Paddock`. Functions may be added while the server is open."""

    name: str
    tools: dict[str, LocalTool] = field(default_factory=dict[str, LocalTool])
    hide: Callable[[str], str] = str
    """Removes secrets from the texts of exceptions."""
    timeout_ms: int = 3_600_000
    """Longer than any request: requests and tools have lower limits."""
    running: int = 0
    """Number of running functions, including those whose caller has left."""

    def __repr__(self) -> str:
        return f"LocalServer({self.name!r}, {len(self.tools)} tools)"
