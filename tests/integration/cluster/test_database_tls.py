"""A database that accepts TLS alone: its certificate is verified, and what is wrong with it is reported."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.support.command import make_environment, run_paddock
from tests.support.leases import execute
from tests.support.network import make_authority
from tests.support.postgres import Postgres
from tests.support.replicas import ReplicaSet

from paddock.cluster.blocking import BlockingDatabase
from paddock.cluster.database import Database
from paddock.cluster.listener import Listener
from paddock.model.errors import StoreUnavailable

from .test_database import fetch_until_refused

NAME = "db.example"
"""The name in the certificate. Nothing resolves it: libpq connects to `hostaddr`, and verifies the name."""
ACCESS = '[runtimes]\naccess = "workspace-write"\n'
WRITES = {"language": "shell", "code": "echo x >> starts-1", "access": "workspace-write"}


class TlsDatabase(NamedTuple):
    """A database with a certificate, and the authority that signed it."""

    postgres: Postgres
    authority: Path

    def find_url(self, host: str = NAME, mode: str = "verify-full", root: Path | str | None = None) -> str:
        options = f"hostaddr=127.0.0.1&sslmode={mode}&sslrootcert={root or self.authority}"
        return f"postgresql://postgres@{host}:{self.postgres.port}/postgres?{options}"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsDatabase]:
    folder = tmp_path_factory.mktemp("authority")
    authority = make_authority(folder, NAME)
    with Postgres(authority.file.with_name("server.pem")) as postgres:
        yield TlsDatabase(postgres, authority.file)


def refuse(url: str) -> str:
    """Return why a database cannot be used; it must be the same for all kinds of connections."""

    async def fetch() -> None:
        async with Database(url, connect_s=1) as pool:
            await fetch_until_refused(pool)

    async def listen() -> None:
        async with Listener(url) as listener:
            await listener.fetch("select 1")

    told: set[str] = set()
    for work in (lambda: asyncio.run(fetch()), lambda: asyncio.run(listen()), lambda: _fetch_blocking(url)):
        with pytest.raises(StoreUnavailable) as refused:
            work()
        told.add(str(refused.value))
    [text] = told
    return text.removeprefix("The database of cluster.url cannot be used: ")


def _fetch_blocking(url: str) -> None:
    BlockingDatabase(url).fetch("select 1")


def test_replicas_work_over_tls_alone(database: TlsDatabase, tmp_path: Path) -> None:
    replicas = ReplicaSet(tmp_path, database.find_url(), ACCESS, count=2)
    for place in replicas.places:
        place.workspace.chmod(0o777)
    with replicas.run():
        for server in replicas.servers:
            with server.client() as client:
                outcome = client.run(headers={"Idempotency-Key": "k"}, **WRITES)
                assert outcome["status"] == "ok"
        kinds = execute(
            database.find_url(),
            "select distinct ssl from pg_stat_ssl join pg_stat_activity using (pid) "
            "where application_name like 'paddock%%'",
        )
    assert kinds == [(True,)]
    assert [file.parent.parent.name for file in tmp_path.glob("*/ws/starts-1")] == ["r0"]


def test_another_name_is_refused(database: TlsDatabase) -> None:
    assert refuse(database.find_url("other.example")) == (
        "server certificate for does not match host name. "
        "Use a name in cluster.url that the certificate of the database has."
    )


def test_an_unknown_authority_is_refused(database: TlsDatabase, tmp_path: Path) -> None:
    of_machine, namesake = "/etc/ssl/certs/ca-certificates.crt", make_authority(tmp_path, NAME).file
    remedy = "Set sslrootcert in cluster.url to the certificate of its authority."
    assert [refuse(database.find_url(root=root)) for root in (of_machine, namesake)] == [
        f"SSL error: certificate verify failed. {remedy}",
        f"SSL error: provider signature failure. {remedy}",
    ]


def test_a_missing_file_of_the_authority_is_reported(database: TlsDatabase, tmp_path: Path) -> None:
    assert refuse(database.find_url(root=tmp_path / "absent.crt")) == (
        "root certificate file does not exist. "
        "Set sslrootcert in cluster.url to the certificate of its authority."
    )


def test_a_connection_without_tls_is_refused_by_the_database(database: TlsDatabase) -> None:
    url = f"postgresql://postgres@127.0.0.1:{database.postgres.port}/postgres?sslmode=disable"
    assert refuse(url) == (
        "no pg_hba.conf entry for host, user, database, no encryption. Add sslmode=verify-full to cluster.url."
    )


def test_a_database_without_tls_is_not_used(postgres: Postgres, tmp_path: Path) -> None:
    root = make_authority(tmp_path, NAME).file
    assert refuse(f"{postgres.url}?sslmode=verify-full&sslrootcert={root}") == (
        "server does not support SSL, but SSL was required. "
        "Turn TLS on in the database: ssl = on, with a certificate."
    )


def test_the_authorities_of_the_machine_are_used_with_their_file(
    database: TlsDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The OpenSSL of psycopg has no such file of its own."""
    url = database.find_url(root="system")
    assert refuse(url).startswith("SSL error: certificate verify failed. ")
    monkeypatch.setenv("SSL_CERT_FILE", str(database.authority))
    assert BlockingDatabase(url).fetch("select 1") == [(1,)]


def test_commands_and_servers_report_a_wrong_certificate(database: TlsDatabase, tmp_path: Path) -> None:
    why = (
        "The database of cluster.url cannot be used: server certificate for does not match host name. "
        "Use a name in cluster.url that the certificate of the database has."
    )
    wrong = make_environment(tmp_path, PADDOCK_CLUSTER_URL=database.find_url("other.example"))
    done = run_paddock(tmp_path, "cluster", "status", environment=wrong)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"{why}\n")
    replicas = ReplicaSet(tmp_path, database.find_url(), count=1)
    place = replicas.places[0]
    place.workspace.chmod(0o777)
    place.settings(f'[cluster]\nurl = "{database.find_url("other.example")}"\nnode = "r0"\n{ACCESS}')
    with place.serve() as server, server.client() as client:
        outcome = client.run(**WRITES)
        assert (outcome["status"], outcome["error"]["message"]) == ("unavailable", why)
        assert client.run(language="shell", code="echo 1", access="none")["status"] == "ok"
    assert not (place.workspace / "starts-1").exists()


def test_an_answer_that_does_not_come_is_no_fault_of_the_certificate(database: TlsDatabase) -> None:
    """The connection is broken off, and libpq calls that an error of TLS."""
    url, asleep = database.find_url(), "select pg_sleep(60)"

    async def fetch() -> None:
        async with Database(url) as pool:
            await pool.fetch(asleep, timeout_s=0.1)

    async def listen() -> None:
        async with Listener(url) as listener:
            await listener.fetch(asleep, timeout_s=0.1)

    for work in (fetch, listen):
        with pytest.raises(StoreUnavailable) as refused:
            asyncio.run(work())
        assert str(refused.value) == (
            "The database of cluster.url cannot be used: no answer within 0.1 seconds. Check that it runs and can be "
            "reached."
        )
