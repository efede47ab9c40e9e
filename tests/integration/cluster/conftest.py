"""A database server for each file of tests: processes that outlive a file would be found by tests that look for them."""

import secrets
from collections.abc import Iterator

import pytest
from tests.support.postgres import Postgres


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server


@pytest.fixture
def url(postgres: Postgres) -> str:
    """Return the address of an empty database."""
    return postgres.make_database(f"d{secrets.token_hex(8)}")
