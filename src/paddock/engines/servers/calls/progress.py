"""Progress that a server reports of a call (`notifications/progress`), for a caller that listens.

A call without a listener asks for none. Reports extend no limit, and a flood of them costs little: of each call, one
report within an interval is passed on, and all are counted as messages that answer no request (`unsolicited`).
"""

import itertools
import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from paddock.model.invisible import spell_invisible
from paddock.model.outcome import CallProgress, OnProgress
from paddock.model.texts import ellipsis

INTERVAL_S = 1.0
"""Minimum time between two reports of one call that are passed on, in seconds."""
_MAX_MESSAGE_CHARS = 200
_MAX_NUMBER = 2**53 - 1

_log = logging.getLogger("paddock.engines.servers")


class ProgressReports:
    """The calls of one connection that have a listener. `hide` removes credentials; `clock` returns seconds."""

    def __init__(self, server: str, hide: Callable[[str], str], clock: Callable[[], float]) -> None:
        self._server = server
        self._hide = hide
        self._clock = clock
        self._tokens = itertools.count(1)
        self._listeners: dict[int, tuple[str, OnProgress]] = {}
        self._next: dict[int, float] = {}
        """When the next report of a call is passed on, by its token."""

    @contextmanager
    def listen(self, tool: str, on_progress: OnProgress) -> Generator[dict[str, Any]]:
        """Pass the reports of a call on to `on_progress`; yield the `_meta` of its request."""
        token = next(self._tokens)
        self._listeners[token] = tool, on_progress
        self._next[token] = self._clock()
        try:
            yield {"progressToken": token}
        finally:
            del self._listeners[token], self._next[token]

    def take(self, params: Mapping[str, Any]) -> None:
        """Pass on a report. One that breaks the protocol, or is of no call, is dropped."""
        token, progress, total = (params.get(name) for name in ("progressToken", "progress", "total"))
        if type(token) is not int or token not in self._listeners or not _is_number(progress):
            return
        now = self._clock()
        if now < self._next[token]:
            return
        self._next[token] = now + INTERVAL_S
        tool, on_progress = self._listeners[token]
        message = params.get("message")
        text = " ".join(message.split()) if isinstance(message, str) else ""
        report = CallProgress(
            server=self._server,
            tool=tool,
            progress=cast("float", progress),
            total=total if _is_number(total) else None,
            message=spell_invisible(ellipsis(self._hide(text), _MAX_MESSAGE_CHARS)),
        )
        try:
            on_progress(report)
        except Exception:  # noqa: BLE001 - it must not end the connection, which other calls use
            _log.exception("a listener for the progress of %s failed", tool)


def _is_number(value: object) -> bool:
    """Return whether a value is a number that can be printed; Python prints no integer of 400 digits as a fraction."""
    return type(value) in (int, float) and -_MAX_NUMBER <= cast("float", value) <= _MAX_NUMBER
