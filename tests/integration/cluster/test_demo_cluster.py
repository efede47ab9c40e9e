"""`make demo-cluster` keeps its promises."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.processes import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]


def test_three_replicas_are_one_service_and_the_death_of_one_is_reported() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo_cluster.py"],
        env={"HOME": os.environ["HOME"], "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    for text in (
        "replica c: ok, 42\n",
        "replica a: 1\nreplica b: 2\nreplica c: 3\n",
        "12 of 12 are right\n",
        "with the same key: lost",
        "starts of the program: 1\n",
        "\n$ paddock audit verify --cluster\nok: ",
    ):
        assert text in done.stdout
    assert done.stdout.endswith("\nDone\n----\n")
