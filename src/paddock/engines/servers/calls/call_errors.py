"""How a call failed: the error for its caller, its effect on the breaker, and whether to retry."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from http import HTTPStatus

from paddock.engines.servers.calls.lifecycle import CallHealth
from paddock.model.base import Json
from paddock.model.errors import ServerError
from paddock.model.nesting import is_deeper
from paddock.model.numbers import dumps
from paddock.model.texts import cut_text

MAX_ERROR_CODE = 2**53 - 1
"""Maximum error code, positive or negative: every JSON parser reads it exactly."""
DATA_CHARS = 16 * 1024
"""Maximum size of an error's data, in characters of JSON."""
_MAX_DATA_CHARS = 2_000
_MAX_DATA_LEVELS = 32


def bound_data(data: Json) -> Json:
    """Return the data of a server's error. If it is too large or too deep, return its beginning as a string."""
    text = dumps(data, ensure_ascii=False)
    if len(text) <= DATA_CHARS and not is_deeper(data, _MAX_DATA_LEVELS):
        return data
    return cut_text(text, _MAX_DATA_CHARS)


class CallFailed(Exception):
    """A call or a connect failed. With `again`, one retry on a new child is right."""

    status: int | None = None
    """HTTP status of the answer to the last request."""

    def __init__(self, error: ServerError, verdict: CallHealth, *, again: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.verdict = verdict
        self.again = again

    @property
    def wants_older_transport(self) -> bool:
        """Whether a refused handshake may mean that the server has only the transport HTTP+SSE.

        Source: MCP 2025-11-25, Transports, Backwards Compatibility.
        """
        return self.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


@dataclass(slots=True)
class Trace:
    """What the transport observed during one call. The protocol library reports that a call failed, not how."""

    sent: bool = False
    """The request was sent, in whole or in part."""
    status: int | None = None
    """HTTP status of the answer."""
    kind: str = ""
    """Content type of the answer."""
    place: str = ""
    """Target of a redirect, without parts that may be secret."""
    cause: str = ""
    """Why there was no answer."""
    fault: str = ""
    """Why the answer could not be read to its end."""
    oversize: bool = False
    """The answer was too large. This is no fault of the server's health."""
    remedy: str = ""
    """What a person can do about a refusal, or about a failing proxy."""
    limit: asyncio.Timeout | None = None
    """The timeout of the wait for the answer."""
    reopens: float = 0.0
    """Time of the last request for the rest of the answer, by the clock of the event loop."""


TRACE: ContextVar[Trace | None] = ContextVar("TRACE", default=None)
"""The trace of the current task's call. The transports run in a copy of the caller's context."""
