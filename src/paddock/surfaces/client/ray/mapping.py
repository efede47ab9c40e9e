"""`Paddock.map` on Ray: checks the programs, and yields the results of the driver."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing

from paddock.gate.batch.program import Program, ProgramResult
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.ray.driver import RayDriver
from paddock.surfaces.client.ray.feed import Feed
from paddock.surfaces.client.ray.frames import Terms
from paddock.surfaces.client.ray.nodes import load_ray
from paddock.surfaces.client.ray.purity import Purity


async def map_on_ray(
    programs: Iterable[Program] | AsyncIterable[Program],
    settings: Settings,
    origin: BatchOrigin,
    runner: BatchRunner,
    max_parallel: int | None,
) -> AsyncGenerator[ProgramResult]:
    """Yield results as the tasks of their programs end; `runner` refuses what policy does not allow.

    Raises PaddockError without a cluster, and RequestError for a program that may have effects: of a list before
    anything starts.
    """
    purity = Purity(settings, origin)

    def check(program: Program) -> bool:
        return purity.require_pure(program) and program.language in settings.runtimes.languages

    ray = load_ray()
    if isinstance(programs, Sequence):
        for program in programs:
            check(program)
    terms = Terms(
        workspace=str(origin.workspace),
        actor=origin.actor,
        timeout_ms=settings.runtimes.timeout_ms,
        memory_bytes=settings.runtimes.memory_bytes,
    )
    driver = RayDriver(ray, terms, runner.run, max_parallel)
    async with aclosing(driver.run(Feed(programs, check))) as results:
        async for result in results:
            yield result
