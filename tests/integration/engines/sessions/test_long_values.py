"""What a program shows is searched for secrets once, however long it is."""

import pytest

from paddock import BlockingPaddock
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.redaction.stream import StreamRedactor

HTML = "<a " + "password=" * 10_000
CELL = f"class R:\n  def _repr_html_(s): return {HTML!r}\nR()"


@pytest.fixture
def searched(monkeypatch):
    """Return the size of every long text that is searched."""
    found = []
    plain, streamed = Scanner.redact_in_slices, StreamRedactor.feed_in_slices

    def note(data):
        if len(data) >= len(HTML) // 2:
            found.append(len(data))

    def redact(scanner, data):
        note(data)
        return plain(scanner, data)

    def feed(redactor, data):
        if redactor._scanner.is_active:
            note(data)
        return streamed(redactor, data)

    monkeypatch.setattr(Scanner, "redact_in_slices", redact)
    monkeypatch.setattr(StreamRedactor, "feed_in_slices", feed)
    return found


def test_a_long_value_is_searched_once(tmp_path, searched):
    with BlockingPaddock(tmp_path) as paddock, paddock.session("python") as session:
        outcome = session.run(CELL).check()
        [result] = outcome.results
        assert result.data["text/html"] == HTML
        assert result.handles.keys() == {"text/html"}
    assert searched == [len(HTML)]
