"""The installed command as a process, started in one way wherever a test runs it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

PADDOCK = str(Path(sys.executable).with_name("paddock"))
OWN_PLACES = ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Variables that say where Paddock keeps what is a person's own."""
PATIENT = ("--set", "runtimes.timeout_ms=120000")
"""Time for programs that are to end by themselves, however busy the machine is."""
CONTAINED = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
"""Starts a command in a PID namespace of its own."""
if os.geteuid() != 0:
    CONTAINED.append("--map-root-user")
ANY_LOAD = {"PYTHONPATH": str(Path(__file__).with_name("any_load"))}
"""Environment of an executed process whose verdict on a program that ran out of time does not depend on load."""
HANGS_S = 600
"""A command that takes longer hangs. No test measures time with it."""


class Ended(NamedTuple):
    """Exit code, standard output and standard error of a command."""

    returncode: int
    stdout: str
    stderr: str


def run_command(
    cwd: Path | None,
    *words: str | Path,
    stdin: str | bytes | int | IO[str] = "",
    environment: Mapping[str, str] | None = None,
    **options: object,
) -> Ended:
    """Run a command in a directory until it ends. `stdin` is a text or a file; options are those of `subprocess.run`."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    source = {"input" if isinstance(given, bytes) else "stdin": given}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(
        words, cwd=cwd, env=environment, check=False, timeout=HANGS_S, **{**source, **streams, **options}
    )
    return Ended(done.returncode, (done.stdout or b"").decode(), (done.stderr or b"").decode())


def run_paddock(cwd: Path | None, *arguments: str | Path, **options: object) -> Ended:
    """Run Paddock in a directory until it ends. Options are those of `run_command`."""
    return run_command(cwd, PADDOCK, *arguments, **options)


def make_environment(home: Path, **more: str) -> dict[str, str]:
    """Return the environment of a person with this home, who has set nothing else."""
    return {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **more}
