"""Replicas of one server on loopback, with one database, and HAProxy before them."""

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.support.command import PADDOCK
from tests.support.http_api import ApiPlace, ApiServer
from tests.support.leases import await_leases
from tests.support.postgres import HaProxy, find_free_port

from paddock.cluster.database import Database
from paddock.cluster.migrate import migrate

KEY = "k" * 32


def write_keys(directory: Path) -> Path:
    """Return a new file with the key of all replicas."""
    file = directory / "keys"
    file.write_text(f"{KEY}\n")
    file.chmod(0o600)
    return file


async def make_tables(url: str) -> None:
    """Make the tables in an empty database."""
    async with Database(url) as database:
        await migrate(database)


class ReplicaSet:
    """Replicas that run, and those that a test starts anew. Each has a workspace, a home and a ledger of its own."""

    def __init__(
        self,
        root: Path,
        database: str,
        settings: str = "",
        count: int = 3,
        *,
        reach: Callable[[int], int] = lambda port: port,
        hosts: Sequence[str] = (),
    ) -> None:
        """Make the tables, and the settings of all replicas, which also accept the names `hosts`.

        Others reach the port P of a replica at `reach(P)`.
        """
        self.database = database
        self._root = root
        self._settings = settings
        self._hosts = hosts
        self._reach = reach
        self._key_file = write_keys(root)
        self._stack = ExitStack()
        self.servers: list[ApiServer] = []
        self.places: list[ApiPlace] = []
        self.ports = [find_free_port() for _ in range(count)]
        self.commands = [PADDOCK] * count
        """The command that each replica is started with: another one is another version."""
        self.balancer = HaProxy(self.ports)
        for number, port in enumerate(self.ports):
            self.places.append(self._make_place(number, port))
        asyncio.run(make_tables(database))

    def _make_place(self, number: int, port: int) -> ApiPlace:
        root = self._root / f"r{number}"
        root.mkdir()
        place = ApiPlace(root)
        place.settings(
            f'[cluster]\nurl = "{self.database}"\nnode = "r{number}"\nkey_file = "{self._key_file}"\n'
            f'node_url = "http://127.0.0.1:{self._reach(port)}"\n{self._settings}'
        )
        return place

    def start(self, number: int) -> ApiServer:
        """Start a replica, which runs until the end of `run`."""
        names = f"127.0.0.1:{self.balancer.port}", *self._hosts
        flags = [f"--allowed-host={name}" for name in names]
        address, command = f"127.0.0.1:{self.ports[number]}", self.commands[number]
        return self._stack.enter_context(self.places[number].serve(*flags, address=address, command=command))

    def stop(self, number: int) -> None:
        """Stop a replica in order. Then its port is free: no process that it started has the socket that listens."""
        self.servers[number].stop()
        assert self.servers[number].wait() == 0

    def replace(self, number: int) -> None:
        """Stop a replica in order, and start it with its command once more."""
        self.stop(number)
        self.servers[number] = self.start(number)
        self.await_balanced(number)

    @contextmanager
    def run(self) -> Iterator["ReplicaSet"]:
        """Start all replicas, and the balancer."""
        with self._stack, self.balancer:
            self.servers = [self.start(number) for number in range(len(self.ports))]
            await_leases(self.database, len(self.ports))
            front = ApiServer(self.servers[0].process, self.balancer.url)
            self.front = front
            """The balancer, as if it were a server."""
            for number in range(len(self.ports)):
                self.await_balanced(number)
            yield self

    def await_balanced(self, number: int) -> None:
        """Wait until the balancer sends requests to a replica."""
        with self.front.client(None) as client:
            while client.get("/livez").headers.get("x-served-by") != f"s{self.ports[number]}":
                pass

    def await_unbalanced(self, number: int) -> None:
        """Wait until the balancer sends no requests to a replica, and some to each of the others."""
        others = {f"s{port}" for port in self.ports} - {f"s{self.ports[number]}"}
        with self.front.client(None) as client:
            while {client.get("/livez").headers.get("x-served-by") for _ in range(2 * len(others))} != others:
                pass


def make_token_settings(*names: str, approve: str = "") -> tuple[str, dict[str, str]]:
    """Return settings with tokens, and the tokens by name. `approve` may answer questions."""
    from paddock.surfaces.tenants.tokens import hash_token

    tokens = {name: secrets.token_urlsafe(32) for name in names}
    tables = [
        f'[[serve.token]]\nname = "{name}"\nsha256 = "{hash_token(token)}"\napprove = {str(name == approve).lower()}\n'
        for name, token in tokens.items()
    ]
    return "".join(tables), tokens
