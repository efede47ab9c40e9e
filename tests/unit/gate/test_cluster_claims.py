"""Ends of claimed requests that the database does not take."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.cluster.node import ClusterNode
from paddock.cluster.runs import Claim, Started, StoredEnd
from paddock.gate import cluster_claims
from paddock.gate.cluster_claims import PaddockClaims
from paddock.model.errors import StoreUnavailable
from paddock.model.outcome import Decision, Outcome, Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.schema import Settings


class Runs:
    """Takes every claim, and no end."""

    async def take(self, claim: Claim, _stop: asyncio.Event | None) -> Started:
        return Started(claim, 1, 1)

    async def end(self, _run: Started, _end: StoredEnd | None) -> bool:
        raise StoreUnavailable("The disk is full.")


def test_an_end_that_cannot_be_stored_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lease is renewed all the time. Neither the caller nor the end of the server may wait for the disk."""
    monkeypatch.setattr(cluster_claims, "FENCE_S", 0.1)
    monkeypatch.setattr(cluster_claims, "_RETRY_S", 0.01)
    lease = SimpleNamespace(age_s=0.0, check=lambda: None)
    sound = SimpleNamespace(check=lambda: None)
    cluster: Any = SimpleNamespace(runs=Runs(), lease=lease, node=ClusterNode("a", "boot"), generation=sound)
    request = ExecutionRequest(
        workspace=Path("/w"), work=RuntimeRun(runtime="shell", code="x", session="new")
    )

    async def run() -> Outcome:
        async with PaddockClaims(cluster, Settings()).begin(request) as claim:
            assert await claim.take(request, Decision(allowed=True), None) is None
            return await claim.end(Outcome(id=request.id, status=Status.OK))

    with caplog.at_level(logging.WARNING, "paddock.cluster"):
        assert asyncio.run(run()).status is Status.OK
    assert caplog.messages == [f"the end of {request.id} is stored later: The disk is full."]
