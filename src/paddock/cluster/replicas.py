"""The living replicas of a cluster, as their leases in the database show them, and the marks that handles carry.

A handle of something that is in one replica's memory has the mark of that replica in it: `ClusterNode` has it,
`open_paddock` gives it to sessions, and ids of executions end with its first digits (`model/ids.py`). A replica has a
new mark after each start, so that a handle from before is known to be lost. The address of a replica is only ever taken
from its row, and used only with the seal of a replica: others who write to the database would get the tokens of users.
"""

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable
from typing import NamedTuple

from paddock.cluster.database import Database
from paddock.cluster.listener import Announcements
from paddock.cluster.node import MARK_CHARS, PURPOSE, compute_mark
from paddock.cluster.seals import NO_SEALS, Seals
from paddock.cluster.status import LEASE_S, OWN_VERSION
from paddock.model.errors import StoreUnavailable
from paddock.model.ids import find_id_mark
from paddock.policy.settings.cluster import check_node_url

_log = logging.getLogger("paddock.cluster")

_STATEMENT_S = 2.0
"""Maximum time of a look at the leases, in seconds."""
_MIN_PAUSE_S = 0.2
"""Minimum time between two looks for unknown marks, in seconds: clients may send any number of them."""
_SETTLE_S = 4.0
"""Time after an outage of the database in which no replica is taken for dead, in seconds."""
_QUERY = (
    f"select id, url, boot, substring(seal, 1, 33), {OWN_VERSION} from node where url is not null and state <> 'ended' "
    "and seen > now() - make_interval(secs => %s)"
)
_MARK = re.compile(rf"[0-9a-f]{{{MARK_CHARS}}}")


class Replica(NamedTuple):
    """A living replica."""

    id: str
    url: str
    """Address at which the others reach it."""
    mark: str
    marks_ids: bool = True
    """Whether ids of its executions end with its mark; those of a process that has not described itself do not."""


def is_mark(text: str) -> bool:
    """Return whether a string can be a mark."""
    return _MARK.fullmatch(text) is not None


class Replicas:
    """The living replicas other than this one, as of the last `refresh`; `follow` keeps that current."""

    def __init__(
        self,
        database: Database,
        mark: str,
        seals: Seals = NO_SEALS,
        *,
        min_pause_s: float = _MIN_PAUSE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`mark` is that of this replica, `seals` those of all replicas. `clock` returns seconds."""
        self._min_pause_s = min_pause_s
        self._seals = seals
        self._clock = clock
        self.mark = mark
        self._database = database
        self._known: dict[str, Replica] = {}
        self._refused: set[str] = set()
        self._reading: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._read_at = self._connected_at = self._back_at = -math.inf
        """When the leases were read, when the connection that listens was made, and when an outage was over."""
        self._was_away = True
        self._is_settled = False

    async def find(self, mark: str) -> Replica | None:
        """Return the living replica with a mark; None for this one, and for one that has ended.

        After None the caller answers itself: it has the thing, or reports it as lost or unknown.
        Raises StoreUnavailable if the mark is not known, and the database does not say whether it is that of a replica.
        """
        if mark == self.mark or not is_mark(mark):
            return None
        if mark not in self._known:
            await self._look_again()
        return self._known.get(mark)

    async def find_holders(self, id_: str) -> list[Replica]:
        """Return the other living replicas that may have an execution: one at most, and those that do not mark ids.

        Raises StoreUnavailable if its mark is not known, and the database does not say whether it is that of a replica.
        """
        mark = find_id_mark(id_)
        if self.mark.startswith(mark):
            return []
        if not any(each.mark.startswith(mark) for each in self._known.values()):
            await self._look_again()
        return [each for each in self._known.values() if not each.marks_ids or each.mark.startswith(mark)]

    async def _look_again(self) -> None:
        """Read the leases for an unknown mark: its replica may have begun just now. Raises StoreUnavailable."""
        try:
            async with asyncio.timeout(_STATEMENT_S):
                await asyncio.sleep(self._read_at + self._min_pause_s - self._clock())
                await self.refresh()
        except TimeoutError:
            raise StoreUnavailable("The database of cluster.url does not answer.") from None

    async def list_others(self) -> list[Replica]:
        """Return all other living replicas."""
        return [*self._known.values()]

    def is_living(self, mark: str) -> bool:
        """Return whether another replica has a lease, as far as this one knows."""
        return mark in self._known

    async def wait_for_end(self, mark: str) -> None:
        """Wait until a replica has ended, or its lease has."""
        while mark in self._known:
            await self._changed.wait()

    async def follow(self, changes: Announcements) -> None:
        """Wait until the leases must be read again, and read them. Call it again and again. Raises StoreUnavailable."""
        settles_in_s = math.inf if self._is_settled else max(0.0, self._back_at + _SETTLE_S - self._clock())
        await changes.wait(min(changes.due_s, settles_in_s))
        if changes.connected_at != self._connected_at:
            self._connected_at, self._was_away = changes.connected_at, True
        await changes.read(self.refresh)

    async def refresh(self) -> None:
        """Read the leases. Callers at the same time share one look. Raises StoreUnavailable."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())
        await asyncio.shield(self._reading)

    async def _read(self) -> None:
        try:
            rows = await self._database.fetch(_QUERY, (LEASE_S,), timeout_s=_STATEMENT_S)
        except StoreUnavailable:
            self._was_away = True
            raise
        living = {each.mark: each for row in rows if (each := self._read_row(*row)) is not None}
        self._read_at = now = self._clock()
        if self._was_away:
            self._back_at, self._was_away = now, False
        # After an outage of the database, all leases are old until they are renewed.
        self._is_settled = now - self._back_at >= _SETTLE_S
        self._known = living if self._is_settled else {**self._known, **living}
        self._changed.set()
        self._changed = asyncio.Event()

    def _read_row(self, id_: str, url: str, boot: str, seal: bytes | None, marks_ids: bool) -> Replica | None:
        """Return the replica of a row; None for this one, and for a row that is not to be used."""
        replica = Replica(id_, url, compute_mark(boot), marks_ids)
        if replica.mark == self.mark:
            return None
        if not self._seals.accepts(seal, PURPOSE, id_, boot, url):
            self._refuse(id_, "no replica with a key of cluster.key_file has written it")
            return None
        try:
            check_node_url(url)
        except ValueError:
            self._refuse(id_, "it is not http://host:port")
            return None
        return replica

    def _refuse(self, id_: str, why: str) -> None:
        if id_ not in self._refused:
            self._refused.add(id_)
            _log.error("the address of the replica %r is not used: %s", id_, why)
