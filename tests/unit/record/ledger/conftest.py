from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from paddock.record.ledger.writer import Ledger

DAY_ONE = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def write(directory: Path) -> Callable[..., None]:
    """Write `count` records on a day, counted from 0, and close the ledger."""

    def written(count: int, *, day: int = 0) -> None:
        with Ledger(directory, clock=(DAY_ONE + timedelta(days=day)).timestamp) as ledger:
            for number in range(count):
                ledger.append("decided", f"r{number}", {"name": f"day {day}"})

    return written
