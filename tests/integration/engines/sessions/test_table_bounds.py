"""The table of open sessions is bounded: in number, in memory, and in the time without use."""

import asyncio
from pathlib import Path

import pytest

from paddock import BlockingPaddock, Outcome, Paddock, Status
from paddock.engines.sessions.table import OpenSession, SessionTable

from .test_sessions import PATIENT


def test_there_are_only_so_many(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={**PATIENT, "sessions": {"max_per_actor": 2}}) as p:
        first, second, third = (p.exec("shell", "x=1", session="new").session for _ in range(3))
        assert first is not None
        assert second is not None
        assert third is not None
        assert [each.id for each in p.sessions()] == [second.id, third.id]
        lost = p.exec("shell", "echo $x", session=first.id)
    assert lost.error is not None
    assert lost.error.message == (
        "The session is lost: it was the one not used for longest when another one was opened "
        "(sessions.max_per_actor = 2). Nothing ran."
    )


def test_memory_of_all_is_bounded(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={**PATIENT, "sessions": {"memory_bytes": "100MiB"}}) as p:
        large = [p.exec("python", "x = b'1' * (60 << 20)", session="new") for _ in range(2)]
        sessions = [outcome.session.id for outcome in large if outcome.session]
        assert [each.id for each in p.sessions()] == sessions[1:]
        lost = p.exec("python", "1", session=sessions[0])
    assert lost.error is not None
    assert "all sessions together had too much memory" in lost.error.message


@pytest.mark.parametrize("in_use", [False, True])
def test_a_session_that_is_not_used_expires(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, in_use: bool
) -> None:
    schedule = SessionTable._schedule_expiry

    def expire_in_use(table: SessionTable, session: OpenSession) -> None:
        """Let the time pass before the program has left its session."""
        schedule(table, session)
        assert session.expiry is not None
        while asyncio.get_running_loop().time() < session.expiry.when():
            pass

    if in_use:
        monkeypatch.setattr(SessionTable, "_schedule_expiry", expire_in_use)

    async def scenario() -> Outcome:
        async with Paddock(workspace, overrides={**PATIENT, "sessions": {"idle_ms": 1}}) as p:
            outcome = await p.exec("shell", "sleep 0.1; echo on", session="new")
            assert (outcome.status, outcome.text) == (Status.OK, "on\n")
            assert outcome.session is not None
            while await p.sessions():  # noqa: ASYNC110 - its end is not announced
                await asyncio.sleep(0.005)
            return await p.exec("shell", "true", session=outcome.session.id)

    lost = asyncio.run(scenario())
    assert lost.error is not None
    assert lost.error.message == (
        "The session is lost: it was not used for 1 ms (sessions.idle_ms). Nothing ran."
    )
