"""A real Ray cluster on this machine."""

from collections.abc import Iterator

import pytest
from tests.support.ray_cluster import Cluster, open_cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, toolchain_path: str) -> Iterator[Cluster]:
    with open_cluster(tmp_path_factory.mktemp("ray"), toolchain_path) as cluster:
        yield cluster
