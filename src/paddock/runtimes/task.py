"""The interface between the engine of programs and the gate: a task and the sinks of its output."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.model.process import ProcessGrants
from paddock.model.program import ProgramTerms
from paddock.model.request import RuntimeRun

if TYPE_CHECKING:
    from paddock.runtimes.toolchain import Toolchain

Sink = Callable[[bytes], None]
"""Receives every byte of a stream in chunks, in order, and an empty chunk at the end. Must not block and not raise."""


class ProgramTask(NamedTuple):
    """One program with the limits and grants that policy decided."""

    work: RuntimeRun
    terms: ProgramTerms
    workspace: Path
    cwd: Path
    """Working directory, inside the workspace, without links."""

    @property
    def first_grants(self) -> ProcessGrants:
        """Grants of the first step, which decide its user: a compiler sees only the program."""
        from paddock.runtimes.recipe import recipes  # JavaScript programs do not need it

        compiles = any(way.compile for way in recipes()[self.work.runtime].ways)
        return ProcessGrants() if compiles else self.grants()

    def grants(self, toolchain: "Toolchain | None" = None) -> ProcessGrants:
        """Return the grants of the program, with its toolchain."""
        given = self.terms.grants
        inside = given.access != "none"
        return ProcessGrants(
            workspace=self.workspace if inside else None,
            access=given.access,
            cwd=self.cwd if inside else None,
            network=given.network,
            readable=toolchain.prefixes if toolchain else (),
            still=toolchain.still if toolchain and given.access == "workspace-write" else (),
        )


class Sinks(NamedTuple):
    """The sinks of the output of the program, or of a compiler that fails."""

    stdout: Sink
    stderr: Sink
