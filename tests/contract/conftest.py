"""Servers on loopback: one that speaks the S3 protocol, and a database."""

import os
from collections.abc import Iterator

import pytest
from tests.support.bucket import Bucket
from tests.support.postgres import Postgres


@pytest.fixture(scope="session")
def s3() -> Iterator[Bucket]:
    with Bucket() as bucket:
        yield bucket


@pytest.fixture
def s3_environment(s3: Bucket, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the bucket, as settings name it, with the credentials in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server
