"""A JSON file that several processes keep together: read whole, changed under a lock, replaced in one step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from paddock.files import locked, replace_file
from paddock.model.errors import ConfigurationError

T = TypeVar("T")
LONGEST = 64 * 1024 * 1024


class Kept:
    """A file below the state directory that holds one JSON object. A missing file is an empty object."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[tuple[int, int, int], dict[str, Any]] | None = None

    def look(self) -> dict[str, Any]:
        """Return what the file holds, to be looked at only; parsed again when the file is another."""
        try:
            facts = self.path.stat()
        except OSError:
            return self.read()
        which = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if self._seen is None or self._seen[0] != which:
            self._seen = (which, self.read())
        return self._seen[1]

    def read(self) -> dict[str, Any]:
        """Return what the file holds. Raises ConfigurationError when it holds something else."""
        try:
            if self.path.stat().st_size > LONGEST:
                raise ConfigurationError(f"{self.path}: larger than {LONGEST} bytes; remove it to start anew")
            value: object = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError(
                f"{self.path}: cannot be read: {error}; remove it to start anew"
            ) from None
        if not isinstance(value, dict):
            raise ConfigurationError(f"{self.path}: holds no JSON object; remove it to start anew")
        return cast("dict[str, Any]", value)

    def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let `change` alter what the file holds, and write it. Raises ConfigurationError; then nothing changed."""
        try:
            with locked(self.path.with_suffix(".lock")):
                held = self.read()
                result = change(held)
                replace_file(self.path, json.dumps(held).encode())
        except OSError as error:
            raise ConfigurationError(f"{self.path}: cannot be written: {error.strerror}") from None
        return result
