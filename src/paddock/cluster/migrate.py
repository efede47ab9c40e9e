"""Make and change the tables: the files of `migrations`, each applied once, in order.

    NNNN_name.sql            expand: adds. The version before runs with it, so replicas are replaced one by one.
    NNNN_name.contract.sql   contract: takes away what the version before needs. Applied by `contract`, once every
                             living replica has the file.

A version accepts tables that later versions have expanded, and refuses those that one has contracted.
"""

import re
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from paddock.cluster.database import STATEMENT_S, Database
from paddock.model.errors import ConfigurationError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping

    from psycopg import AsyncConnection

    from paddock.cluster.database import Statements

_NAME = re.compile(r"(\d{4})_[a-z_]+(\.contract)?\.sql", re.ASCII)
_CONTRACT = ".contract"
_LOCK = 0x7061646430  # "padd0"
"""Number of the advisory lock under which the tables are changed; it is released with the transaction."""
_LOCK_TIMEOUT = "2s"
"""Maximum time for the lock of a table: what waits for it makes the renewals of all leases wait, too."""


class Migration(NamedTuple):
    """One file of SQL."""

    number: int
    name: str
    sql: str

    @property
    def is_contract(self) -> bool:
        """Whether versions without this file cannot use the tables after it."""
        return self.name.endswith(_CONTRACT)


def list_migrations() -> list[Migration]:
    """Return all migrations of this version, in order."""
    found = [
        each
        for each in files("paddock.cluster").joinpath("migrations").iterdir()
        if _NAME.fullmatch(each.name)
    ]
    ordered = sorted(found, key=lambda each: each.name)
    return [
        Migration(int(each.name[:4]), each.name.removesuffix(".sql"), each.read_text()) for each in ordered
    ]


async def read_applied(database: "Statements") -> dict[int, str]:
    """Return the names of the applied migrations by number; none for an empty database. Raises StoreUnavailable."""
    query = "select to_regclass('paddock_migration')::text"
    [[table]] = await database.fetch(query, timeout_s=STATEMENT_S)
    if table is None:
        return {}
    rows = await database.fetch("select number, name from paddock_migration", timeout_s=STATEMENT_S)
    return dict(rows)


async def migrate(database: Database) -> list[Migration]:
    """Apply what is missing in one transaction, and return it. Two processes may do so at the same time.

    Contract steps are left to `contract`. Raises StoreUnavailable, and ConfigurationError if a newer version has
    contracted the tables, the user may make none, or they are in use.
    """
    async with change_tables(database) as connection:
        await connection.execute(
            "create table if not exists paddock_migration ("
            "number int primary key, name text not null, applied timestamptz not null default now())"
        )
        lacking = select_missing(await fetch_applied(connection))
        missing = [each for each in lacking if not each.is_contract]
        await apply_all(connection, missing)
    return missing


@asynccontextmanager
async def change_tables(database: Database) -> "AsyncGenerator[AsyncConnection[tuple[Any, ...]]]":
    """Yield a transaction in which this process alone changes the tables.

    Raises StoreUnavailable, also if the tables are in use; ConfigurationError if the user may not change them.
    """
    from psycopg.errors import InsufficientPrivilege, LockNotAvailable

    async with database.begin() as connection:
        try:
            await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            await connection.execute("select set_config('lock_timeout', %s, true)", (_LOCK_TIMEOUT,))
            yield connection
        except InsufficientPrivilege as error:
            text = error.diag.message_primary or ""
            remedy = (
                "make the user of cluster.url the owner of the database: alter database NAME owner to USER"
            )
            if "for function" in text:
                remedy = "let a superuser run in that database: grant execute on function pg_control_system() to USER"
            raise ConfigurationError(f"the tables cannot be made: {text}; {remedy}") from None
        except LockNotAvailable:
            raise StoreUnavailable(
                "The tables are in use, and nothing was changed. End long queries of the database, and run it again."
            ) from None


async def fetch_applied(connection: "AsyncConnection[tuple[Any, ...]]") -> dict[int, str]:
    """Return the names of the applied migrations by number, within a transaction."""
    cursor = await connection.execute("select number, name from paddock_migration")
    return dict(await cursor.fetchall())


async def apply_all(connection: "AsyncConnection[tuple[Any, ...]]", missing: "Iterable[Migration]") -> None:
    """Apply migrations within a transaction."""
    for each in missing:
        await connection.execute(each.sql.encode())
        await connection.execute(
            "insert into paddock_migration (number, name) values (%s, %s)", (each.number, each.name)
        )


async def check_tables(database: "Statements") -> None:
    """Raise ConfigurationError unless this version can use the tables; StoreUnavailable."""
    missing = select_missing(await read_applied(database))
    if expanding := [each for each in missing if not each.is_contract]:
        raise ConfigurationError(
            f"the database of cluster.url lacks {expanding[0].name}; run once: paddock cluster migrate"
        )


def select_missing(applied: "Mapping[int, str]") -> list[Migration]:
    """Return what is not applied. Raises ConfigurationError if a newer version has contracted the tables."""
    known = list_migrations()
    numbers = {each.number for each in known}
    for number, name in sorted(applied.items()):
        if number not in numbers and name.endswith(_CONTRACT):
            raise ConfigurationError(
                f"the tables of cluster.url were changed for newer versions of Paddock ({name}), and this one cannot "
                "use them; use the version of the other machines"
            )
    return [each for each in known if each.number not in applied]
