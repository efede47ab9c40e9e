"""The person behind a call, as a server's question reaches them."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from typing import Literal, NamedTuple

from paddock.model.base import Json


class Unanswerable(Exception):
    """A question that gets no answer; the text says why."""


class Form(NamedTuple):
    """A question of a server, and what is sent when the person agrees."""

    message: str
    values: Mapping[str, Json]


Person = Callable[[Form], Awaitable[Literal["accept", "decline"]]]
"""Asks the person behind a call. Raises Unanswerable when there is nobody, or no answer in time."""

PERSON: ContextVar[Person | None] = ContextVar("PERSON", default=None)
"""The person behind the call that the current task makes."""
