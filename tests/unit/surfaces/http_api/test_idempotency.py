"""Ids that follow from an `Idempotency-Key`: one for each day, and only on that day."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paddock.model.errors import AlreadyClaimed, LedgerError
from paddock.model.ids import find_mint_time
from paddock.record.ledger.writer import Ledger
from paddock.surfaces.http_api.idempotency import KeyedRequest, check_unclaimed, derive_id
from paddock.surfaces.http_server.problems import OUTCOME_LOST, Problem

DAY_S = 24 * 3600
MIDNIGHT = 20_000 * DAY_S
KEYED = KeyedRequest("token:alice", "k1", b"")


class Clock:
    """The time, as a test sets it."""

    def __init__(self) -> None:
        self.now = float(MIDNIGHT)

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Iterator[Ledger]:
    with Ledger(tmp_path / "audit", clock=clock) as ledger:
        yield ledger


def test_an_id_is_of_its_day() -> None:
    first = derive_id(KEYED, MIDNIGHT)
    assert find_mint_time(first) == MIDNIGHT
    assert derive_id(KEYED, MIDNIGHT + DAY_S - 0.001) == first
    assert derive_id(KEYED, MIDNIGHT + DAY_S) != first
    assert derive_id(KEYED, MIDNIGHT - 0.001) != first


def test_callers_and_keys_have_ids_of_their_own() -> None:
    others = [("token:alice", "k2"), ("token:bob", "k1"), ("token:alicek", "1"), ("token:alice\0", "k1")]
    ids = {derive_id(KeyedRequest(actor, key, b""), MIDNIGHT) for actor, key in [KEYED[:2], *others]}
    assert len(ids) == 5


@pytest.mark.parametrize("later_s", [0, 1, DAY_S - 1])
def test_an_id_is_claimed_once_on_its_day(ledger: Ledger, clock: Clock, later_s: int) -> None:
    id_ = derive_id(KEYED, MIDNIGHT)
    check_unclaimed(ledger, KEYED, MIDNIGHT)
    ledger.claim(id_, {})
    clock.now += later_s
    with pytest.raises(AlreadyClaimed):
        ledger.claim(id_, {})


def test_an_id_cannot_be_claimed_on_the_next_day(ledger: Ledger, clock: Clock) -> None:
    """A request that waits past midnight does not start beside one that is new on the next day."""
    clock.now += DAY_S + 0.001
    with pytest.raises(LedgerError, match="cannot be claimed"):
        ledger.claim(derive_id(KEYED, MIDNIGHT), {})


@pytest.mark.parametrize(
    ("later_s", "known"), [(0, True), (DAY_S, True), (2 * DAY_S - 1, True), (2 * DAY_S, False)]
)
def test_a_start_is_known_today_and_tomorrow(
    ledger: Ledger, clock: Clock, later_s: int, *, known: bool
) -> None:
    id_ = derive_id(KEYED, MIDNIGHT)
    ledger.claim(id_, {})
    clock.now += later_s
    if not known:
        check_unclaimed(ledger, KEYED, clock.now)
        return
    with pytest.raises(Problem) as raised:
        check_unclaimed(ledger, KEYED, clock.now)
    assert raised.value.kind is OUTCOME_LOST
    assert raised.value.document["execution"] == id_
    assert "How it ended is not known" in str(raised.value)


def test_the_end_is_reported(ledger: Ledger) -> None:
    id_ = derive_id(KEYED, MIDNIGHT)
    ledger.claim(id_, {})
    ledger.append("finished", id_, {"status": "failed"})
    with pytest.raises(Problem, match="It finished with the status failed"):
        check_unclaimed(ledger, KEYED, MIDNIGHT)


def test_ids_are_of_now() -> None:
    made = find_mint_time(derive_id(KEYED, time.time()))
    assert made is not None
    assert 0 <= time.time() - made <= DAY_S + 1
