"""A JSON file that several processes keep together: read whole, changed under a lock, replaced in one step."""

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar, cast

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
            with self._locked():
                held = self.read()
                result = change(held)
                replace_file(self.path, json.dumps(held))
        except OSError as error:
            raise ConfigurationError(f"{self.path}: cannot be written: {error.strerror}") from None
        return result

    @contextlib.contextmanager
    def _locked(self) -> Generator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def replace_file(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a text so that readers see the old or the new one whole, and a crash leaves one of them."""
    new = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
