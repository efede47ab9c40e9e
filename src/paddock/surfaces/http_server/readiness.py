"""Whether a server takes requests: what `/readyz` answers, and what refuses a request. The same for API and MCP."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from paddock.surfaces.http_server.problems import SERVER_ENDING, UNAVAILABLE, Problem

if TYPE_CHECKING:
    from paddock.gate.cluster import Cluster
    from paddock.record.ledger.record_watch import RecordWatch


class Readiness:
    """The state of one server."""

    def __init__(
        self, is_leaving: Callable[[], bool], record: "RecordWatch", cluster: "Cluster | None"
    ) -> None:
        """`is_leaving` returns whether the server is about to end; `cluster` is what it shares with other replicas."""
        self._is_leaving = is_leaving
        self._record = record
        self._cluster = cluster

    def describe(self) -> str:
        """Return `ok`, or the reason of safe mode, in which requests without effects are still taken.

        Raises Problem if the server ends, or may not run anything: for its name, its clock or its record.
        """
        if self._is_leaving():
            raise Problem(SERVER_ENDING, "The server is ending. Send requests to another one.")
        cluster = self._cluster
        if cluster is not None and cluster.lease.is_replaced:
            raise Problem(
                UNAVAILABLE,
                "Another server has the name of this one. Send requests to another one, and restart this one under "
                "another name.",
            )
        if cluster is not None and cluster.clock.problem:
            text = f"{cluster.clock.problem} Send requests to another server until then."
            raise Problem(UNAVAILABLE, text)
        if not self._record.can_run():
            raise Problem(
                UNAVAILABLE,
                "The record of this server cannot be written, and nothing runs without it. Send requests to another "
                "one. The log has the cause.",
            )
        restored = "" if cluster is None else cluster.generation.restored
        return f"safe mode: {restored}\n" if restored else "ok\n"

    def explain_wrong_clock(self) -> str:
        """Return why no request is answered because of the clock; empty if it is right."""
        if self._cluster is None or not self._cluster.clock.problem:
            return ""
        return "The clock of this server is wrong. Nothing was started. Send it again later, or to another server."
