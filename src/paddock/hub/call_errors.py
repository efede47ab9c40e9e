"""How a call failed, as the pool has to know it: what to tell caller and breaker, and whether to retry."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass

from paddock.hub.lifecycle import CallHealth
from paddock.model.base import Json
from paddock.model.errors import ServerError
from paddock.model.nesting import is_deeper
from paddock.model.numbers import dumps

MAX_ERROR_CODE = 2**53 - 1
"""Largest code of an error, in either direction: what every reader of JSON takes."""
DATA_CHARS = 16 * 1024
"""Maximum size of the data of an error, in characters of JSON."""
_MAX_DATA_CHARS = 2_000
_MAX_DATA_LEVELS = 32


def bound_data(data: Json) -> Json:
    """Return the data of a server's error; of what is too large or nested too deep, the beginning as text."""
    text = dumps(data, ensure_ascii=False)
    if len(text) <= DATA_CHARS and not is_deeper(data, _MAX_DATA_LEVELS):
        return data
    return f"{text[:_MAX_DATA_CHARS]}... [truncated: {len(text)} characters in all]"


class CallFailed(Exception):
    """A call or a connect failed. `again`: one more try on a fresh child is right."""

    def __init__(self, error: ServerError, verdict: CallHealth, *, again: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.verdict = verdict
        self.again = again


@dataclass(slots=True)
class Trace:
    """What the transport saw of one call. The protocol library tells only that a call failed, not how."""

    sent: bool = False
    """The request left us, in whole or in part."""
    status: int | None = None
    """HTTP status of the answer."""
    kind: str = ""
    """Content type of the answer."""
    place: str = ""
    """Where the answer leads instead, without what may be secret."""
    cause: str = ""
    """Why there was no answer."""
    fault: str = ""
    """Why the answer could not be read to its end."""
    oversize: bool = False
    """The answer was too large, which says nothing against the server."""
    remedy: str = ""
    """What a person can do about an answer that refuses us, or a proxy that is in the way."""
    limit: asyncio.Timeout | None = None
    """When the wait for the answer ends."""
    reopens: float = 0.0
    """When the rest of the answer was last asked for, by the clock of the event loop."""


TRACE: ContextVar[Trace | None] = ContextVar("TRACE", default=None)
"""The trace of the call that the current task makes. The transports run in a copy of the caller's context."""
