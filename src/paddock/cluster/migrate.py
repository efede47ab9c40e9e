"""Make and change the tables: the files `migrations/NNNN_name.sql`, each applied once, in order."""

import re
from importlib.resources import files
from typing import NamedTuple

from paddock.cluster.database import STATEMENT_S, Database
from paddock.model.errors import ConfigurationError

_NAME = re.compile(r"(\d{4})_[a-z_]+\.sql", re.ASCII)
_LOCK = 0x7061646430  # "padd0"
"""Number of the advisory lock under which the tables are changed; it is released with the transaction."""


class Migration(NamedTuple):
    """One file of SQL."""

    number: int
    name: str
    sql: str


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


async def read_applied(database: Database) -> int:
    """Return the number of the last applied migration; 0 for an empty database. Raises StoreUnavailable."""
    query = "select to_regclass('paddock_migration')::text"
    [[table]] = await database.fetch(query, timeout_s=STATEMENT_S)
    if table is None:
        return 0
    query = "select coalesce(max(number), 0) from paddock_migration"
    [[number]] = await database.fetch(query, timeout_s=STATEMENT_S)
    return int(number)


async def migrate(database: Database) -> list[Migration]:
    """Apply what is missing in one transaction, and return it. Two processes may do so at the same time.

    Raises StoreUnavailable, and ConfigurationError if a newer version has made the tables, or the user may make none.
    """
    from psycopg.errors import InsufficientPrivilege

    async with database.begin() as connection:
        try:
            await connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            await connection.execute(
                "create table if not exists paddock_migration ("
                "number int primary key, name text not null, applied timestamptz not null default now())"
            )
            cursor = await connection.execute("select coalesce(max(number), 0) from paddock_migration")
            row = await cursor.fetchone()
            assert row is not None
            missing = select_missing(int(row[0]))
            for each in missing:
                await connection.execute(each.sql.encode())
                await connection.execute(
                    "insert into paddock_migration (number, name) values (%s, %s)", (each.number, each.name)
                )
        except InsufficientPrivilege as error:
            raise ConfigurationError(
                f"the tables cannot be made: {error.diag.message_primary}; make the user of cluster.url the owner of "
                "the database: alter database NAME owner to USER"
            ) from None
    return missing


async def check_tables(database: Database) -> None:
    """Raise ConfigurationError unless the tables are those of this version; StoreUnavailable."""
    if missing := select_missing(await read_applied(database)):
        raise ConfigurationError(
            f"the database of cluster.url lacks {missing[0].name}; run once: paddock cluster migrate"
        )


def select_missing(applied: int) -> list[Migration]:
    """Return what must be applied after number `applied`. Raises ConfigurationError for a newer database."""
    known = list_migrations()
    if applied > known[-1].number:
        raise ConfigurationError(
            f"the database of cluster.url was migrated by a newer version of Paddock ({applied} > {known[-1].number}); "
            "use that version on every machine"
        )
    return [each for each in known if each.number > applied]
