"""What the engine of programs is given: the seam between engine and gate."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from paddock.model.program import ProgramTerms
from paddock.model.request import RuntimeRun

Sink = Callable[[bytes], None]
"""Takes every byte of a stream, in order, in pieces, and in the end an empty one. Must not block and must not raise."""


class ProgramJob(NamedTuple):
    """One program with the limits and grants that policy decided."""

    work: RuntimeRun
    terms: ProgramTerms
    workspace: Path
    cwd: Path
    """Working directory, inside the workspace, without links."""


class Sinks(NamedTuple):
    """Who takes the output as it comes: of the program, or of its compiler when that fails."""

    stdout: Sink
    stderr: Sink
