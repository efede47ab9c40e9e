"""Connections to the database of `cluster.url`."""

import asyncio
import logging
import os
import re
import select
import socket
from contextlib import asynccontextmanager, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.model.texts import install_command

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from psycopg import AsyncConnection, BaseConnection

MAX_CONNECTIONS = 2
"""Maximum number of connections of one process, beside that of its lease."""
CONNECT_S = 5.0
"""Maximum time until a connection is there, in seconds."""
STATEMENT_S: Final = 5.0
"""Usual maximum time of one statement, in seconds."""
MAX_STATEMENT_S: Final = 600.0
"""Maximum time of a statement over many rows, in seconds: a database that hangs must not be waited for for ever."""
_RETRY_S = 2.0
"""Time for which the pool itself tries again to connect, in seconds. Its pauses double: after a long outage it would
notice the database late. The next statement begins anew."""

_PLACE = re.compile(
    r"""connection to server .*? failed: |connection failed: |FATAL: +| (?:"[^"]*"|'[^']*')"""
)
"""What texts of libpq say about the address, the user and the name of the database."""
_REMEDY: Final = "Check that it runs and can be reached."
"""What to do about most failures."""
_UNVERIFIED: Final = "Set sslrootcert in cluster.url to the certificate of its authority."
_STANDBY: Final = "It is a standby or recovers: wait for it, or name the primary in cluster.url."
_REMEDIES: Final = (
    ("password", "Set the variable PGPASSWORD, or PGPASSFILE to a file with a line for this host and port."),
    ("does not match host name", "Use a name in cluster.url that the certificate of the database has."),
    ("certificate", _UNVERIFIED),
    ("unexpected eof", _REMEDY),  # a connection over TLS that was broken off
    ("SSL error", _UNVERIFIED),
    ("does not support SSL", "Turn TLS on in the database: ssl = on, with a certificate."),
    ("no encryption", "Add sslmode=verify-full to cluster.url."),
    (
        "permission denied for function",
        "Let a superuser run in that database: grant execute on function pg_control_system() to USER",
    ),
    ("does not exist", "Create it, or correct cluster.url."),
    ("during recovery", _STANDBY),
)
"""Parts of texts of libpq, the special ones first, and what to do about them."""


def explain_missing_extra() -> ConfigurationError:
    """Return the error for packages of this room that are not installed."""
    return ConfigurationError(
        "cluster.url is set, and the packages that it needs are not installed; "
        f"run: {install_command('cluster')}"
    )


class Statements(Protocol):
    """Runs single statements: a pool of connections, or one connection."""

    async def fetch(
        self, query: str, values: tuple[object, ...] = (), *, timeout_s: float = MAX_STATEMENT_S
    ) -> list[tuple[Any, ...]]:
        """Return all rows of one statement, which is committed. Raises StoreUnavailable, also after `timeout_s`."""
        ...


class Database:
    """A pool of connections; use it as `async with Database(url) as database:`.

    Raises ConfigurationError without the extra `cluster`. Nothing is connected before the first use: a server starts
    also while its database is away.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "paddock",
        max_connections: int = MAX_CONNECTIONS,
        connect_s: float = CONNECT_S,
    ) -> None:
        """Use the database at `url`; `name` is shown in its list of connections (`pg_stat_activity`).

        A statement fails if it does not get a connection within `connect_s` seconds.
        """
        try:
            from psycopg_pool import AsyncConnectionPool
        except ModuleNotFoundError:
            raise explain_missing_extra() from None
        check_url(url)
        # It logs each attempt to connect. The users of this class log when the database is away.
        logging.getLogger("psycopg").setLevel(logging.CRITICAL)
        self._url = url
        self._given = make_options(name)
        self._refusal: Exception | None = None
        self._pool: AsyncConnectionPool[AsyncConnection[tuple[Any, ...]]] = AsyncConnectionPool(
            url,
            kwargs=self._given,
            connection_class=_make_connection_class(self._note_attempt),
            min_size=0,
            max_size=max_connections,
            timeout=connect_s,
            reconnect_timeout=_RETRY_S,
            open=False,
            check=_check_idle,
        )

    async def __aenter__(self) -> Self:
        await self._pool.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self._pool.close()

    def _note_attempt(self, refusal: Exception | None) -> None:
        """Keep why the last attempt to connect failed; None if it succeeded. The pool itself only reports a timeout."""
        self._refusal = refusal

    @asynccontextmanager
    async def connect(
        self, timeout_s: float | None = None
    ) -> "AsyncGenerator[AsyncConnection[tuple[Any, ...]]]":
        """Yield a connection that commits each statement. Raises StoreUnavailable, also for errors in the block.

        If the block takes longer than `timeout_s` seconds, the connection is broken off. Whether the last statement was
        committed is then unknown.
        """
        import psycopg
        from psycopg_pool import PoolTimeout

        standby = psycopg.errors.ReadOnlySqlTransaction

        cancelled = _count_cancellations()
        try:
            async with self._pool.connection() as connection:
                # The pool waits by `asyncio.wait_for`, which loses a cancellation in the step in which it succeeds:
                # https://github.com/python/cpython/issues/86296
                if _count_cancellations() > cancelled:
                    raise asyncio.CancelledError
                with break_off_after(connection, timeout_s):
                    try:
                        yield connection
                    except standby:
                        # The address led to it during a failover. The next connection may find the new primary.
                        await connection.close()
                        raise
        except PoolTimeout as error:
            raise StoreUnavailable(describe_failure(self._refusal or error)) from None
        except psycopg.Error as error:
            raise StoreUnavailable(describe_failure(error)) from None

    @asynccontextmanager
    async def begin(
        self, timeout_s: float | None = None, *, snapshot: bool = False
    ) -> "AsyncGenerator[AsyncConnection[tuple[Any, ...]]]":
        """Yield a connection within a transaction, as `connect` does. Raises StoreUnavailable.

        In a `snapshot` all statements see the same state, and none can change it.
        """
        async with self.connect(timeout_s) as connection, connection.transaction():
            if snapshot:
                await connection.execute("set transaction isolation level repeatable read, read only")
            yield connection

    async def fetch(
        self, query: str, values: tuple[object, ...] = (), *, timeout_s: float = MAX_STATEMENT_S
    ) -> list[tuple[Any, ...]]:
        """Return all rows of one statement, which is committed. Raises StoreUnavailable, also after `timeout_s`."""
        async with self.connect(timeout_s) as connection:
            cursor = await connection.execute(query.encode(), values)
            return await cursor.fetchall() if cursor.description else []


async def _check_idle(connection: "AsyncConnection[tuple[Any, ...]]") -> None:
    """Raise OperationalError for an idle connection that the database has closed; costs no round trip.

    Nothing is expected from the database then. What there is to read is its farewell, or the end of the connection.
    """
    import psycopg

    idle = select.poll()
    idle.register(connection.fileno(), select.POLLIN)
    if idle.poll(0):
        await connection.close()
        raise psycopg.OperationalError("the connection was closed")


@contextmanager
def break_off_after(
    connection: "AsyncConnection[tuple[Any, ...]]", timeout_s: float | None
) -> "Generator[None]":
    """Shut down the socket of a connection after some time. What waits for it then raises OperationalError.

    A database that hangs does not answer a request to cancel a statement either.
    """
    import psycopg

    if timeout_s is None:
        yield
        return
    late = False

    def break_off() -> None:
        nonlocal late
        late = True
        shut_down(connection)

    timer = asyncio.get_running_loop().call_later(timeout_s, break_off)
    try:
        yield
    except psycopg.Error:
        if late:  # the text of libpq is about the socket
            raise psycopg.OperationalError(describe_silence(timeout_s)) from None
        raise
    finally:
        timer.cancel()


def describe_silence(seconds: float) -> str:
    """Return a text for a database that did not answer within some seconds."""
    return f"no answer within {seconds:g} seconds"


def _count_cancellations() -> int:
    task = asyncio.current_task()
    return 0 if task is None else task.cancelling()


def shut_down(connection: "BaseConnection[Any]") -> None:
    """Shut down the socket of a connection, so that what waits for it fails; a closed one stays closed."""
    import psycopg

    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
        own.shutdown(socket.SHUT_RDWR)


def _make_connection_class(
    note_attempt: "Callable[[Exception | None], None]",
) -> "type[AsyncConnection[tuple[Any, ...]]]":
    """Return the class of a pool's connections. `note_attempt` gets the error of each attempt; None if it succeeded."""
    import psycopg

    class Connection(psycopg.AsyncConnection[tuple[Any, ...]]):
        @classmethod
        async def connect(cls, conninfo: str = "", **options: Any) -> Self:  # noqa: ANN401 - those of libpq
            try:
                made = await super().connect(conninfo, **options)
            except psycopg.Error as error:
                note_attempt(error)
                raise
            note_attempt(None)
            return made

    return Connection


def check_url(url: str) -> None:
    """Raise ConfigurationError for an address that libpq does not understand, such as one with an unknown option."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError as error:
        raise ConfigurationError(
            f"cluster.url: {str(error).strip()}; write postgresql://[user@]host[:port]/database, with options of libpq "
            "after a question mark"
        ) from None


def make_options(name: str) -> dict[str, Any]:
    """Return the options of every connection; `name` is shown in the list of connections of the database.

    There are no prepared statements, because PgBouncer may be in between. A database without a locale would return text
    as bytes: therefore the encoding.
    """
    return {
        "autocommit": True,
        "prepare_threshold": None,
        "application_name": name[:63],
        "client_encoding": "utf8",
        "connect_timeout": int(CONNECT_S),
    }


def clean_text(text: str) -> str:
    """Return a text as PostgreSQL can store it: without NUL and halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")


def describe_failure(error: Exception) -> str:
    """Return a text for a failed connection, without the parameters of the connection: users of a server see it."""
    if isinstance(error, TimeoutError):
        return f"The database of cluster.url cannot be used: {describe_silence(CONNECT_S)}. {_REMEDY}"
    text = str(error).strip().splitlines()
    why = _PLACE.sub("", text[0]) if text else type(error).__name__
    remedy = next((remedy for sign, remedy in _REMEDIES if sign in why), _REMEDY)
    return f"The database of cluster.url cannot be used: {why[:300]}. {remedy}"
