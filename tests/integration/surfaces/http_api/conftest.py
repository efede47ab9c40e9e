"""A server of the HTTP API: one that many tests use, and places to start others."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.http_api import ApiClient, ApiPlace, ApiServer


@pytest.fixture
def place(tmp_path: Path) -> ApiPlace:
    return ApiPlace(tmp_path)


@pytest.fixture(scope="module")
def shared_place(tmp_path_factory: pytest.TempPathFactory) -> ApiPlace:
    """The place of a server for all tests of a module. Other modules look at the processes below this one."""
    return ApiPlace(tmp_path_factory.mktemp("api"))


@pytest.fixture(scope="module")
def server(shared_place: ApiPlace) -> Iterator[ApiServer]:
    with shared_place.serve() as server:
        yield server


@pytest.fixture
def api(server: ApiServer) -> Iterator[ApiClient]:
    """The owner of that server."""
    with server.client() as client:
        yield client
