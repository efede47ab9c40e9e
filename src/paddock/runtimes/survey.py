"""What runtimes a machine has: for each recipe the toolchain and its version, or what is missing."""

import asyncio
import os
import re
from dataclasses import dataclass

from paddock.confine.process import Sandbox
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.runtimes.recipe import recipes
from paddock.runtimes.steps import Job, Step
from paddock.runtimes.toolchain import Missing, Search, Toolchain, find

_LIMITS = ProcessLimits(wall_ms=60_000)


@dataclass(frozen=True, slots=True)
class Found:
    """A toolchain and what it says of itself."""

    toolchain: Toolchain
    version: str
    """Empty when it does not say."""


async def survey(sandbox: Sandbox, search: Search, names: tuple[str, ...] = ()) -> list[Found | Missing]:
    """Return what there is of each recipe, or of those named, in their order.

    Toolchains are asked for their version where programs run: in the sandbox, a few at a time.
    """
    turns = asyncio.Semaphore(os.cpu_count() or 1)

    async def look(name: str) -> Found | Missing:
        async with turns:
            found = await asyncio.to_thread(find, recipes()[name], search)
            return found if isinstance(found, Missing) else Found(found, await version(sandbox, found))

    return list(await asyncio.gather(*map(look, names or recipes())))


async def version(sandbox: Sandbox, toolchain: Toolchain) -> str:
    """Return the version that a toolchain tells; empty when it tells none."""
    asked = toolchain.way.version
    step = Step(words=asked.argv, variables=toolchain.environment, known=toolchain.places)
    grants = ProcessGrants(readable=toolchain.prefixes)
    place = await sandbox.place(grants, _LIMITS)
    try:
        scratch = str(place.scratch)
        job = Job(f"{scratch}/code", f"{scratch}/program", scratch, _LIMITS.memory_bytes)
        command, environment = step.filled_in(job)
        ended = await sandbox.run(command, grants.but(environment=environment), _LIMITS, place=place)
    finally:
        place.release()
    said = getattr(ended, asked.stream).head if ended.status is Status.OK else ""
    match = re.search(asked.pattern, said, re.MULTILINE)
    return next(filter(None, match.groups()), "") if match else ""
