"""Call the program's file by its name: its place in scratch says nothing, and is gone when somebody reads of it."""

import os
from pathlib import Path

from paddock.runtimes.task import Sink

_URL = b"file://"
"""How Node.js speaks of ES modules."""


class PathRewriter:
    """Passes a stream on, and in it a file's name instead of its place, also where that comes in pieces."""

    def __init__(self, sink: Sink, folder: Path, name: str) -> None:
        place = os.fsencode(f"{folder}/{name}")
        self._sink = sink
        self._places = (_URL + place, place)
        self._name = os.fsencode(name)
        self._pending = b""

    def take(self, data: bytes) -> None:
        """Pass on what cannot be the beginning of the place; everything in the end."""
        if not data:
            if self._pending:
                self._sink(self._pending)
            self._pending = b""
            self._sink(b"")
            return
        told = self._pending + data
        for place in self._places:
            told = told.replace(place, self._name)
        cut = len(told) - max(_count_begun_bytes(told, place) for place in self._places)
        self._pending = told[cut:]
        if cut:
            self._sink(told[:cut])


def _count_begun_bytes(data: bytes, text: bytes) -> int:
    """Return how many of the last bytes are the beginning of a text."""
    max_bytes = min(len(data), len(text) - 1)
    return next((size for size in range(max_bytes, 0, -1) if data.endswith(text[:size])), 0)
