"""Replace the path of the program's file in its output by its name: the path in scratch no longer exists."""

import os
from pathlib import Path

from paddock.engines.programs.task import Sink

_URL = b"file://"
"""How Node.js writes paths of ES modules."""


class PathRewriter:
    """Passes on a stream with a file's name instead of its path, also if the path is split between chunks."""

    def __init__(self, sink: Sink, folder: Path, name: str) -> None:
        path = os.fsencode(f"{folder}/{name}")
        self._sink = sink
        self._paths = (_URL + path, path)
        self._name = os.fsencode(name)
        self._pending = b""

    def take(self, data: bytes) -> None:
        """Pass on data, but hold back what may be the beginning of the path until the next chunk or the end."""
        if not data:
            if self._pending:
                self._sink(self._pending)
            self._pending = b""
            self._sink(b"")
            return
        data = self._pending + data
        for path in self._paths:
            data = data.replace(path, self._name)
        cut = len(data) - max(_count_begun_bytes(data, path) for path in self._paths)
        self._pending = data[cut:]
        if cut:
            self._sink(data[:cut])


def _count_begun_bytes(data: bytes, text: bytes) -> int:
    """Return how many bytes at the end of `data` are the beginning of `text`."""
    max_bytes = min(len(data), len(text) - 1)
    return next((size for size in range(max_bytes, 0, -1) if data.endswith(text[:size])), 0)
