"""Log lines that are due at most once a minute."""

from paddock.foundation.seldom import PERIOD_S, Seldom


def test_a_line_is_due_once_a_minute_for_each_thing() -> None:
    now = 0.0
    seldom = Seldom(lambda: now)
    assert [seldom.is_due(each) for each in ("a", "a", "b", "a", "b")] == [True, False, True, False, False]
    now = PERIOD_S - 0.5
    assert not seldom.is_due("a")
    now = PERIOD_S
    assert [seldom.is_due(each) for each in ("a", "a")] == [True, False]
