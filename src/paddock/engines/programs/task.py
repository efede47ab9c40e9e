"""The interface between the engine of programs and the gate: a task with its limits, and the sinks of its output."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.confinement.sandbox.protocol import ByteSink, HostProxy, OnProxySocket, OnStart, OpenHosts
from paddock.model.errors import EngineError
from paddock.model.limits import KIB, MIB
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.program import ProgramLimits, ProgramTerms
from paddock.model.request import RuntimeRun

if TYPE_CHECKING:
    from paddock.engines.changes.opening import OverlayRun
    from paddock.engines.programs.toolchain import Toolchain
    from paddock.model.network import HostGrant
    from paddock.policy.settings.recipes import Recipe
    from paddock.record.output.work_files import LeftFile

PROCESSORS = os.cpu_count() or 1

_OUTPUT_END_BYTES = 8 * KIB
"""Size of the output's head and tail that are searched for the reason of a failure. The sinks keep all output."""
_COMPILER_BYTES = 8 * MIB
"""Maximum output of a compiler on each stream, in bytes. It is reported if the compiler fails."""


def compute_cpu_ms(limits: ProgramLimits, timeout_ms: int) -> int:
    """Return the CPU time that a program may use in so much wall time, which is the limit unless one is given."""
    whole = timeout_ms * PROCESSORS + 1000
    return whole if limits.cpu_ms is None else min(limits.cpu_ms, whole)


def _refuse_hosts(_: "HostGrant") -> HostProxy:
    raise EngineError("nothing serves the connections of an installation here")


class ProgramTask(NamedTuple):
    """One program with the limits and grants that policy decided."""

    work: RuntimeRun
    terms: ProgramTerms
    workspace: Path
    cwd: Path
    """Working directory, inside the workspace, without links."""
    recipe: "Recipe"
    """The language of the program."""
    actor: str = "local"
    """Who asked for it."""
    hosts: HostProxy | None = None
    """What serves its proxy, with the network `hosts`."""
    open_hosts: OpenHosts = _refuse_hosts
    """Makes what serves the connections of an installation of its packages."""
    live: bool = False
    """Whether its output leaves it line by line, and not when the language's buffer is full."""

    @property
    def serve_proxy(self) -> OnProxySocket | None:
        """What receives the socket of its proxy; None without hosts."""
        return None if self.hosts is None else self.hosts.serve

    @property
    def is_repeatable(self) -> bool:
        """Whether it changes nothing outside of its own sandbox, so that it may run again after it was killed."""
        grants = self.terms.grants
        alone = not grants.writes_files and grants.network in {"none", "loopback"}
        return alone and self.work.session is None

    @property
    def first_grants(self) -> ProcessGrants:
        """The grants of the first step, which determine its user: a compiler sees only the program."""
        compiles = any(variant.compile for variant in self.recipe.variants)
        return ProcessGrants() if compiles else self.grants()

    def grants(self, toolchain: "Toolchain | None" = None) -> ProcessGrants:
        """Return the grants of the program, with its toolchain."""
        given = self.terms.grants
        inside = given.access != "none"
        beside = given.directories
        written = tuple(each.path for each in beside if each.access == "workspace-write")
        overlaid = tuple(each.path for each in beside if each.access == "overlay")
        read = tuple(each.path for each in beside if each.access == "read-only" and each.path not in overlaid)
        return ProcessGrants(
            workspace=self.workspace if inside else None,
            access=given.access,
            cwd=self.cwd if inside else None,
            network=given.network,
            readable=(*(toolchain.prefixes if toolchain else ()), *read),
            writable=written,
            overlaid=overlaid,
            searched=(*read, *written, *overlaid),
            still=toolchain.still if toolchain and given.writes_files else (),
        )

    def limit_run(self, timeout_ms: int) -> ProcessLimits:
        """Return the limits of the program's process if it has `timeout_ms` left."""
        limits = self.terms.limits
        usual = ProcessLimits(
            timeout_ms=timeout_ms,
            cpu_ms=compute_cpu_ms(limits, timeout_ms),
            memory_bytes=limits.memory_bytes,
            stack_bytes=limits.stack_bytes,
            kept_bytes=_OUTPUT_END_BYTES,
        )
        if limits.output_bytes is None:
            return usual
        # `stdout_bytes` of a process ends it; `stdout_bytes` of a program's limits is what its answer keeps.
        stdout, stderr = (min(limits.output_bytes, most) for most in (usual.stdout_bytes, usual.stderr_bytes))
        return usual.replace(stdout_bytes=stdout, stderr_bytes=stderr)

    def limit_compiler(self) -> ProcessLimits:
        """Return the limits of a compile step: its own, or those of its program."""
        limits = self.terms.limits
        timeout_ms = limits.compile_timeout_ms or limits.timeout_ms
        cpu_ms = compute_cpu_ms(limits if limits.compile_timeout_ms is None else ProgramLimits(), timeout_ms)
        return ProcessLimits(
            timeout_ms=timeout_ms,
            cpu_ms=cpu_ms,
            memory_bytes=limits.compile_memory_bytes or limits.memory_bytes,
            stdout_bytes=_COMPILER_BYTES,
            stderr_bytes=_COMPILER_BYTES,
            kept_bytes=_OUTPUT_END_BYTES,
        )


class Sinks(NamedTuple):
    """The sinks of the output of the program, or of a compiler that fails; and the files it left."""

    stdout: ByteSink
    stderr: ByteSink
    files: "Callable[[Iterator[LeftFile], Mapping[str, str]], None] | None" = None
    """Reads the working directory of a program that has ended, in a thread, with the SHA-256 (hex) of the files that
    were there before."""
    shown: ByteSink | None = None
    """Receives the frames of the values that a program without a session showed, if it showed any."""
    workdir: Callable[[Path], None] | None = None
    """Receives the path of that directory, in a thread, as the program left it."""
    overlay: "OverlayRun | None" = None
    """Keeps the changes of a program with the access `overlay`."""
    on_start: OnStart | None = None
    """Receives what measures its processes, once they have started."""
