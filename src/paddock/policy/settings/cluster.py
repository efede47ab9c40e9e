"""Settings of a store that the servers of several machines share, `[cluster]`."""

import platform
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from paddock.model.base import Value
from paddock.policy.settings.narrowing import SAME, Mark

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9./_-]{0,127}$"
NODE_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$"


def _check_database(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"postgresql", "postgres"}:
        raise ValueError("not an address of PostgreSQL: postgresql://[user@]host[:port]/database")
    if parts.password is not None or "password=" in parts.query:
        raise ValueError(
            "it contains a password, which would be shown with the settings; use the variable PGPASSWORD, or the file "
            "that PGPASSFILE names"
        )
    return url


def check_node_url(url: str) -> str:
    """Return the address of a replica, without a final slash. Raises ValueError for any other address."""
    parts = urlsplit(url)
    is_server = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
    odd = not url.isprintable() or any(each in url for each in " @?#")
    if odd or not is_server or parts.path.rstrip("/"):
        raise ValueError("not an address of a server: http://host:port or https://host:port")
    return url.rstrip("/")


def _name_node() -> str:
    """Return the host name, which may have any characters, as the name of a node."""
    return re.sub(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._-]+", "", platform.node())[:63] or "node"


class ClusterSettings(Value):
    """`[cluster]`: a store that several machines share, with `pip install 'paddock-sandbox[cluster]'`.

    No workspace may set it.
    """

    url: Annotated[Annotated[str, AfterValidator(_check_database)] | None, SAME, Mark.OWNERS_ONLY] = None
    """Address of the PostgreSQL database, such as `postgresql://paddock@db.example.com/paddock?sslmode=verify-full`.
    Without it, each machine has its own record and its own claims. The password is in the variable `PGPASSWORD`, or in
    the file of `PGPASSFILE`."""
    listen_url: Annotated[Annotated[str, AfterValidator(_check_database)] | None, SAME, Mark.OWNERS_ONLY] = (
        None
    )
    """Address of the same database for the one connection that renews the lease and listens (`LISTEN`). Needed if
    `cluster.url` leads through a pooler that shares connections between transactions, such as PgBouncer by default. By
    default `cluster.url`."""
    node: Annotated[str, Field(pattern=NODE_PATTERN), SAME, Mark.OWNERS_ONLY] = Field(
        default_factory=_name_node
    )
    """Name of this machine or replica, different from that of every other one; by default its host name."""
    node_url: Annotated[Annotated[str, AfterValidator(check_node_url)] | None, SAME, Mark.OWNERS_ONLY] = None
    """Address at which the other replicas reach this one, such as `http://10.0.0.7:8700`."""
    key_file: Annotated[Path | None, SAME, Mark.OWNERS_ONLY] = None
    """File with the keys that replicas authenticate to each other with: one per line, each at least 32 characters. The
    first one signs, all are accepted. They also seal answers and tokens in the database: without a key, writing a row
    grants nothing."""
    checkpoint_key_file: Annotated[Path | None, SAME, Mark.OWNERS_ONLY] = None
    """File with the Ed25519 key that signs checkpoints of the record, in PEM (PKCS #8). `paddock cluster key` makes
    one. Without it, this replica signs none."""
    name: Annotated[str, Field(pattern=NAME_PATTERN), SAME, Mark.OWNERS_ONLY] = "paddock"
    """Name of the cluster in the checkpoints of its record, such as `paddock.example.com`."""
    record: Annotated[Literal["ship", "all"], SAME, Mark.OWNERS_ONLY] = "ship"
    """When a record must be in the database: within about a second (`ship`), or before what it describes goes on
    (`all`)."""
