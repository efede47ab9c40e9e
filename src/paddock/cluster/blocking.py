"""The database of `cluster.url` for work that runs in threads: the vault, pins and other facts that are rarely used."""

from typing import Any

from paddock.cluster.database import MISSING_EXTRA, STATEMENT_S, check_url, describe_failure, make_options
from paddock.model.errors import ConfigurationError, StoreUnavailable


class BlockingDatabase:
    """Statements that each have a separate connection. Never call it on an event loop."""

    def __init__(self, url: str, *, name: str = "paddock") -> None:
        """Use the database at `url`; `name` is shown in its list of connections. Raises ConfigurationError."""
        try:
            import psycopg
        except ModuleNotFoundError:
            raise ConfigurationError(MISSING_EXTRA) from None
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
            with self._connect(self._url, **self._given) as connection:
                connection.execute(b"select set_config('statement_timeout', %s, false)", (f"{STATEMENT_S}s",))
                cursor = connection.execute(query.encode(), values)
                return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise StoreUnavailable(describe_failure(error)) from None
