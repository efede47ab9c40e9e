"""Where a server finds the tokens of `paddock serve token new`: in a file, or in rows that several servers share.

`tests/contract/test_tokens.py` holds for both.
"""

import asyncio
import json
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.model.printable import make_printable
from paddock.policy.settings.serve import MAX_TOKENS
from paddock.surfaces.tenants.token_file import StoredToken, TokenFile

if TYPE_CHECKING:
    from paddock.cluster.database import Database
    from paddock.cluster.generation import Generation
    from paddock.cluster.kept import KeptRow, KeptRows
    from paddock.cluster.listener import Announcements
    from paddock.cluster.seals import Seals
    from paddock.policy.settings.cluster import ClusterSettings

KIND = "token"
"""Kind of the rows."""
MAX_ROW_CHARS = 64 * 1024
"""Maximum length of one row, in characters."""
MAX_AGE_S = 30.0
"""Time for which tokens are accepted without news from the database, in seconds."""
MIN_PAUSE_S = 0.2
"""Minimum time between two reads, in seconds: a client that sends unknown tokens must not burden the database."""
_log = logging.getLogger("paddock.surfaces.tenants")


class TokenStore(Protocol):
    """The tokens of a server, except those of its settings."""

    async def read(self) -> tuple[StoredToken, ...]:
        """Return the tokens as they are known, without a wait. Raises ConfigurationError and StoreUnavailable."""
        ...

    async def refresh(self) -> tuple[StoredToken, ...]:
        """Return the tokens as they are now. Raises ConfigurationError and StoreUnavailable."""
        ...

    async def update(self) -> tuple[StoredToken, ...]:
        """Return the tokens, read again only if they may have changed. Raises as `refresh` does."""
        ...

    async def add(self, token: StoredToken) -> None:
        """Add a token. Raises ConfigurationError, also if its name is taken; StoreUnavailable."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove a token; return whether there was one. Raises ConfigurationError and StoreUnavailable."""
        ...

    def take_removed(self) -> list[tuple[str, str]]:
        """Return and forget the names and hashes of entries that others have removed or changed, for the record."""
        ...


class FileTokens:
    """The tokens in a file; see `TokenFile`. It is looked at each time."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file

    async def read(self) -> tuple[StoredToken, ...]:
        return self._file.read()

    async def refresh(self) -> tuple[StoredToken, ...]:
        return self._file.read()

    async def update(self) -> tuple[StoredToken, ...]:
        return self._file.read()

    async def add(self, token: StoredToken) -> None:
        self._file.add(token)

    async def remove(self, name: str) -> bool:
        return self._file.remove(name)

    def take_removed(self) -> list[tuple[str, str]]:
        return []


class SharedTokens:
    """The tokens in rows of a database: names, hashes and limits, never a token.

    A row that is damaged, or has no seal where there are keys, is no token; the log says so. Of two rows with one hash,
    none is a token: one of them may have lost a limit.
    """

    def __init__(
        self,
        rows: "KeptRows",
        seals: "Seals",
        changes: "Announcements | None" = None,
        *,
        min_pause_s: float = MIN_PAUSE_S,
        generation: "Generation | None" = None,
    ) -> None:
        """Use `rows`, whose changes are announced as `changes`. Without these, `update` always reads.

        Changed rows are accepted only while `generation` finds that the database was not restored from a backup.
        """
        self._rows = rows
        self._changes = changes
        self._current_at = float("-inf")
        """When these tokens were those of the database, as far as is known."""
        self._generation = generation
        self._removed: list[tuple[str, str]] = []
        self._min_pause_s = min_pause_s
        self._seals = seals
        self._seen: list[KeptRow] | None = None
        self._tokens: tuple[StoredToken, ...] = ()
        self._read_at = self._failed_at = float("-inf")
        self._problem: StoreUnavailable | None = None
        """Why the last read failed."""
        self._turn = asyncio.Lock()

    async def read(self) -> tuple[StoredToken, ...]:
        """Return the tokens as they are known. Raises StoreUnavailable if there was no news for `MAX_AGE_S`."""
        if time.monotonic() - max(self._read_at, self._current_at) <= MAX_AGE_S:
            return self._tokens
        if self._problem is not None:
            raise self._problem
        return await self.refresh()

    async def refresh(self) -> tuple[StoredToken, ...]:
        """Read the rows; calls at the same time share one read, for which they may wait. Raises StoreUnavailable."""
        asked_at = time.monotonic()
        async with self._turn:
            if self._failed_at >= asked_at:  # while this call waited for its turn
                assert self._problem is not None
                raise self._problem
            if self._read_at < asked_at:
                await asyncio.sleep(self._read_at + self._min_pause_s - time.monotonic())
                began = time.monotonic()
                try:
                    rows = await self._rows.list_rows(MAX_TOKENS + 1)
                    if rows != self._seen:
                        await self._adopt(rows, began)
                except StoreUnavailable as error:
                    self._failed_at, self._problem = time.monotonic(), error
                    raise
                self._problem = None
                self._read_at = began
            return self._tokens

    async def update(self) -> tuple[StoredToken, ...]:
        """Return the tokens, read again if a change was announced, or none could be. Raises StoreUnavailable."""
        if self._changes is None:
            return await self.refresh()
        if self._changes.due_s == 0:
            await self._changes.read(self.refresh)
        self._current_at = self._changes.current_at
        return self._tokens

    async def _adopt(self, rows: "list[KeptRow]", began: float) -> None:
        """Use changed rows. Raises StoreUnavailable in a restored database: then what has not changed still counts."""
        tokens = self._parse_rows(rows)
        if self._generation is not None:
            try:
                await self._generation.confirm()
            except StoreUnavailable:
                if self._generation.restored:
                    self._tokens = tuple(each for each in self._tokens if each in tokens)
                    self._read_at = began
                raise
            self._removed += _list_removed(self._seen or [], rows)
        self._tokens, self._seen = tokens, rows

    def take_removed(self) -> list[tuple[str, str]]:
        """Return and forget the names and hashes of entries that were removed or changed, for the record."""
        removed, self._removed = self._removed, []
        return removed

    async def add(self, token: StoredToken) -> None:
        """Add a token. Raises ConfigurationError and StoreUnavailable."""
        text = json.dumps(token.model_dump(mode="json", exclude_defaults=True))
        seal = self._seals.seal(KIND, token.name, text)
        if len(text) > MAX_ROW_CHARS // 4:
            raise ConfigurationError(f"the policy of the token {token.name} is too long")
        body = {"token": text, "seal": None if seal is None else seal.hex()}
        if await self._rows.create_row(token.name, body, max_rows=MAX_TOKENS):
            return
        if await self._rows.read_row(token.name) is None:
            raise ConfigurationError(f"there are {MAX_TOKENS} tokens already; revoke some of them")
        raise ConfigurationError(
            f"there is a token {token.name} already; choose another name, or run: "
            f"paddock serve token revoke {token.name}"
        )

    async def remove(self, name: str) -> bool:
        """Remove a token. Raises StoreUnavailable."""
        return await self._rows.delete_row(name)

    def _parse_rows(self, rows: "list[KeptRow]") -> tuple[StoredToken, ...]:
        found: list[StoredToken] = []
        for row in rows[:MAX_TOKENS]:
            try:
                found.append(self._parse_row(row))
            except ValueError:  # ValidationError is one
                _log.error(
                    "the row of the token %s was damaged or changed, and is not accepted",
                    make_printable(row.name),
                )
        hashes = [each.sha256 for each in found]
        for each in found:
            if hashes.count(each.sha256) > 1:
                _log.error("the token %s has the hash of another one, and is not accepted", each.name)
        sound = [each for each in found if hashes.count(each.sha256) == 1]
        return tuple(sorted(sound, key=lambda each: (each.created, each.name)))

    def _parse_row(self, row: "KeptRow") -> StoredToken:
        """Return the token of a row. Raises ValueError."""
        body = row.parse()
        match body:
            case {"token": str() as text, "seal": (str() | None) as seal, **rest} if not rest:
                given = None if seal is None else bytes.fromhex(seal)
            case _:
                raise ValueError("not a token")
        if not self._seals.accepts(given, KIND, row.name, text):
            raise ValueError("no seal")
        token = StoredToken.model_validate_json(text)
        if token.name != row.name:
            raise ValueError("another name")
        return token


def _list_removed(before: "list[KeptRow]", after: "list[KeptRow]") -> list[tuple[str, str]]:
    from paddock.cluster.generation import hash_token_entry

    removed: list[tuple[str, str]] = []
    for row in before:
        if row not in after:
            with suppress(ValueError):
                match row.parse():
                    case {"token": str() as text}:
                        removed.append((row.name, hash_token_entry(text)))
                    case _:
                        pass
    return removed


def open_shared_tokens(
    database: "Database",
    cluster: "ClusterSettings",
    changes: "Announcements | None" = None,
    generation: "Generation | None" = None,
) -> SharedTokens:
    """Return the tokens of a database. Raises ConfigurationError if the keys of the settings cannot be read."""
    from paddock.cluster.kept import KeptRows
    from paddock.cluster.seals import open_seals

    rows = KeptRows(database, KIND, MAX_ROW_CHARS)
    return SharedTokens(rows, open_seals(cluster), changes, generation=generation)
