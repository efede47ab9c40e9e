"""Open what a server shares with those of other machines, if the setting `cluster.url` is set."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from paddock.foundation.cancellation import cancel_all, run_shielded
from paddock.gate.database_queue import DatabaseQueue
from paddock.model.errors import LedgerError, StoreUnavailable
from paddock.model.ids import new_id

if TYPE_CHECKING:
    from paddock.cluster.clock import ClockCheck
    from paddock.cluster.database import Database
    from paddock.cluster.generation import Generation
    from paddock.cluster.lease import Lease
    from paddock.cluster.listener import Listener
    from paddock.cluster.node import ClusterNode, NodeLease
    from paddock.cluster.runs import StoredRuns
    from paddock.cluster.ship import Shipper
    from paddock.policy.settings.schema import Settings
    from paddock.record.telemetry.observed_sink import Reading

_LAST_FLUSH_S = 3.0
"""Maximum time for the last records at the end of a server, in seconds."""
_SETTLE_S = 1.0
_SWEEP_S = 120.0
"""Maximum time between two looks for requests of dead machines, in seconds: a renewal of the lease notices most."""
_FORGET_S = 3600.0
_MAX_SHARED_CHARS = 54
_log = logging.getLogger("paddock.cluster")


class Cluster:
    """What this server shares with others: the database, and its own place among them."""

    def __init__(
        self,
        database: "Database",
        node: "ClusterNode",
        runs: "StoredRuns",
        lease: "Lease",
        shipper: "Shipper",
        *,
        generation: "Generation",
        listener: "Listener",
        clock: "ClockCheck",
    ) -> None:
        self.database = database
        self.listener = listener
        """Hears what other servers announce."""
        self.node = node
        """This process: its name, the id of the process, and its address."""
        self.runs = runs
        """Claims of requests with effects."""
        self.lease = lease
        self.shipper = shipper
        """Copies the ledger of this server to the database."""
        self.clock = clock
        """Compares the clock of this machine with that of the database."""
        self.queue = DatabaseQueue()
        self.lost = 0
        """Number of requests of dead replicas that this one found and marked as lost."""
        self.generation = generation
        """Whether the database was restored from a backup."""
        self._tasks: set[asyncio.Task[None]] = set()

    def repeat(self, name: str, work: Callable[[], Awaitable[None]], *, pause_s: float = 1.0) -> None:
        """Run `work` again and again until the cluster is closed, with a pause after each time.

        Each new failure is logged, after `name`, which says what is not done, and the work goes on after the pause.
        """

        async def run() -> None:
            problem = ""
            while True:
                try:
                    await work()
                    problem = ""
                except Exception as error:  # noqa: BLE001 - the next time may succeed
                    if str(error) != problem:
                        problem = str(error)
                        expected = isinstance(error, StoreUnavailable)
                        _log.warning("%s: %s", name, error, exc_info=None if expected else error)
                await asyncio.sleep(pause_s)

        self._tasks.add(asyncio.create_task(run()))

    def read_metrics(self) -> "Iterator[Reading]":
        """Yield the metrics of this server as a replica. Any thread may call it."""
        from paddock.record.telemetry.observed_sink import Reading

        about = "Seconds by which the clock is ahead of that of the database; behind it if negative."
        yield Reading("paddock_cluster_clock_skew_seconds", about, self.clock.skew_s)
        about = "Claims of requests with effects, by what came of them."
        yield Reading("paddock_cluster_claims_total", about, dict(self.runs.results), "result")
        about = "Ends and withdrawn claims that wait for the database."
        yield Reading("paddock_cluster_pending_ends", about, self.runs.pending)
        about = "Time since the last renewal of the lease was sent."
        yield Reading("paddock_cluster_lease_age_seconds", about, self.lease.age_s)
        about = "Maximum age of a record that the database does not have."
        yield Reading("paddock_cluster_ship_lag_seconds", about, self.shipper.lag_s)
        about = "Requests of dead replicas that this server marked as lost."
        yield Reading("paddock_cluster_lost_total", about, self.lost)
        about = "1 in safe mode: the database was restored, and requests with effects are refused."
        yield Reading("paddock_cluster_safe_mode", about, bool(self.generation.restored))
        about = "Generation of the database that is used."
        yield Reading("paddock_cluster_generation", about, self.generation.number)

    async def close(self) -> None:
        """End the background tasks."""
        await cancel_all(self._tasks)


@asynccontextmanager
async def open_cluster(
    settings: "Settings", *, has_namesakes: bool = False, is_peer: bool = True
) -> "AsyncGenerator[Cluster | None]":
    """Yield what a server shares with others, and keep its lease; None without `cluster.url`.

    Of servers that `has_namesakes`, a machine runs several with the same settings: each gets another name. Only one
    that `is_peer` answers what other replicas pass on, and has an address there.
    At its end nothing of the server may run any more: the lease is given up. A database that is away is logged, and
    used as soon as it is there. Raises ConfigurationError if it lacks tables, or may forget what it committed.
    """
    own = settings.cluster
    if own.url is None:
        yield None
        return
    from paddock.cluster.cleaner import Cleaner
    from paddock.cluster.database import Database
    from paddock.cluster.generation import Generation
    from paddock.cluster.lease import Lease
    from paddock.cluster.listener import Listener
    from paddock.cluster.node import ClusterNode, NodeLease
    from paddock.cluster.postgres_runs import PostgresRunStore
    from paddock.cluster.runs import StoredRuns
    from paddock.cluster.seals import open_seals
    from paddock.cluster.ship import Shipper

    boot = new_id()
    name = f"{own.node[:_MAX_SHARED_CHARS]}-{boot[-8:].lower()}" if has_namesakes else own.node
    node = ClusterNode(name, boot, own.node_url if is_peer else None)
    # The lease has a separate connection: it must not wait for other statements.
    listener = Listener(own.listen_url or own.url, name=f"paddock lease {node.id}")
    async with Database(own.url, name=f"paddock {node.id}") as database, listener:
        seals = open_seals(own)
        generation = Generation(database, settings.audit.directory, node.id, seals)
        entry = NodeLease(listener, node, seals, generation)
        lease = Lease(entry.renew, pause=listener.wait)
        await lease.begin()
        store = PostgresRunStore(database, node, generation)
        shipper = Shipper(database, settings.audit.directory, node.id, generation)
        signer = None
        if own.checkpoint_key_file is not None:
            from paddock.cluster.bucket import CheckpointBucket
            from paddock.cluster.sign import CheckpointSigner
            from paddock.cluster.signed_note import SigningKey

            bucket = None if settings.artifacts.url is None else CheckpointBucket(settings.artifacts.url)
            key = SigningKey.read(own.checkpoint_key_file, own.name)
            unsigned = entry.records_unsigned
            signer = CheckpointSigner(database, key, settings.audit.directory, bucket, unsigned=unsigned)
        shared = StoredRuns(store), lease, shipper
        cluster = Cluster(
            database, node, *shared, generation=generation, listener=listener, clock=entry.clock
        )
        cleaner = Cleaner(database)

        async def find_lost() -> None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SWEEP_S):
                    await entry.others_expired.wait()
            entry.others_expired.clear()
            cluster.clock.check()  # if the clock of the database has jumped, all leases look expired
            for request, of in await cleaner.expire():
                cluster.lost += 1
                _log.warning("the request %s is lost: its replica %s died while it ran", request, of)

        cluster.repeat("the lease is not kept", lease.keep)
        cluster.repeat("claims that did not start are not removed", cluster.runs.settle, pause_s=_SETTLE_S)
        cluster.repeat("requests of dead replicas are not marked as lost", find_lost)
        cluster.repeat("old requests are not removed", cleaner.forget_old, pause_s=_FORGET_S)
        cluster.repeat("whether announcements arrive is not known", partial(listener.test_hearing, database))
        cluster.repeat("the record is not shipped", shipper.run)
        cluster.repeat("what this server knows of a restore is not entered", generation.report)
        if signer is not None:
            cluster.repeat("no checkpoint is made", signer.run)
        try:
            yield cluster
        finally:
            await run_shielded(_leave(cluster, entry))


async def _leave(cluster: Cluster, entry: "NodeLease") -> None:
    with suppress(StoreUnavailable, LedgerError):  # what is missing follows after the next start
        await cluster.shipper.flush(_LAST_FLUSH_S)
    await cluster.close()
    cluster.lease.close()
    with suppress(StoreUnavailable):
        await cluster.runs.settle()
    with suppress(StoreUnavailable):
        await entry.end()
