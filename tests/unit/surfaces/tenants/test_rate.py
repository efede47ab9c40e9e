"""The rate of a token: never more than so many requests in any 60 seconds, and never less where there is room."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.surfaces.tenants.errors import RateExceeded
from paddock.surfaces.tenants.rate import PERIOD_S, RateLimit


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_request_over_the_rate_is_refused_and_told_when_to_come_back() -> None:
    clock = Clock()
    limit = RateLimit(2, clock)
    limit.count_request()
    clock.now = 10
    limit.count_request()
    clock.now = 15.5
    with pytest.raises(RateExceeded) as refused:
        limit.count_request()
    assert refused.value.retry_after_s == 44.5
    assert str(refused.value) == "this token may make 2 requests in 60 seconds; retry in 44.5 seconds"
    clock.now += refused.value.retry_after_s
    limit.count_request()


def try_request(limit: RateLimit) -> float | None:
    """Return None for an accepted request; otherwise the time after which to retry."""
    try:
        limit.count_request()
    except RateExceeded as refusal:
        return refusal.retry_after_s
    return None


@given(st.integers(1, 5), st.lists(st.integers(0, 90), max_size=60))
def test_in_any_period_at_most_the_rate_is_accepted(rate: int, pauses: list[int]) -> None:
    clock, accepted = Clock(), list[float]()
    limit = RateLimit(rate, clock)
    for pause in pauses:
        clock.now += pause
        recent = [each for each in accepted if each + PERIOD_S > clock.now]
        wait_s = try_request(limit)
        assert wait_s == (None if len(recent) < rate else recent[-rate] + PERIOD_S - clock.now)
        if wait_s is None:
            accepted.append(clock.now)
