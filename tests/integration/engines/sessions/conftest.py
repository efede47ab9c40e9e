"""What all tests of sessions share."""

import pytest

from paddock.engines.sessions import interpreter


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give interrupted programs a minute to end: a busy machine must not lose a session."""
    monkeypatch.setattr(interpreter, "GRACE_MS", 60_000)
