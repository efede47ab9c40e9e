"""The person behind a call, as a server's question reaches them."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Literal, NamedTuple

from paddock.model.base import Json


class UnanswerableQuestion(Exception):
    """A question that gets no answer; the text says why."""


class ServerForm(NamedTuple):
    """A question of a server, and what is sent when the person agrees."""

    message: str
    values: Mapping[str, Json]


Person = Callable[[ServerForm], Awaitable[Literal["accept", "decline"]]]
"""Asks the person behind a call. Raises UnanswerableQuestion when there is nobody, or no answer in time."""

PERSON: ContextVar[Person | None] = ContextVar("PERSON", default=None)
"""The person behind the call that the current task makes."""
