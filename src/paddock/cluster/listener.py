"""The one lasting connection of this process: it renews the lease, and hears what other machines announce.

    renewal answered     the connection still listens: what was read since the last announcement is current
    connection broken    the next renewal makes it again, and everything must be read: something may have been missed
    nothing heard        of this process's own announcement: a pooler that shares connections between transactions is in
                         front. Then everything is read once a second, which is logged.

Such a pooler passes an announcement to the next user of the connection to the database, which may be the next renewal.
Therefore only what arrives between two statements shows that this process hears (`test_hearing`).

Triggers announce changes of replicas and tokens (`migrations/0005_versions.sql`), also those by a person; an answer is
announced by the statement that gives it (`questions`). An announcement has no content and is not trusted: it only makes
its readers read.
"""

import asyncio
import logging
import math
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from paddock.cluster.database import (
    MAX_STATEMENT_S,
    STATEMENT_S,
    break_off_after,
    check_url,
    describe_failure,
    explain_missing_extra,
    make_options,
)
from paddock.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import AsyncConnection

    from paddock.cluster.database import Statements

NODES: Final = "paddock_node"
"""Announces that a replica has begun, ended or lost its lease."""
TOKENS: Final = "paddock_token"
"""Announces that a token was made, changed or revoked."""
ANSWERS: Final = "paddock_answer"
"""Announces an answer of a person."""
_CHANNELS: Final = (NODES, TOKENS, ANSWERS)
READ_S: Final = 60.0
"""Time between two reads of what is announced, in seconds: an announcement could be lost."""
POLL_S: Final = 1.0
"""The same while it is not known whether announcements arrive."""
CONNECT_S: Final = 2.0
"""Maximum time until the connection is there, in seconds."""
_PAUSE_S: Final = 0.5
"""Time after a broken connection, in seconds."""
_HEARING_S: Final = 1.0
"""Time between two statements in which this process's own announcement must arrive, in seconds."""
_log = logging.getLogger("paddock.cluster")


class Announcements:
    """What one reader has to read: all that was announced on a channel since it began its last read."""

    def __init__(self, listener: "Listener") -> None:
        self._listener = listener
        self._announced = asyncio.Event()
        self._announced.set()
        self._read_at = -math.inf

    def note(self) -> None:
        """Make a read due."""
        self._announced.set()

    @property
    def due_s(self) -> float:
        """Time until the next read is due, in seconds; 0 if it is due now."""
        interval = READ_S if self._listener.hears else POLL_S
        return 0.0 if self._announced.is_set() else max(0.0, self._read_at + interval - time.monotonic())

    @property
    def current_at(self) -> float:
        """When nothing was announced that is not read yet, by the monotonic clock."""
        return self._read_at if self._announced.is_set() else max(self._read_at, self._listener.received_at)

    @property
    def connected_at(self) -> float:
        """When the connection that listens was made, by the monotonic clock."""
        return self._listener.connected_at

    async def wait(self, seconds: float) -> None:
        """Wait for an announcement that is not read yet, up to some seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._announced.wait()

    async def read(self, read: Callable[[], Awaitable[object]]) -> None:
        """Let `read` read what is announced. If it fails, it stays due; raises what it raises."""
        self._announced.clear()
        began = time.monotonic()
        try:
            await read()
        except BaseException:
            self._announced.set()
            raise
        self._read_at = began


class Listener:
    """One connection, made when it is needed; use it as `async with`.

    One task at a time may call `fetch` and `wait`.
    """

    def __init__(self, url: str, *, name: str = "paddock") -> None:
        """Use the database at `url`, without a pooler that shares connections between transactions.

        `name` is shown in its list of connections. Raises ConfigurationError.
        """
        try:
            import psycopg
        except ModuleNotFoundError:
            raise explain_missing_extra() from None
        check_url(url)
        self._open = partial(psycopg.AsyncConnection[tuple[Any, ...]].connect, url, **make_options(name))
        self._connection: AsyncConnection[tuple[Any, ...]] | None = None
        self._readers: dict[str, list[Announcements]] = {}
        self._own_channel = f"paddock_{secrets.token_hex(8)}"
        self._own_token = ""
        """Content of the own announcement that is expected; empty if none is, or a statement came in between."""
        self._own_received = asyncio.Event()
        self._idle = asyncio.Event()
        """Set between two statements."""
        self._connected = asyncio.Event()
        """Set for a new connection, until it is known whether it hears."""
        self.connected_at = -math.inf
        """When the connection was made, by the monotonic clock."""
        self.received_at = -math.inf
        """When the connection proved last that nothing was missed, by the monotonic clock."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drop()

    @property
    def hears(self) -> bool:
        """Whether announcements arrive, as far as is known."""
        return self._connection is not None and self._own_received.is_set()

    def follow(self, channel: str) -> Announcements:
        """Return the announcements on a channel for a new reader. The first read is due at once."""
        reader = Announcements(self)
        self._readers.setdefault(channel, []).append(reader)
        return reader

    async def fetch(
        self, query: str, values: tuple[object, ...] = (), *, timeout_s: float = MAX_STATEMENT_S
    ) -> list[tuple[Any, ...]]:
        """Follow `Statements`. A failure ends the connection: the next one may lead to another primary."""
        import psycopg

        began = time.monotonic()
        self._own_token = ""
        self._idle.clear()
        try:
            connection = self._connection or await self._connect()
            with break_off_after(connection, timeout_s):
                cursor = await connection.execute(query.encode(), values)
                rows = await cursor.fetchall() if cursor.description else []
        except (psycopg.Error, TimeoutError) as error:
            await self._drop()
            raise StoreUnavailable(describe_failure(error)) from None
        except BaseException:
            await self._drop()
            raise
        if self.hears:
            self.received_at = began
        self._idle.set()
        return rows

    async def wait(self, seconds: float) -> None:
        """Note announcements for some seconds; return early if the connection breaks."""
        import psycopg

        if (connection := self._connection) is None:
            await asyncio.sleep(seconds)
            return
        until = time.monotonic() + seconds
        try:
            async with aclosing(connection.notifies(timeout=seconds)) as notices:
                async for notice in notices:
                    self._note(notice.channel, notice.payload)
                    if time.monotonic() >= until:  # any number of them delays no renewal
                        break
        except psycopg.Error:
            await self._drop()
            await asyncio.sleep(min(_PAUSE_S, seconds))

    async def test_hearing(self, database: "Statements") -> None:
        """Find out whether a new connection hears what `database` announces; log it once if not.

        Call it again and again. Raises StoreUnavailable.
        """
        await self._connected.wait()
        await self._idle.wait()
        token = self._own_token = secrets.token_hex(8)
        values = self._own_channel, token
        await database.fetch("select pg_notify(%s, %s)", values, timeout_s=STATEMENT_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(_HEARING_S):
                await self._own_received.wait()
        if self._own_received.is_set():
            self._connected.clear()
        elif self._own_token == token and self._connection is not None:
            self._connected.clear()
            _log.error(
                "the database announces nothing to this server, so leases and tokens are read every second: "
                "a pooler in front of it shares connections between transactions. Set cluster.listen_url to an "
                "address without it."
            )

    def _note(self, channel: str, content: str) -> None:
        if channel == self._own_channel and content == self._own_token:
            self._own_received.set()
        for reader in self._readers.get(channel, ()):
            reader.note()

    async def _connect(self) -> "AsyncConnection[tuple[Any, ...]]":
        from psycopg import sql

        async with asyncio.timeout(CONNECT_S):
            connection = await self._open()
        self._connection = connection
        listens = [
            sql.SQL("listen {}").format(sql.Identifier(each)) for each in (*_CHANNELS, self._own_channel)
        ]
        with break_off_after(connection, CONNECT_S):  # all in one round trip
            await connection.execute(sql.SQL("; ").join(listens))
        self.connected_at = time.monotonic()
        self._connected.set()
        for readers in self._readers.values():
            for reader in readers:
                reader.note()
        return connection

    async def _drop(self) -> None:
        """Close the connection, if there is one."""
        connection, self._connection = self._connection, None
        self._own_received.clear()
        self._idle.clear()
        if connection is not None:
            await connection.close()
