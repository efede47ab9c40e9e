"""Small facts that all machines of a cluster share: rows with a name and a version, compared before they are replaced.

A row comes from a database that others may write to. Its readers check it like a file of a stranger.
"""

import json
from typing import Any, NamedTuple

from paddock.cluster.database import STATEMENT_S, Database
from paddock.model.base import Json

MAX_BODY_CHARS = 16 * 1024 * 1024
"""Maximum length of one fact as JSON, in characters."""


READ = "select name, version, left(body::text, %s) from kept where kind = %s and name = %s"
CREATE = "insert into kept (kind, name, body) values (%s, %s, %s::jsonb) on conflict do nothing returning 1"
REPLACE = (
    "update kept set body = %s::jsonb, version = version + 1 "
    "where kind = %s and name = %s and version = %s returning 1"
)


class KeptRow(NamedTuple):
    """One fact. `text` is its JSON, as the database writes it."""

    name: str
    version: int
    text: str

    def parse(self) -> Json:
        """Return the value. Raises ValueError for what is no JSON: it was longer than what is read."""
        try:
            return json.loads(self.text)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


class KeptRows:
    """The facts of one kind. Every method raises StoreUnavailable."""

    def __init__(self, database: Database, kind: str, max_chars: int = MAX_BODY_CHARS) -> None:
        """Read at most `max_chars` of each fact."""
        self._database = database
        self._kind = kind
        self._max_chars = max_chars

    async def list_rows(self, limit: int) -> list[KeptRow]:
        """Return the first rows, by name."""
        rows = await self._fetch(
            "select name, version, left(body::text, %s) from kept where kind = %s order by name limit %s",
            (self._max_chars, self._kind, limit),
        )
        return [KeptRow(*row) for row in rows]

    async def read_row(self, name: str) -> KeptRow | None:
        """Return the row with a name, or None."""
        rows = await self._fetch(READ, (self._max_chars, self._kind, name))
        return KeptRow(*rows[0]) if rows else None

    async def create_row(self, name: str, value: Json, *, max_rows: int | None = None) -> bool:
        """Add a row; return False if there is one with this name, or there are `max_rows`."""
        return bool(
            await self._fetch(
                "insert into kept (kind, name, body) select %s, %s, %s::jsonb "
                "where %s::int is null or (select count(*) from kept where kind = %s) < %s::int "
                "on conflict do nothing returning 1",
                (self._kind, name, json.dumps(value), max_rows, self._kind, max_rows),
            )
        )

    async def delete_row(self, name: str) -> bool:
        """Delete a row; return whether there was one."""
        return bool(
            await self._fetch(
                "delete from kept where kind = %s and name = %s returning 1", (self._kind, name)
            )
        )

    async def _fetch(self, query: str, values: tuple[object, ...]) -> list[tuple[Any, ...]]:
        return await self._database.fetch(query, values, timeout_s=STATEMENT_S)
