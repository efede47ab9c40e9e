"""Leases of nodes in the database of a test, without the nodes."""

import psycopg


def execute(url: str, statement: str, *values: object) -> list[tuple[object, ...]]:
    """Run one statement as somebody who may write to the database, and return its rows."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def await_leases(url: str, count: int) -> None:
    """Wait until so many servers have leases: on a busy machine the first renewal may have come too late."""
    query = b"select count(*) from node where state <> 'ended'"
    # The next connection of a pooler would not know a prepared statement.
    with psycopg.connect(url, autocommit=True, prepare_threshold=None) as connection:
        while connection.execute(query).fetchone() != (count,):
            connection.execute("select pg_sleep(0.02)")  # the servers need the processors


def hold_lease(url: str, node: str, boot: str) -> None:
    """Give a node a lease for an hour."""
    execute(
        url,
        "insert into node (id, boot, seen) values (%s, %s, now() + interval '1 hour') "
        "on conflict (id) do update set boot = excluded.boot, seen = excluded.seen, state = 'serving'",
        node,
        boot,
    )


def end_lease(url: str, node: str) -> None:
    """Let the lease of a node be over, as if it had died a minute ago."""
    execute(url, "update node set seen = now() - interval '1 minute' where id = %s", node)
