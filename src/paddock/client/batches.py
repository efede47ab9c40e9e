"""Batches of programs: on this machine, or on a Ray cluster."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextlib import aclosing
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from paddock.batch.program import Program, ProgramResult
from paddock.batch.runner import Origin, Runner
from paddock.client.requests import Caller, RunningSession
from paddock.client.whole_numbers import read_whole_number
from paddock.model.errors import RequestError
from paddock.settings.schema import Settings

BatchEngine = Literal["local", "ray"]
"""What runs the programs of a batch."""
_ENGINES: tuple[BatchEngine, ...] = get_args(BatchEngine)


class Sender(NamedTuple):
    """An open Paddock that sends the programs of a batch."""

    running: RunningSession
    workspace: Path
    caller: Caller
    settings: Settings


async def map_programs(
    sender: Sender,
    programs: Iterable[Program] | AsyncIterable[Program],
    max_parallel: int | None,
    engine: BatchEngine,
) -> AsyncGenerator[ProgramResult]:
    """Yield the results of programs, as `Paddock.map` says."""
    if engine not in _ENGINES:
        raise RequestError(f"`engine` must be {' or '.join(map(repr, _ENGINES))}, not {engine!r:.60}")
    origin = Origin(sender.workspace, sender.caller.actor, sender.caller.surface)
    runner = Runner(sender.running.execute_request, origin, sender.settings.runtimes)
    parallel = read_whole_number("max_parallel", max_parallel)
    if engine == "local":
        results = runner.map(programs, parallel)
    else:
        from paddock.client.ray.mapping import map_on_ray

        results = map_on_ray(programs, sender.settings, origin, runner, parallel)
    async with aclosing(results):
        async for result in results:
            yield result
