"""The official conformance suite, and what it says of one side of Paddock.

`--requirements REVISION` runs what that revision requires, as the suite's `requirements/REVISION.yaml` lists it, and
besides, without counting it, what it does not: `extension` (optional by definition), `pending` (its own example server
does not pass) and `added-after-release`. The required ones alone decide the exit code.
"""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from .surfaces.mcp_server import npm

_SUITE = "@modelcontextprotocol/conformance"
_RESULT = re.compile(r"^([✓✗]) ([\w/.-]+): \d+ passed", re.MULTILINE)
_UNSCORED = re.compile(r"^  [✓✗] ([\w/.-]+) \((\w[\w-]*)\)$", re.MULTILINE)
_PATIENT = Path(__file__).parents[1] / "clients" / "patient_timers.cjs"
_SECONDS = 600


@dataclass(frozen=True)
class Verdict:
    """What became of the scenarios of a revision."""

    passed: dict[str, bool]
    """Every scenario that was run."""
    unscored: dict[str, str]
    """Those that the revision does not require, and why."""
    code: int
    told: str

    @property
    def required(self) -> set[str]:
        """The scenarios that count."""
        return self.passed.keys() - self.unscored.keys()


def run(modules: Path, side: str, *options: str, revision: str, results: Path) -> Verdict:
    """Run what a revision requires of a `side`, `client` or `server`; the checks of each scenario go to `results`."""
    suite = str(modules / _SUITE / "dist" / "index.js")
    command = [npm.node(modules), "--require", str(_PATIENT), suite, side, *options]
    done = subprocess.run(
        [*command, "--requirements", revision, "--output-dir", str(results)],
        cwd=results.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    passed = {name: mark == "✓" for mark, name in _RESULT.findall(done.stdout)}
    unscored = dict(_UNSCORED.findall(done.stdout))
    return Verdict(passed, unscored, done.returncode, done.stdout + done.stderr)
