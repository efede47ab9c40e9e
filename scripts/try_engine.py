"""Run the tests of the JavaScript guest with another version of mini-racer, before it is pinned.

    python scripts/try_engine.py             the newest version
    python scripts/try_engine.py 0.14.0      this one

Works in a temporary copy of what is committed, and changes nothing else. Exit status: that of the tests; 2 when the
version cannot be installed.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTS = (
    "tests/unit/engines/javascript",
    "tests/integration/engines/javascript/compute",
    "tests/integration/test_guest_*.py",
)
PIN = re.compile(r'"mini-racer==[^"]+"')


def main() -> int:
    """Install the version in a copy of the project, and run the tests there."""
    wanted = f"=={sys.argv[1]}" if sys.argv[1:] else ""
    uv = shutil.which("uv") or str(ROOT / ".venv/bin/uv")
    with tempfile.TemporaryDirectory(prefix="paddock-engine-") as place:
        archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE, check=True)
        subprocess.run(["tar", "-x", "-C", place], input=archive.stdout, check=True)
        project = Path(place, "pyproject.toml")
        project.write_text(PIN.sub(f'"mini-racer{wanted}"', project.read_text("utf-8")), "utf-8")
        update = [
            uv,
            "sync",
            "--quiet",
            "--all-extras",
            "--no-extra",
            "ray",
            "--upgrade-package",
            "mini-racer",
        ]
        if subprocess.run(update, cwd=place, check=False).returncode:
            return 2
        python = str(Path(place, ".venv/bin/python"))
        version = "from importlib.metadata import version; print('mini-racer', version('mini-racer'))"
        subprocess.run([python, "-c", version], cwd=place, check=True)
        files = [str(path) for pattern in TESTS for path in sorted(Path(place).glob(pattern))]
        return subprocess.run(
            [python, "-m", "pytest", "-q", "-n", "2", *files], cwd=place, check=False
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
