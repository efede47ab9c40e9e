"""The tables of a cluster, made by real PostgreSQL."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command import PADDOCK
from tests.support.postgres import Postgres, find_free_port

from paddock.cluster.database import Database, describe_failure
from paddock.cluster.migrate import check_tables, list_migrations, migrate
from paddock.model.errors import ConfigurationError, StoreUnavailable
from paddock.policy.settings.loader import user_file

NEWEST = list_migrations()[-1].number
EXPAND = [each.name for each in list_migrations() if not each.is_contract]
CONTRACTS = [each.name for each in list_migrations() if each.is_contract]


async def fetch_until_refused(database: Database) -> None:
    """Ask until an attempt to connect has ended, which may take longer than `connect_s`. Raises StoreUnavailable."""
    while True:
        try:
            await database.fetch("select 1")
        except StoreUnavailable as error:
            if "couldn't get a connection" not in str(error):
                raise
        else:
            return


def run_paddock(*arguments: str, url: str | None) -> subprocess.CompletedProcess[str]:
    given = {} if url is None else {"PADDOCK_CLUSTER_URL": url}
    return subprocess.run(
        [PADDOCK, *arguments],
        env={**os.environ, **given},
        capture_output=True,
        text=True,
        check=False,
    )


def test_migrations_have_consecutive_numbers() -> None:
    assert [each.number for each in list_migrations()] == list(range(1, NEWEST + 1))


def test_tables_are_made_once_by_two_processes_at_a_time(url: str) -> None:
    async def run() -> list[int]:
        async with Database(url) as one, Database(url) as two:
            with pytest.raises(ConfigurationError) as missing:
                await check_tables(one)
            assert str(missing.value) == (
                "the database of cluster.url lacks 0001_tables; run once: paddock cluster migrate"
            )
            applied = await asyncio.gather(migrate(one), migrate(two))
            await check_tables(one)
            return sorted(len(each) for each in applied)

    assert asyncio.run(run()) == [0, len(EXPAND)]


@pytest.mark.parametrize("name", ["later", "later.contract"])
def test_tables_of_a_newer_version_are_used_until_it_contracts_them(url: str, name: str) -> None:
    async def run() -> None:
        async with Database(url) as database:
            await migrate(database)
            await database.fetch("insert into paddock_migration (number, name) values (9999, %s)", (name,))
            await check_tables(database)
            assert await migrate(database) == []

    if name == "later":
        asyncio.run(run())
        return
    with pytest.raises(ConfigurationError) as newer:
        asyncio.run(run())
    assert str(newer.value) == (
        "the tables of cluster.url were changed for newer versions of Paddock (later.contract), and this one cannot use "
        "them; use the version of the other machines"
    )


def test_tables_that_are_in_use_are_not_changed(tables_url: str) -> None:
    """What waits for the lock of a table makes the renewals of all leases wait."""

    async def run() -> None:
        async with Database(tables_url) as database, database.begin() as using:
            await using.execute("lock table paddock_migration in access exclusive mode")
            await migrate(database)

    with pytest.raises(StoreUnavailable) as used:
        asyncio.run(run())
    assert str(used.value) == (
        "The tables are in use, and nothing was changed. End long queries of the database, and run it again."
    )


def test_an_absent_database_is_told_without_its_parameters() -> None:
    port = find_free_port()

    async def run() -> None:
        async with Database(f"postgresql://somebody@127.0.0.1:{port}/x") as database:
            await migrate(database)

    with pytest.raises(StoreUnavailable) as absent:
        asyncio.run(run())
    assert not any(each in str(absent.value) for each in ("somebody", "127.0.0.1", str(port)))
    assert str(absent.value).startswith("The database of cluster.url cannot be used: ")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            'connection failed: connection to server at "db.example", port 5432 failed: Connection refused\n\tIs it on?',
            "Connection refused",
        ),
        (
            'connection to server at "db.example" (192.0.2.1), port 5432 failed: FATAL:  password authentication failed '
            'for user "ada"',
            "password authentication failed for user",
        ),
        (
            "failed to resolve host 'db.example': Name or service not known",
            "failed to resolve host: Name or service not known",
        ),
        ("couldn't get a connection after 5.00 sec", "couldn't get a connection after 5.00 sec"),
        (
            "consuming input failed: SSL error: unexpected eof while reading",
            "consuming input failed: SSL error: unexpected eof while reading",
        ),
    ],
)
def test_no_text_tells_where_the_database_is(said: str, why: str) -> None:
    remedy = (
        "Set the variable PGPASSWORD, or PGPASSFILE to a file with a line for this host and port."
        if "password" in said
        else "Check that it runs and can be reached."
    )
    assert describe_failure(ValueError(said)) == (
        f"The database of cluster.url cannot be used: {why}. {remedy}"
    )


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("name", ["database", "role"])
def test_a_refused_connection_says_why(postgres: Postgres, name: str) -> None:
    """The pool alone reports a timeout."""
    server = postgres.url.partition("@")[2].partition("/")[0]
    user, database = ("postgres", "absent") if name == "database" else ("absent", "postgres")

    async def run() -> None:
        async with Database(f"postgresql://{user}@{server}/{database}", connect_s=1) as refused:
            await fetch_until_refused(refused)

    with pytest.raises(StoreUnavailable) as caught:
        asyncio.run(run())
    assert str(caught.value) == (
        f"The database of cluster.url cannot be used: {name} does not exist. Create it, or correct cluster.url."
    )


def test_an_address_with_an_unknown_option_is_refused() -> None:
    with pytest.raises(ConfigurationError) as caught:
        Database("postgresql://db.example/x?sslmod=require")
    assert str(caught.value) == (
        'cluster.url: invalid URI query parameter: "sslmod"; write postgresql://[user@]host[:port]/database, with '
        "options of libpq after a question mark"
    )


def test_a_user_who_may_not_make_tables_is_told_what_to_do(postgres: Postgres) -> None:
    postgres.query("create role guest login")
    url = postgres.make_database("of_another").replace("postgres@", "guest@")
    postgres.query("revoke create on schema public from public", "of_another")
    done = run_paddock("cluster", "migrate", url=url)
    assert (done.returncode, done.stderr) == (
        1,
        "the tables cannot be made: permission denied for schema public; make the user of cluster.url the owner of the "
        "database: alter database NAME owner to USER\n",
    )


def test_a_user_who_may_not_find_out_where_the_database_is_is_told_what_to_do(postgres: Postgres) -> None:
    """Some providers of databases revoke the right, which all users have by default."""
    postgres.query("create role tenant login")
    url = postgres.make_database("of_tenant").replace("postgres@", "tenant@")
    postgres.query("alter database of_tenant owner to tenant")
    postgres.query("alter schema public owner to tenant", "of_tenant")
    postgres.query("revoke execute on function pg_control_system() from public", "of_tenant")
    cure = "grant execute on function pg_control_system() to USER"
    done = run_paddock("cluster", "migrate", url=url)
    assert (done.returncode, done.stderr) == (
        1,
        "the tables cannot be made: permission denied for function pg_control_system; let a superuser run in that "
        f"database: {cure}\n",
    )
    postgres.query(cure.replace("USER", "tenant"), "of_tenant")
    assert run_paddock("cluster", "migrate", url=url).returncode == 0
    postgres.query("revoke execute on function pg_control_system() from tenant", "of_tenant")
    done = run_paddock("cluster", "accept-restore", "--unnoticed", url=url)
    assert (done.returncode, done.stderr) == (
        1,
        "The database of cluster.url cannot be used: permission denied for function pg_control_system. Let a superuser "
        f"run in that database: {cure}\n",
    )


def test_migrate_and_status_tell_what_there_is(url: str) -> None:
    before = run_paddock("cluster", "status", url=url)
    assert (before.returncode, before.stderr) == (
        1,
        f"the tables lack {', '.join(EXPAND)}; run: paddock cluster migrate\n",
    )
    assert json.loads(run_paddock("cluster", "migrate", "--json", url=url).stdout) == {"applied": EXPAND}
    assert run_paddock("cluster", "migrate", url=url).stdout == "the tables are up to date\n"
    after = run_paddock("cluster", "status", "--json", url=url)
    assert (after.returncode, json.loads(after.stdout)) == (
        0,
        {
            "applied": int(EXPAND[-1][:4]),
            "newest": NEWEST,
            "missing": [],
            "contracts": CONTRACTS,
            "waits_for": [],
            "nodes": [],
            "runs": {},
            "records": 0,
            "checkpoint": None,
            "restored": None,
        },
    )
    shown = run_paddock("cluster", "status", url=url)
    assert (shown.stdout, shown.stderr) == (
        "requests: none\nshipped records: 0\nlast checkpoint: none\n"
        f"contract steps: {', '.join(CONTRACTS)}; no replica runs an older version: paddock cluster migrate --contract\n",
        "no replica has used this database yet\n",
    )
    contract = ("cluster", "migrate", "--contract")
    assert json.loads(run_paddock(*contract, "--json", url=url).stdout) == {"applied": CONTRACTS}
    assert run_paddock(*contract, url=url).stdout == "the tables are up to date\n"
    shown = run_paddock("cluster", "status", url=url)
    assert shown.stdout == "requests: none\nshipped records: 0\nlast checkpoint: none\n"


def test_requests_are_listed_by_state(url: str, postgres: Postgres) -> None:
    assert run_paddock("cluster", "migrate", url=url).returncode == 0
    shown = run_paddock("cluster", "runs", "--state", "lost", url=url)
    assert (shown.stdout, shown.stderr) == ("", "no such request\n")
    name = url.rpartition("/")[2]
    for request, key, state in (("r1", "r1", "lost"), ("r2", "k", "started")):
        postgres.query(
            "insert into run (tenant, key, request, digest, node, state, started) "
            f"values ('t', '{key}', '{request}', '', 'n1', '{state}', '2026-01-02 03:04:05+00')",
            name,
        )
    lost = run_paddock("cluster", "runs", "--state", "lost", "--json", url=url)
    assert json.loads(lost.stdout) == [
        {
            "request": "r1",
            "tenant": "t",
            "key": "r1",
            "attempt": 1,
            "state": "lost",
            "status": None,
            "node": "n1",
            "started": "2026-01-02T03:04:05Z",
            "ended": None,
        }
    ]
    every = run_paddock("cluster", "runs", url=url).stdout
    assert sorted(line.split()[3:] for line in every.splitlines()) == [
        ["-", "n1", "t", "r1", "-"],
        ["-", "n1", "t", "r2", "k"],
    ]


@pytest.mark.parametrize("steps", range(12))
def test_who_waits_for_a_connection_can_be_cancelled_in_every_step(url: str, steps: int) -> None:
    async def check() -> bool:
        async with Database(url, max_connections=1) as database:
            async with database.connect():
                waiting = asyncio.create_task(database.fetch("select pg_sleep(3600)"))
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            assert waiting.cancel()
            await asyncio.wait({waiting})
            assert await database.fetch("select 1") == [(1,)]
            return waiting.cancelled()

    assert asyncio.run(check())


def test_without_an_address_there_is_nothing_to_do() -> None:
    refused = run_paddock("cluster", "status", url=None)
    assert (refused.returncode, refused.stderr) == (
        1,
        "cluster.url is not set, so this command has no database; set it in /etc/paddock/paddock.toml or "
        f"{user_file()}, and check it with: paddock config show\n",
    )


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://u:secret@db/x",
        "postgresql://db/x?password=secret",
        "postgresql://db/x?a=1&password=secret",
    ],
)
def test_a_password_in_the_address_is_refused_and_not_shown(address: str) -> None:
    refused = run_paddock("cluster", "status", url=address)
    assert refused.returncode != 0
    assert "use the variable PGPASSWORD" in refused.stderr
    assert "secret" not in refused.stdout + refused.stderr


def test_paddock_imports_no_client_of_a_database(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, paddock\n"
        "async def run():\n"
        "    async with paddock.Paddock() as p: (await p.compute('emit(1)')).check()\n"
        "asyncio.run(run())\n"
        "print([each for each in sys.modules if 'psycopg' in each or 'paddock.cluster' in each])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
