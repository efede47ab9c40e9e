"""Run the tests of an unreviewed change: in a copy, confined, without a network.

python check.py [PROJECT]
"""

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from paddock import BlockingPaddock, Outcome

GRANTS = {
    "runtimes.access": "workspace-write",  # tests write caches and reports
    "runtimes.network": "none",
    "runtimes.timeout_ms": "120000",
}
TESTS = ("-B", "-m", "unittest", "discover", "-s", "tests")


def main(project: Path) -> int:
    """Run the tests of a project, print the result, and return their exit code."""
    with TemporaryDirectory() as place:
        copy = Path(shutil.copytree(project, Path(place) / "project"))
        (copy / ".git" / "hooks").mkdir(parents=True, exist_ok=True)
        with BlockingPaddock(copy, overrides=GRANTS, actor="example check") as paddock:
            outcome = paddock.exec("python", args=TESTS, access="workspace-write")
        print(report(outcome))
        left = sorted(path.name for path in (copy / ".git" / "hooks").iterdir())
        print("left in .git/hooks:", ", ".join(left) or "nothing")
    return 1 if outcome.program is None or outcome.program.exit_code is None else outcome.program.exit_code


def report(outcome: Outcome) -> str:
    """Return the failures of the tests, or the reason why they did not run."""
    if outcome.program is None or outcome.program.exit_code is None:
        return f"{outcome.status}: {outcome.error and outcome.error.message}"
    failures = [
        line for line in outcome.program.stderr.head.splitlines() if line.startswith(("ERROR:", "FAIL"))
    ]
    return "\n".join([f"{outcome.status} under {outcome.sandbox.tier}", *failures])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("project")))
