"""Drivers of the sandbox in a pid namespace of their own, in places emulated as places.py describes."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

import paddock

HERE = Path(__file__).parent
UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "--ipc")
LATER = ("sh", "-c", 'for i in $(seq 300); do (:); done; "$@"; exit $?', "sh")
"""The number of Paddock's process is not to be one that processes in a jail have."""


@pytest.fixture(scope="session")
def drive(as_root):
    """Run a script of this folder as `drive(script, *arguments)`; return the JSON that it prints.

    The package is copied to where every user can read it, for the tests may stand in a private home.
    """
    with copied() as folder:
        yield partial(run, folder)


@pytest.fixture
def drive_with_late_look(as_root):
    """Drive as `drive` does, with wardens that look at their job for the first time after a second."""
    with copied() as folder:
        warden = folder / "paddock/confinement/sandbox/child/supervisor.py"
        text, late = re.subn(
            r"^(_FIRST_POLL_S, .* = )[\d.]+,", r"\g<1>1.0,", warden.read_text(), flags=re.MULTILINE
        )
        assert late == 1
        warden.write_text(text)
        yield partial(run, folder)


@contextmanager
def copied() -> Iterator[Path]:
    """Give a folder with a copy of the package."""
    if shutil.which("bwrap") is None:
        pytest.fail("the tier `namespaces` is tested too, and bubblewrap is missing: apt install bubblewrap")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copytree(
            Path(paddock.__file__).parent, Path(folder, "paddock"), ignore=shutil.ignore_patterns("vendor")
        )
        yield Path(folder)


def run(folder: Path, script: str, *arguments: str) -> dict:
    done = subprocess.run(
        [*UNSHARE, *LATER, sys.executable, HERE / script, *arguments],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{folder}:{HERE}"},
        capture_output=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return json.loads(done.stdout)
