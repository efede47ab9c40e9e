"""A server that is killed at any moment leaves a whole record, whole output and nothing else.

`PADDOCK_KILLED_SERVERS=200` kills so many; `PADDOCK_SEED` chooses the moments. See killed_server.py.
"""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

RUNS = os.environ.get("PADDOCK_KILLED_SERVERS", "3")
SEED = os.environ.get("PADDOCK_SEED") or str(random.SystemRandom().randrange(10**6))
CONTAINED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
if os.geteuid() != 0:
    CONTAINED.append("--map-root-user")


def test_kill_9_of_the_server_leaves_nothing_by_halves(tmp_path: Path) -> None:
    driver = Path(__file__).with_name("killed_server.py")
    done = subprocess.run(
        [*CONTAINED, sys.executable, driver, tmp_path, RUNS, SEED],
        capture_output=True,
        text=True,
        timeout=600 + 30 * int(RUNS),
        check=False,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout)["problems"] == [], f"PADDOCK_SEED={SEED}"
