"""Servers on loopback: one that speaks the S3 protocol, and a database."""

import os
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from tests.support.postgres import Postgres


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Run the server, with one bucket, and return its address; the environment points to it."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    address = f"http://{host}:{port}"
    with urlopen(Request(f"{address}/bucket", method="PUT")):
        pass
    try:
        yield address
    finally:
        server.stop()


@pytest.fixture
def s3_environment(s3: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the bucket, as settings name it, with the credentials in the environment."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ALLOW_HTTP": "true",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    return "s3://bucket"


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres() as server:
        yield server
