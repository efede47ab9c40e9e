"""The clock of a machine, compared with that of the database."""

import logging

import pytest

from paddock.cluster.clock import MAX_SKEW_S, ClockCheck
from paddock.cluster.hops import MAX_AGE_S
from paddock.model.errors import StoreUnavailable

NOW = 1_800_000_000.0


def compare(sent: float, database: float, received: float) -> ClockCheck:
    check = ClockCheck()
    check.compare(NOW + sent, NOW + database, NOW + received)
    return check


def test_replicas_that_serve_accept_each_others_proofs() -> None:
    assert 2 * MAX_SKEW_S < MAX_AGE_S


@pytest.mark.parametrize(
    ("sent", "database", "received", "skew"),
    [(0, 0, 0, 0), (0, 3, 5, 0), (0, -2, 1, 2), (0, 7, 4, -3), (0, 100, 100, 0), (0, 60, 100, 0)],
)
def test_only_a_certain_difference_counts(sent: float, database: float, received: float, skew: float) -> None:
    assert compare(sent, database, received).skew_s == skew


def test_a_clock_that_was_set_during_the_comparison_tells_nothing() -> None:
    assert compare(0, 100, -1).skew_s == 0


@pytest.mark.parametrize("skew", [-MAX_SKEW_S, MAX_SKEW_S])
def test_a_machine_serves_up_to_the_limit(skew: float) -> None:
    check = compare(0, -skew, 0)
    check.check()
    assert (check.skew_s, check.problem) == (skew, "")


@pytest.mark.parametrize(("skew", "side"), [(-11.4, "behind"), (42.4, "ahead of")])
def test_a_machine_with_a_wrong_clock_serves_nothing_until_it_is_set(
    skew: float, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "paddock.cluster")
    check = ClockCheck()
    for _ in range(3):
        check.compare(NOW, NOW - skew, NOW)
    with pytest.raises(StoreUnavailable) as refused:
        check.check()
    assert str(refused.value) == (
        f"The clock of this machine is {abs(skew):.0f} s {side} that of the database of cluster.url; at most 10 s are "
        "allowed. Set it, for example by NTP."
    )
    check.compare(NOW, NOW, NOW)
    check.check()
    assert caplog.messages == [
        f"the clock of this machine differs from that of the database by {skew} s",
        "the clock of this machine agrees with that of the database again",
    ]
