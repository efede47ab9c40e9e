"""Take away from the tables what only older versions need, once none of them runs."""

from paddock.cluster.database import Database
from paddock.cluster.migrate import (
    Migration,
    apply_all,
    change_tables,
    check_tables,
    fetch_applied,
    select_missing,
)
from paddock.cluster.status import LIST_OLDER
from paddock.model.errors import ConfigurationError


async def contract(database: Database) -> list[Migration]:
    """Apply the contract steps of this version in one transaction, and return them.

    Raises ConfigurationError while a living replica has an older version, or the tables lack something else;
    StoreUnavailable.
    """
    await check_tables(database)
    async with change_tables(database) as connection:
        steps = [each for each in select_missing(await fetch_applied(connection)) if each.is_contract]
        if steps:
            # A replica that begins in the meantime waits, and finds the contracted tables.
            await connection.execute("lock table node in share row exclusive mode")
            cursor = await connection.execute(LIST_OLDER.encode(), (steps[-1].number,))
            if older := [str(id_) for (id_,) in await cursor.fetchall()]:
                raise ConfigurationError(
                    f"{steps[-1].name} waits for {', '.join(older)}, which run an older version; replace them first, "
                    "and look at: paddock cluster status"
                )
            await apply_all(connection, steps)
    return steps
