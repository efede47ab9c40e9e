"""The runtimes of a machine: for each recipe the toolchain and its version, or what is missing."""

import asyncio
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass

from paddock.confinement.sandbox.protocol import Sandbox
from paddock.engines.programs.steps import ProgramStep, StepPaths
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
from paddock.engines.programs.toolchain_cache import Toolchains
from paddock.model.outcome import Status
from paddock.model.process import ProcessLimits

_LIMITS = ProcessLimits(timeout_ms=60_000)


@dataclass(frozen=True, slots=True)
class InstalledToolchain:
    """A toolchain and its version."""

    toolchain: Toolchain
    version: str
    """Empty if the toolchain does not print it."""


async def survey(
    sandbox: Sandbox, toolchains: Toolchains, tasks: Sequence[ProgramTask]
) -> list[InstalledToolchain | MissingToolchain]:
    """Return the toolchain of each program, in their order.

    Toolchains print their version in the sandbox, where programs run; a few run at a time.
    """
    turns = asyncio.Semaphore(os.cpu_count() or 1)

    async def look(task: ProgramTask) -> InstalledToolchain | MissingToolchain:
        async with turns:
            found = await toolchains.for_task(task, sandbox)
            return (
                found
                if isinstance(found, MissingToolchain)
                else InstalledToolchain(found, await version(sandbox, task, found))
            )

    return list(await asyncio.gather(*map(look, tasks)))


async def version(sandbox: Sandbox, program: ProgramTask, toolchain: Toolchain) -> str:
    """Return the version that the toolchain of a program prints; "" if it prints none."""
    asked = toolchain.variant.version
    step = ProgramStep(words=asked.argv, variables=toolchain.environment, known=toolchain.placeholders)
    grants = program.first_grants.replace(readable=toolchain.prefixes)
    slot = await sandbox.take_slot(grants, _LIMITS)
    try:
        scratch = str(slot.scratch)
        task = StepPaths(f"{scratch}/code", f"{scratch}/program", scratch, _LIMITS.memory_bytes)
        command, environment = step.fill_in(task)
        ended = await sandbox.run(command, grants.replace(environment=environment), _LIMITS, slot=slot)
    finally:
        slot.release()
    printed = getattr(ended, asked.stream).head if ended.status is Status.OK else ""
    match = re.search(asked.pattern, printed, re.MULTILINE)
    return next(filter(None, match.groups()), "") if match else ""
