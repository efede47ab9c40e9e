"""Rates of tokens over several servers: each writes once a second what it accepted, and reads what the others did.

One row for each server, with the number of requests by token and by age in seconds. A limit is therefore exceeded by
what the other servers accept within about a second. While the database is away, each server counts alone.
"""

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from paddock.cluster.database import STATEMENT_S
from paddock.surfaces.tenants.rate import PERIOD_S, Elsewhere

if TYPE_CHECKING:
    from paddock.cluster.database import Database

KIND = "rate"
MAX_SERVERS = 1000
_MAX_ROW_CHARS = 4 * 1024 * 1024
_EXCHANGE = (
    "with own as (insert into kept (kind, name, body) "
    "values (%s, %s, jsonb_build_object('at', extract(epoch from now()), 'accepted', %s::jsonb)) "
    "on conflict (kind, name) do update set body = excluded.body, version = kept.version + 1) "
    "select name, extract(epoch from now())::float8, left(body::text, %s) from kept "
    "where kind = %s and name <> %s order by name limit %s"
)


class SharedRates:
    """What other servers accepted, as of the last exchange."""

    def __init__(self, database: "Database", node: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Count as the server `node`; `clock` is that of the limits, in seconds."""
        self._database = database
        self._node = node
        self._clock = clock
        self._elsewhere: dict[str, list[tuple[float, int]]] = {}
        self._silent = True

    def find_elsewhere(self, sha256: str) -> Elsewhere:
        """Return the requests of a token that other servers accepted."""
        return self._elsewhere.get(sha256, ())

    async def exchange(self, accepted: Mapping[str, Mapping[int, int]]) -> None:
        """Write what this server accepted, by token and age, and read the same of the others.

        Nothing is done while no token has a rate. Raises StoreUnavailable.
        """
        if not accepted and self._silent:
            return
        own = json.dumps({sha256: [*by_age.items()] for sha256, by_age in accepted.items()})
        values = (KIND, self._node, own, _MAX_ROW_CHARS, KIND, self._node, MAX_SERVERS)
        rows = await self._database.fetch(_EXCHANGE, values, timeout_s=STATEMENT_S)
        self._silent = not accepted
        now, found = self._clock(), dict[str, list[tuple[float, int]]]()
        old: list[str] = []
        for name, database_now, text in rows:
            age_s, counts = _parse_row(text, database_now)
            if age_s >= PERIOD_S:
                old.append(name)
            for sha256, age, number in counts:
                if age_s + age < PERIOD_S:
                    found.setdefault(sha256, []).append((now - age_s - age, number))
        self._elsewhere = found
        if old:
            removal = "delete from kept where kind = %s and name = any(%s)"
            await self._database.fetch(removal, (KIND, old), timeout_s=STATEMENT_S)


def _parse_row(text: str, now: float) -> tuple[float, list[tuple[str, int, int]]]:
    """Return the age of a row in seconds, and its counts: token, age, number. A damaged row is an old one."""
    try:
        body: Any = json.loads(text)
        counts = [
            (sha256, age, number)
            for sha256, pairs in cast("dict[str, list[list[object]]]", body["accepted"]).items()
            for age, number in pairs
            if type(age) is int and type(number) is int and 0 <= age < PERIOD_S and number > 0
        ]
        return max(0.0, now - float(body["at"])), counts
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return PERIOD_S, []
