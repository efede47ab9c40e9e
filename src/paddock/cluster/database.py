"""Connections to the database of `cluster.url`."""

from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from paddock.model.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from psycopg import AsyncConnection

MAX_CONNECTIONS = 8
"""Maximum number of connections of one process."""
CONNECT_S = 5.0
"""Maximum time until a connection is there, in seconds."""

MISSING_EXTRA = (
    "cluster.url is set, and the packages that it needs are not installed; "
    "run: pip install 'paddock-sandbox[cluster]'"
)


class Database:
    """A pool of connections; use it as `async with Database(url) as database:`.

    Raises ConfigurationError without the extra `cluster`. Nothing is connected before the first use: a server starts
    also while its database is away.
    """

    def __init__(self, url: str, *, name: str = "paddock") -> None:
        """Use the database at `url`; `name` is shown in its list of connections (`pg_stat_activity`)."""
        try:
            from psycopg_pool import AsyncConnectionPool
        except ModuleNotFoundError:
            raise ConfigurationError(MISSING_EXTRA) from None
        # No prepared statements, and nothing that lasts longer than a transaction: PgBouncer may be in between.
        # A database without a locale would return text as bytes: therefore the encoding.
        given: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": None,
            "application_name": name[:63],
            "client_encoding": "utf8",
            "connect_timeout": int(CONNECT_S),
        }
        self._pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] = AsyncConnectionPool(
            url,
            kwargs=given,
            min_size=0,
            max_size=MAX_CONNECTIONS,
            timeout=CONNECT_S,
            open=False,
            check=AsyncConnectionPool.check_connection,
        )

    async def __aenter__(self) -> Self:
        await self._pool.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self._pool.close()

    @asynccontextmanager
    async def connect(self) -> "AsyncGenerator[AsyncConnection[tuple[Any, ...]]]":
        """Yield a connection that commits each statement. Raises StoreUnavailable, also for errors in the block."""
        import psycopg
        from psycopg_pool import PoolTimeout

        try:
            async with self._pool.connection() as connection:
                yield connection
        except (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout) as error:
            raise StoreUnavailable(describe_failure(error)) from None

    async def fetch(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of one statement, which is committed. Raises StoreUnavailable."""
        async with self.connect() as connection:
            cursor = await connection.execute(query.encode(), values)
            return await cursor.fetchall() if cursor.description else []


def describe_failure(error: Exception) -> str:
    """Return a text for a failed connection, without the parameters of the connection."""
    text = str(error).strip().splitlines()
    why = text[0].removeprefix("connection failed: ") if text else type(error).__name__
    return f"The database of cluster.url cannot be used: {why[:300]}. Check that it runs and can be reached."
