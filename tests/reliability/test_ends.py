"""Whoever kills a server or interrupts a command, at whatever moment: the record is whole, and nothing else is left.

`PADDOCK_RELIABILITY_RUNS=200` does it so often; `PADDOCK_RELIABILITY_SEED` chooses the moments.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.command import CONTAINED

RUNS = os.environ.get("PADDOCK_RELIABILITY_RUNS")
SEED = os.environ.get("PADDOCK_RELIABILITY_SEED") or str(random.SystemRandom().randrange(10**6))


@pytest.mark.parametrize(("driver", "runs"), [("killed_server.py", "2"), ("interrupted_command.py", "1")])
def test_nothing_is_left_by_halves(reachable: Path, driver: str, runs: str) -> None:
    """`killed_server.py` kills a server `runs` times, `interrupted_command.py` interrupts each of five commands."""
    runs = RUNS or runs
    done = subprocess.run(
        [*CONTAINED, sys.executable, Path(__file__).with_name(driver), reachable, runs, SEED],
        capture_output=True,
        text=True,
        timeout=600 + 60 * int(runs),
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["problems"] == [], f"PADDOCK_RELIABILITY_SEED={SEED}"
