"""Toolchains for real programs, and a place to run them in."""

import asyncio
import os
import tempfile
from pathlib import Path

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox, Streams
from paddock.engines.programs import directories
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.steps import StepPaths, steps
from paddock.engines.programs.toolchain import Toolchain, ToolchainSearch, find
from paddock.model.outcome import SandboxFacts
from paddock.model.process import GIB, ProcessGrants, ProcessLimits

NOBODY = 65534
JOB_USER = NOBODY if os.geteuid() == 0 else None
LIMITS = ProcessLimits(timeout_ms=300_000, cpu_ms=300_000)
"""Generous: how long it takes is the machine's affair."""


class Ended:
    """What became of a program: the step that ended it, its exit, its text."""

    def __init__(self, phase, result):
        self.phase = phase
        self.status, self.exit_code, self.signal = result.status, result.exit_code, result.signal
        self.stdout, self.stderr = result.stdout.head, result.stderr.head


class Bench:
    """Runs programs by their recipes, one directory each, without engine and gate."""

    def __init__(self, path):
        self.search = ToolchainSearch(path, JOB_USER, warm=directories.warm(JOB_USER))

    def toolchain(self, name, executable=""):
        found = find(recipes()[name], self.search, executable=executable)
        assert isinstance(found, Toolchain), found
        return found

    def run(self, tier, toolchain, code, *, arguments=(), stdin=b""):
        """Run a program in a tier as the user that programs run as."""
        return asyncio.run(self._run(tier, toolchain, steps(toolchain, code, arguments), stdin))

    async def _run(self, tier, toolchain, plan, stdin):
        async with KernelSandbox(SandboxFacts(tier=tier), tier, job_user=JOB_USER) as sandbox:
            with tempfile.TemporaryDirectory(prefix="program-") as folder:
                scratch = Path(folder)
                for name, text in plan.written.items():
                    (scratch / name).write_text(text)
                (scratch / "tmp").mkdir()
                for path in (scratch, scratch / "tmp"):
                    path.chmod(0o755)
                    os.chown(path, *(JOB_USER or -1,) * 2)
                job = StepPaths(
                    f"{scratch}/{plan.file_name}", f"{scratch}/{plan.output_name}", str(scratch), GIB
                )
                for phase, step, given in (("compile", plan.compile, b""), ("run", plan.run, stdin)):
                    if step is None:
                        continue
                    command, environment = step.fill_in(job)
                    grants = ProcessGrants(
                        readable=toolchain.prefixes, writable=(scratch,), environment=environment
                    )
                    result = await sandbox.run(command, grants, LIMITS, Streams(stdin=given))
                    if phase == "run" or result.status != "ok":
                        return Ended(phase, result)
        raise AssertionError("a recipe without a run step")


@pytest.fixture(scope="session")
def bench(toolchain_path):
    """Every toolchain, and a place for their programs."""
    return Bench(toolchain_path)
