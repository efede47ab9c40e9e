"""Signals: what is kept, found, counted and refused."""

import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.sdk.notes import Signals
from paddock.model.errors import SdkError, SignalError


@pytest.fixture
def signals(tmp_path):
    return Signals(tmp_path / "state" / "signals.db")


def bodies(found):
    return [signal["body"] for signal in found]


def test_a_signal_comes_back_as_it_was_captured(signals):
    told = {"type": "risk", "domain": "billing", "confidence": 0.7, "source": "audit", "tags": ["a", "b"]}
    made = signals.capture_signal("rates differ", told)
    (found,) = signals.query_signals({})
    created = datetime.fromisoformat(found.pop("created_at"))
    assert found == {"id": made["id"], "body": "rates differ", **told}
    assert abs(datetime.now(UTC) - created) < timedelta(minutes=1)


def test_what_was_not_told_is_absent(signals):
    signals.capture_signal("x", {})
    (found,) = signals.query_signals({})
    assert sorted(found) == ["body", "created_at", "id", "tags", "type"]


def test_query_filters_limits_and_puts_the_newest_first(signals):
    for number in range(5):
        signals.capture_signal(f"n{number}", {"type": "even" if number % 2 == 0 else "odd", "domain": "d"})
    assert bodies(signals.query_signals({"type": "even"})) == ["n4", "n2", "n0"]
    assert bodies(signals.query_signals({"type": "even", "limit": 1})) == ["n4"]
    assert bodies(signals.query_signals({"domain": "other"})) == []


def test_since_takes_ages_and_dates(signals):
    signals.capture_signal("now", {})
    assert bodies(signals.query_signals({"since": "1h"})) == ["now"]
    assert bodies(signals.query_signals({"since": "9999w"})) == ["now"]
    assert bodies(signals.query_signals({"since": "2001-01-01"})) == ["now"]
    assert bodies(signals.query_signals({"since": "2999-01-01T00:00:00Z"})) == []


def test_search_finds_words_in_any_form_and_the_best_first(signals):
    signals.capture_signal("deploys fail when deploying twice", {})
    signals.capture_signal(
        "one deploy failed, among many other things that were said at length on that day", {}
    )
    signals.capture_signal("all is well", {"tags": ["deploy", "fail"]})
    signals.capture_signal("nothing of the kind", {})
    assert len(signals.search_signals("deploy failing", {})) == 3
    assert bodies(signals.search_signals("kind", {})) == ["nothing of the kind"]
    assert bodies(signals.search_signals("deploy", {"type": "none"})) == []


def test_contradictions_are_pairs_of_one_matter_with_confidences_far_apart(signals):
    older = signals.capture_signal("it holds", {"domain": "d", "confidence": 0.9})["id"]
    signals.capture_signal("elsewhere", {"domain": "e", "confidence": 0.1})
    signals.capture_signal("nearly", {"domain": "d", "confidence": 0.6})
    newer = signals.capture_signal("it does not", {"domain": "d", "confidence": 0.1})["id"]
    assert {"newer": newer, "older": older} in signals.find_contradictions()
    assert all(pair["newer"] == newer for pair in signals.find_contradictions())


def test_stats_count(signals):
    signals.capture_signal("a", {"type": "x", "domain": "d"})
    signals.capture_signal("b", {"type": "x"})
    signals.capture_signal("c", {"type": "y"})
    assert signals.count_signals() == {"total": 3, "by_type": {"x": 2, "y": 1}, "by_domain": {"d": 1}}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.capture_signal("", {}), "body: String should have at least 1 character"),
        (
            lambda s: s.capture_signal("x", {"confidence": 2}),
            "confidence: Input should be less than or equal to 1",
        ),
        (lambda s: s.capture_signal("x", {"colour": "red"}), "colour: Extra inputs are not permitted"),
        (lambda s: s.query_signals({"limit": 0}), "limit: Input should be greater than or equal to 1"),
        (
            lambda s: s.query_signals({"since": "soon"}),
            "since: 'soon' is neither an age like `24h` or `7d` nor a date in ISO 8601",
        ),
        (
            lambda s: s.search_signals("...", {}),
            "there is no word to search for; use query() to list signals",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(signals, call, message):
    with pytest.raises(SdkError) as caught:
        call(signals)
    assert str(caught.value) == message


def test_a_damaged_file_is_said_to_be_one(signals, tmp_path):
    file = tmp_path / "state" / "signals.db"
    file.parent.mkdir()
    file.write_bytes(b"not a database, but long enough to be looked at as one" * 40)
    with pytest.raises(SignalError) as caught:
        signals.count_signals()
    assert str(caught.value) == f"the signals in {file} cannot be used: file is not a database"


def test_the_file_is_its_owners_alone(signals, tmp_path):
    signals.capture_signal("x", {})
    file = tmp_path / "state" / "signals.db"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with closing(sqlite3.connect(file)) as base:
        assert base.execute("SELECT count(*) FROM signal").fetchone() == (1,)


@given(text=st.text(max_size=60))
def test_no_text_to_search_for_breaks_the_query(tmp_path_factory, text):
    signals = Signals(tmp_path_factory.getbasetemp() / "any" / "signals.db")
    if re.search(r"\w", text):
        assert signals.search_signals(text, {}) == []
    else:
        with pytest.raises(SdkError):
            signals.search_signals(text, {})
