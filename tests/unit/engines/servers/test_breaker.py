from paddock.engines.servers.calls.lifecycle import Breaker


def after_failures(count, at=0.0):
    breaker = Breaker()
    for _ in range(count):
        breaker = breaker.record_failure(at)
    return breaker


def test_x29_breaker_opens_at_the_fifth_failure_and_stays_open_for_30000_ms():
    assert not after_failures(4).is_open(0)
    tripped = after_failures(5, at=1000)
    assert tripped == Breaker(failures=0, opened_at=1000)
    assert tripped.is_open(31_000)
    assert not tripped.is_open(31_000.001)


def test_x29_after_the_cooldown_it_takes_five_more_failures():
    breaker = after_failures(5)
    for _ in range(4):
        breaker = breaker.record_failure(40_000)
    assert not breaker.is_open(40_000)
    assert breaker.record_failure(40_000).is_open(40_000)


def test_success_forgets_everything():
    assert after_failures(4).record_success() == Breaker()
    assert after_failures(5).record_success() == Breaker()
