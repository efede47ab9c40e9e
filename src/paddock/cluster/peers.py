"""What a server needs to reach the other replicas of its cluster, and to be reached."""

from typing import NamedTuple

from paddock.cluster.database import Database
from paddock.cluster.hops import Hops
from paddock.cluster.replicas import Replicas
from paddock.cluster.seals import open_seals
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.cluster import ClusterSettings


class Peers(NamedTuple):
    """The other replicas."""

    replicas: Replicas
    hops: Hops


def find_peers(settings: ClusterSettings, database: Database, mark: str) -> Peers:
    """Return the other replicas; `mark` is that of this one. Raises ConfigurationError without keys."""
    if settings.key_file is None:
        raise ConfigurationError(
            "cluster.node_url is set, and cluster.key_file is not; replicas know each other by the keys in that file"
        )
    seals = open_seals(settings)
    return Peers(Replicas(database, mark, seals), Hops(mark, seals))
