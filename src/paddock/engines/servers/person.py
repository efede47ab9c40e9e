"""The interface by which a server's question reaches the person behind a call."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Literal, NamedTuple

from paddock.model.base import Json


class UnanswerableQuestion(Exception):
    """A question without an answer; the text says why."""


class ServerForm(NamedTuple):
    """A question of a server, and the values that are sent if the person agrees."""

    message: str
    values: Mapping[str, Json]


Person = Callable[[ServerForm], Awaitable[Literal["accept", "decline"]]]
"""Asks the person behind a call. Raises UnanswerableQuestion if there is no person, or no answer in time."""

PERSON: ContextVar[Person | None] = ContextVar("PERSON", default=None)
"""The person behind the current task's call."""
