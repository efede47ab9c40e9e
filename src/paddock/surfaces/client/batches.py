"""Batches of programs: on this machine, or on a Ray cluster."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from paddock.gate.batch.program import Program, ProgramResult
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.model.errors import RequestError
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.arguments import A_PROGRAM, check_programs, check_type, read_whole_number
from paddock.surfaces.client.requests import LibraryCaller, RunningPaddock

BatchEngine = Literal["local", "ray"]
"""What runs the programs of a batch."""
_ENGINES: tuple[BatchEngine, ...] = get_args(BatchEngine)


class Sender(NamedTuple):
    """An open Paddock that sends the programs of a batch."""

    running: RunningPaddock
    workspace: Path
    caller: LibraryCaller
    settings: Settings


async def map_programs(
    sender: Sender,
    programs: Iterable[Program] | AsyncIterable[Program],
    max_parallel: int | None,
    engine: BatchEngine,
) -> AsyncGenerator[ProgramResult]:
    """Yield the results of programs, as `Paddock.map` says."""
    check_programs(programs)
    if not isinstance(engine, str) or engine not in _ENGINES:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise RequestError(f"`engine` must be {' or '.join(map(repr, _ENGINES))}, not {engine!r:.60}")
    origin = BatchOrigin(sender.workspace, sender.caller.actor, sender.caller.surface)
    runner = BatchRunner(sender.running.execute_request, origin, sender.settings.runtimes)
    parallel = read_whole_number("max_parallel", max_parallel)
    if isinstance(programs, AsyncIterable):
        checked = _check_each(programs)
    elif isinstance(programs, Sequence):  # a mistake is found before the first program runs
        checked = [*map(_check_program, programs)]
    else:
        checked = map(_check_program, programs)
    if engine == "local":
        results = runner.map(checked, parallel)
    else:
        from paddock.surfaces.client.ray.driver import map_on_ray

        results = map_on_ray(checked, sender.settings, origin, runner, parallel)
    async with aclosing(results):
        async for result in results:
            yield result


def _check_program(program: Program) -> Program:
    """Return a program. Raises RequestError for anything else, such as its text alone."""
    check_type(program, Program, "each of programs", A_PROGRAM)
    return program


async def _check_each(programs: AsyncIterable[Program]) -> AsyncGenerator[Program]:
    async for program in programs:
        yield _check_program(program)
