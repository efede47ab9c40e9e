"""How much slower this machine is, here and now, than the one that the targets in units of time were set on.

Machines differ, and a shared one differs from itself within the hour. So around each section three things are timed
that have nothing to do with Paddock and that were timed on that machine, too: they start a process and end it.
"""

import os
import subprocess
import sys
from contextlib import suppress
from statistics import median

from benchmarks import peers
from benchmarks.measure import interleaved, milliseconds

THERE_MS = {"true": 0.94, "python -I -S -c pass": 8.8, "node -e 0": 24.0}
"""What these took on the machine that the targets were set on."""

_ROUNDS = 7


def slowness() -> float:
    """Return how many times as long as there it takes here to start a process: the median of what is installed."""
    floors = {
        "true": lambda: milliseconds(_true),
        "python -I -S -c pass": lambda: milliseconds(lambda: _run(sys.executable, "-I", "-S", "-c", "pass")),
    }
    with suppress(FileNotFoundError):
        node = peers.node()
        floors["node -e 0"] = lambda: milliseconds(lambda: _run(node, "-e", "0"))
    figures = interleaved(floors, _ROUNDS)
    return median(median(values) / THERE_MS[name] for name, values in figures.items())


def _true() -> None:
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def _run(*command: str) -> None:
    subprocess.run(command, env=peers.bare_environment(), capture_output=True, check=True)
