"""A database server for each file of tests: processes that outlive a file would be found by tests that look for them."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from tests.support.postgres import Postgres
from tests.support.replicas import make_tables


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def direct(postgres: Postgres) -> Iterator[None]:
    """Leave the pooler out: such a test is about what the server itself tells its clients. Use it by a mark."""
    with postgres.without_pooler():
        yield


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the address of an empty database."""
    return postgres.make_database(f"d{secrets.token_hex(8)}")


@pytest.fixture
def tables_url(url: str) -> str:
    """Return the address of a database with the tables."""
    asyncio.run(make_tables(url))
    return url
