"""The database of `cluster.url` for work that runs in threads: the vault, pins and other facts that are rarely used."""

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paddock.cluster.database import (
    STATEMENT_S,
    check_url,
    describe_failure,
    describe_silence,
    explain_missing_extra,
    make_options,
    shut_down,
)
from paddock.model.errors import StoreUnavailable

if TYPE_CHECKING:
    from psycopg import Connection

_MARGIN_S = 1.0
"""Time that the database has to end a statement itself, in seconds."""


class BlockingDatabase:
    """Statements that each have a separate connection. Never call it on an event loop."""

    def __init__(self, url: str, *, name: str = "paddock") -> None:
        """Use the database at `url`; `name` is shown in its list of connections. Raises ConfigurationError."""
        try:
            import psycopg
        except ModuleNotFoundError:
            raise explain_missing_extra() from None
        check_url(url)
        self._connect = psycopg.Connection[tuple[Any, ...]].connect
        self._url = url
        self._given: dict[str, Any] = {
            **make_options(name),
            # A database whose machine is gone does not answer: the kernel gives up for us.
            "tcp_user_timeout": int(STATEMENT_S * 1000),
        }

    def fetch(self, query: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of one statement, which is committed. Raises StoreUnavailable."""
        import psycopg

        try:
            with (
                self._connect(self._url, **self._given) as connection,
                _break_off(connection),
                connection.transaction(),  # through a pooler, another session would get the setting otherwise
            ):
                connection.execute(b"select set_config('statement_timeout', %s, true)", (f"{STATEMENT_S}s",))
                cursor = connection.execute(query.encode(), values)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise StoreUnavailable(describe_failure(error)) from None


@contextmanager
def _break_off(connection: "Connection[tuple[Any, ...]]") -> Generator[None]:
    """Break off a connection that takes too long: a database that hangs, or what is before it, ends no statement."""
    import psycopg

    seconds, late = STATEMENT_S + _MARGIN_S, threading.Event()

    def break_off() -> None:
        late.set()
        shut_down(connection)

    timer = threading.Timer(seconds, break_off)
    timer.daemon = True
    timer.start()
    try:
        yield
    except psycopg.Error:
        if late.is_set():  # the text of libpq is about the socket
            raise psycopg.OperationalError(describe_silence(seconds)) from None
        raise
    finally:
        timer.cancel()
