"""One JSON object in a row that several machines share, changed by compare-and-set; see `foundation.files.Kept`.

{"text": "{...}", "seal": "9f86..."}      the object as JSON, and the seal of that text where machines have keys
"""

import contextlib
import json
import math
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar, cast

from paddock.cluster.blocking import BlockingDatabase
from paddock.cluster.kept import CREATE, READ, REPLACE
from paddock.cluster.seals import Seals
from paddock.model.errors import ConfigurationError, StoreUnavailable

T = TypeVar("T")
MAX_ROW_CHARS = 16 * 1024 * 1024
"""Maximum length of the object as JSON, in characters."""
LOOK_S = 1.0
"""Time for which `look` returns what was read, in seconds."""
_MAX_ATTEMPTS = 30
_PAUSE_S = 0.01


class JsonRow:
    """The object of one row. All methods but `recall` block: use threads. `look` does so once per `LOOK_S`."""

    def __init__(
        self,
        database: BlockingDatabase,
        kind: str,
        name: str,
        seals: Seals,
        sound: Callable[[dict[str, Any]], bool] | None = None,
    ) -> None:
        """Reject a row without a seal, or whose object is not `sound`: others may write to the database."""
        self._database = database
        self._kind = kind
        self._name = name
        self._seals = seals
        self._sound = sound
        self._seen: dict[str, Any] = {}
        """The content as it was last read or written."""
        self._seen_at = -math.inf

    def look(self) -> dict[str, Any]:
        """Return the content, which the caller must not change. Raises ConfigurationError."""
        return self._seen if time.monotonic() - self._seen_at < LOOK_S else self.read()

    def recall(self) -> dict[str, Any]:
        """Return the content as it was last seen; empty if it never was. It does not block."""
        return self._seen

    def read(self) -> dict[str, Any]:
        """Return the content. Raises ConfigurationError if it cannot be read or is not sound."""
        return self._read()[1]

    def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let `change` alter the content, and write it unless it was changed meanwhile; then begin anew."""
        for attempt in range(_MAX_ATTEMPTS):
            version, known = self._read()
            held: dict[str, Any] = json.loads(json.dumps(known))
            result = change(held)
            text = json.dumps(held)
            if len(text) > MAX_ROW_CHARS:
                raise ConfigurationError(f"{self._where}: it would be longer than {MAX_ROW_CHARS} characters")
            if self._write(text, version):
                self._seen, self._seen_at = held, -math.inf
                return result
            time.sleep(random.uniform(0, _PAUSE_S * (attempt + 1)))  # noqa: S311 - so that not all try at once
        raise ConfigurationError(f"{self._where}: other machines change it all the time; try again later")

    @property
    def _where(self) -> str:
        return f"{self._kind} {self._name} in the database of cluster.url"

    def _read(self) -> tuple[int, dict[str, Any]]:
        """Return the version, 0 for an absent row, and the content."""
        began = time.monotonic()
        rows = self._fetch(READ, 2 * MAX_ROW_CHARS, self._kind, self._name)
        version, held = (int(rows[0][1]), self._parse(rows[0][2])) if rows else (0, {})
        self._seen, self._seen_at = held, began
        return version, held

    def _parse(self, body: str) -> dict[str, Any]:
        """Return the object in a row, which must have its seal. Raises ConfigurationError."""
        value: object = None
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(body):
                case {"text": str() as text, "seal": (str() | None) as seal}:
                    given = None if seal is None else bytes.fromhex(seal)
                    if self._seals.accepts(given, self._kind, self._name, text):
                        value = json.loads(text)
                case _:
                    pass
        held = cast("dict[str, Any]", value)
        if not isinstance(value, dict) or (self._sound is not None and not self._sound(held)):
            raise ConfigurationError(f"{self._where}: was damaged or changed; delete the row to start afresh")
        return held

    def _write(self, text: str, version: int) -> bool:
        seal = self._seals.seal(self._kind, self._name, text)
        body = json.dumps({"text": text, "seal": None if seal is None else seal.hex()})
        if version == 0:
            return bool(self._fetch(CREATE, self._kind, self._name, body))
        return bool(self._fetch(REPLACE, body, self._kind, self._name, version))

    def _fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._database.fetch(query, values)
        except StoreUnavailable as error:
            raise ConfigurationError(str(error)) from None
