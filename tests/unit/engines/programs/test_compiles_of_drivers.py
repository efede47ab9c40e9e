"""The driver of sessions is compiled again until its compiler has failed twice; one that was stopped did not fail."""

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from paddock.engines.programs.cache import Cache
from paddock.engines.programs.engine import RuntimeEngine
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.running_task import Compiled, RunningTask
from paddock.engines.programs.steps import steps
from paddock.engines.programs.task import Sinks
from paddock.engines.programs.toolchain import Toolchain, ToolchainSearch, find
from paddock.model.outcome import RawResult, Status
from paddock.model.process import ProcessGrants


class Engine(RuntimeEngine):
    """Compiles nothing: each compile step has the same end."""

    end: "Compiled | RawResult"
    compiles = 0

    async def _provide_files(self, *_: Any) -> "Compiled | RawResult":
        self.compiles += 1
        return self.end


@pytest.mark.parametrize(
    ("end", "compiles"),
    [
        (Compiled(cached=True), 5),
        (Compiled(), 2),
        (RawResult(status=Status.FAILED), 2),
        (RawResult(status=Status.MEMORY_LIMIT), 2),
        (RawResult(status=Status.CANCELLED), 5),
        (RawResult(status=Status.TIMEOUT), 5),
    ],
)
def test_compilers_that_failed_twice_are_not_started_again(
    tmp_path: Path, end: "Compiled | RawResult", compiles: int
) -> None:
    toolchain = find(recipes()["python"], ToolchainSearch(os.environ["PATH"]))
    assert isinstance(toolchain, Toolchain)
    task: Any = SimpleNamespace(grants=lambda _: ProcessGrants())
    sandbox: Any = None
    sinks = Sinks(lambda _: None, lambda _: None)
    running = RunningTask(task, sandbox, toolchain, steps(toolchain, "1"), None, sinks, None, {})
    engine = Engine(sandbox, {}, Cache(tmp_path, 0))
    engine.end = end
    for _ in range(5):
        asyncio.run(engine._provide_driver(running, ["{executable}", "{source}"], sandbox))
    assert engine.compiles == compiles
