"""What a replica costs its database while it has nothing to do: commits and connections.

The long form is behind a variable: `PADDOCK_IDLE_S=120` watches for two minutes.
"""

import os
import time
from pathlib import Path

import psycopg
import pytest
from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet

IDLE_S = float(os.environ.get("PADDOCK_IDLE_S", "0"))
MAX_RATE = 0.5
"""Maximum number of commits for each replica and second."""
RARE = 3
"""Reads that a replica makes once a minute: leases, tokens, lost requests."""
ATTEMPTS = 10
COMMITS = max(6, int(IDLE_S * MAX_RATE))


class Watch:
    """Looks at a database from another one, so that its own statements do not count."""

    def __init__(self, connection: psycopg.Connection[tuple[int]], database: str) -> None:
        self._connection = connection
        self._database = database

    def count_commits(self) -> int:
        """Return the number of commits, a moment later."""
        self._connection.execute("select pg_sleep(0.05)")
        return self._fetch("select xact_commit from pg_stat_database where datname = %s")

    def count_connections(self) -> int:
        """Return the number of connections."""
        return self._fetch("select count(*) from pg_stat_activity where datname = %s")

    def _fetch(self, query: str) -> int:
        row = self._connection.execute(query.encode(), (self._database,)).fetchone()
        assert row is not None
        return row[0]

    def measure_rate(self) -> float:
        """Return the commits per second over some commits, without those of rare reads."""
        began, first = time.monotonic(), self.count_commits()
        while (last := self.count_commits()) < first + COMMITS:
            pass
        return (last - first - RARE) / (time.monotonic() - began)


@pytest.mark.usefixtures("direct")  # behind a pooler of transactions, a replica reads every second
def test_an_idle_replica_commits_rarely_and_has_three_connections(
    url: str, tmp_path: Path, postgres: Postgres
) -> None:
    """A busy machine makes it slower, and never faster. A start and its late statistics spoil the first rates."""
    replicas = ReplicaSet(tmp_path, url, count=1)
    with (
        psycopg.connect(postgres.url, autocommit=True) as connection,
        replicas.run(),
        replicas.servers[0].client() as api,
    ):
        watch, rates = Watch(connection, url.rpartition("/")[2]), list[float]()
        assert api.run(language="javascript", code="return 1")["value"] == 1
        while len(rates) < ATTEMPTS and (not rates or rates[-1] > MAX_RATE):
            rates.append(watch.measure_rate())
        assert watch.count_connections() <= 3
    assert rates[-1] <= MAX_RATE, rates
