"""What a program in a language runtime costs: its source, never seen before, to its output; then out of the cache.

Each language that this machine has runs its own greeting, next to the same toolchain run bare, in turns. What comes
out of the cache runs next to the ready program in the same sandbox.
"""

import asyncio
import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Self, TypeVar

from platformdirs import user_state_path

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds, ratio, uncertainty
from paddock.engines.programs.recipe import recipes
from paddock.engines.programs.steps import ProgramStep, StepPaths, StepRunner, hello, steps
from paddock.engines.programs.toolchain import Toolchain, ToolchainSearch, find
from paddock.gate.open_paddock import open_paddock
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Status
from paddock.model.process import GIB, ProcessGrants, ProcessResult
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.recipes import Recipe
from paddock.policy.settings.schema import ArtifactSettings, AuditSettings, RuntimeSettings, Settings

TITLE = "Programs in language runtimes, against the bare toolchain"

_HASH = {"python", "shell", "ruby", "perl", "r", "elixir", "powershell"}
"""Languages whose comments start with a number sign; those of the others start with two slashes."""
_LONGEST_MS = 120_000
_SURE_MS = 2.0
"""Standard error of what an interpreter takes more than bare."""
_SURE = 0.02
"""Standard error of the ratio of what comes out of the cache to the ready program."""
_MOST_TIMES = 4
"""So many times as many rounds are added at most, until a figure is known so well."""
_WARM_MS = {"kotlin": 1500}
"""What a program may take at most whose compiler has been warmed."""
_COMPUTATION = """
#include <stdio.h>
int main(void) {
    volatile unsigned number = 1;
    for (int i = 0; i < 40000000; i++) number = number * 1664525u + 1013904223u;
    printf("%u\\n", number);
}
"""
"""A program in C that takes some fifty milliseconds."""
_numbers = itertools.count(os.getpid() * 1_000_000)

T = TypeVar("T")


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    with _Paddock() as paddock:
        for name, recipe in recipes().items():
            toolchain = find(recipe, ToolchainSearch.of_machine(os.environ, paddock.user(recipe)))
            if isinstance(toolchain, Toolchain):
                lines += _language(name, toolchain, paddock, scale.of(16, 1))
                if name == "c":
                    lines.append(_computation(toolchain, paddock, scale.of(16, 1)))
    return lines


def _language(name: str, toolchain: Toolchain, paddock: "_Paddock", rounds: int) -> Iterator[Line]:
    code, mark = hello(toolchain), "#" if name in _HASH else "//"

    def fresh() -> str:
        return f"{code}\n{mark} {next(_numbers)}\n"

    cold = milliseconds(lambda: paddock.run(name, fresh()))
    with tempfile.TemporaryDirectory() as folder:
        bare = _Bare(toolchain, Path(folder))
        contenders = {
            "bare": lambda: milliseconds(lambda: bare.whole(fresh())),
            "fresh": lambda: milliseconds(lambda: paddock.run(name, fresh())),
        }
        if toolchain.variant.compile:
            ready = Path(folder, "ready")
            bare.make(code, ready)
            paddock.run(name, code)
            contenders["known"] = lambda: milliseconds(lambda: paddock.run(name, code))
            contenders["ready"] = lambda: milliseconds(lambda: paddock.run_ready(toolchain, code, ready))
        figures = interleaved(contenders, rounds)
        if not toolchain.variant.compile:
            _make_sure(figures, contenders, rounds, lambda: uncertainty(_more(figures)) <= _SURE_MS)
        else:
            _make_sure(figures, contenders, rounds, lambda: uncertainty(_ratios(figures)) <= _SURE)
    spent = {who: median(values) for who, values in figures.items()}
    note = f"{spent['fresh']:.0f} ms, bare {spent['bare']:.0f} ms, the first {cold:.0f} ms"
    if not toolchain.variant.compile:
        more = _more(figures)
        quarter = len(more) // 4
        note += f", half of {len(more)} rounds {more[quarter]:.0f} to {more[-1 - quarter]:.0f} ms more"
        yield Line(f"{name}, more than bare", median(more), "ms", at_most(12), note=note)
        return
    yield Line(
        f"{name}, compiled and run, against bare", ratio(figures["fresh"], figures["bare"]), "x", note=note
    )
    if name in _WARM_MS:
        yield Line(f"{name}, compiled and run", spent["fresh"], "ms", at_most(_WARM_MS[name]))
    taken = len(figures["known"])
    known = f"{spent['known']:.1f} ms, ready {spent['ready']:.1f} ms, {taken} rounds"
    yield Line(
        f"{name}, out of the cache, against the ready program confined",
        median(_ratios(figures)),
        "x",
        at_most(1.3),
        note=known,
    )


def _computation(toolchain: Toolchain, paddock: "_Paddock", rounds: int) -> Line:
    """Compare a program that has something to do with the ready program bare."""
    with tempfile.TemporaryDirectory() as folder:
        bare = _Bare(toolchain, Path(folder))
        planned, paths = bare.make(_COMPUTATION, Path(folder, "ready"))
        paddock.run("c", _COMPUTATION)
        contenders = {
            "known": lambda: milliseconds(lambda: paddock.run("c", _COMPUTATION)),
            "ready": lambda: milliseconds(lambda: _spawn(planned.run, paths)),
        }
        figures = interleaved(contenders, rounds)
        _make_sure(figures, contenders, rounds, lambda: uncertainty(_ratios(figures)) <= _SURE)
    spent = {who: median(values) for who, values in figures.items()}
    return Line(
        "c, a computation out of the cache, against the ready program bare",
        median(_ratios(figures)),
        "x",
        at_most(1.3),
        note=f"{spent['known']:.1f} ms, bare {spent['ready']:.1f} ms, {len(figures['known'])} rounds",
    )


def _make_sure(
    figures: dict[str, list[float]],
    contenders: Mapping[str, Callable[[], float]],
    rounds: int,
    is_sure: Callable[[], bool],
) -> None:
    """Add rounds while they scatter too much to tell, whatever they come to."""
    for _ in range(_MOST_TIMES if rounds > 1 else 0):
        if is_sure():
            return
        for who, values in interleaved(contenders, rounds).items():
            figures[who] += values


def _ratios(figures: Mapping[str, list[float]]) -> list[float]:
    """Return what came out of the cache as a multiple of the ready program, of each round."""
    return [known / ready for known, ready in zip(figures["known"], figures["ready"], strict=True)]


def _more(figures: Mapping[str, list[float]]) -> list[float]:
    """Return what Paddock took more than the bare toolchain, of each round, in order of size."""
    return sorted(ours - bare for ours, bare in zip(figures["fresh"], figures["bare"], strict=True))


class _Bare:
    """The commands of a toolchain without Paddock, in a directory."""

    def __init__(self, toolchain: Toolchain, folder: Path) -> None:
        self._toolchain = toolchain
        self._folder = folder

    def make(self, code: str, scratch: Path) -> tuple[StepRunner, StepPaths]:
        """Write a program into a new directory, and compile it there."""
        planned = steps(self._toolchain, code)
        scratch.mkdir()
        for name, text in {planned.file_name: planned.source, **planned.files}.items():
            (scratch / name).write_text(text)
        paths = _make_paths(planned, scratch)
        if planned.compile is not None:
            _spawn(planned.compile, paths)
        return planned, paths

    def whole(self, code: str) -> None:
        """Write, compile and run a program."""
        planned, paths = self.make(code, self._folder / str(next(_numbers)))
        _spawn(planned.run, paths)


def _make_paths(planned: StepRunner, scratch: Path) -> StepPaths:
    return StepPaths(f"{scratch}/{planned.file_name}", f"{scratch}/{planned.output_name}", str(scratch), GIB)


def _spawn(step: ProgramStep, paths: StepPaths) -> None:
    basic = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(paths.scratch)}
    command, environment = step.fill_in(paths)
    subprocess.run(
        command,
        env=basic | environment,
        cwd=paths.scratch,
        capture_output=True,
        check=True,
    )


class _Paddock:
    """A session: programs through its gate, and commands in its sandbox alone."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            # Records and output are kept where a user's are, not where programs make and remove their files.
            states = user_state_path("paddock-bench", ensure_exists=True)
            state = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=states)))
            self._runner = stack.enter_context(asyncio.Runner())
            place.chmod(0o755)  # programs of root may have another user
            (place / "workspace").mkdir()
            self._workspace = place / "workspace"
            settings = Settings(
                audit=AuditSettings(directory=state / "audit"),
                artifacts=ArtifactSettings(directory=state / "artifacts"),
                runtimes=RuntimeSettings(timeout_ms=_LONGEST_MS),
            )
            context = open_paddock(settings, self._workspace)
            self._session = self._runner.run(context.__aenter__())
            stack.callback(lambda: self._runner.run(context.__aexit__(None, None, None)))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def user(self, recipe: Recipe) -> int | None:
        """Return the user for whom Paddock looks, so that both use the same toolchain: compilers see no workspace."""
        compiles = any(variant.compile for variant in recipe.variants)
        sandbox = self._until(self._session.processes.open_sandbox())
        return sandbox.user(ProcessGrants(access="none" if compiles else "read-only"))

    def run(self, runtime: str, code: str) -> None:
        """Run a program of a runtime through the gate."""
        work = RuntimeRun.model_validate({"runtime": runtime, "code": code})
        limits = LimitOverrides(timeout_ms=_LONGEST_MS)
        request = ExecutionRequest(workspace=self._workspace, work=work, limits=limits)
        outcome = self._until(self._session.gate.execute(request))
        if not outcome.ok:
            raise RuntimeError(f"{runtime}: {outcome.error}")

    def run_ready(self, toolchain: Toolchain, code: str, ready: Path) -> None:
        """Run what was compiled into a directory, confined as the gate confines it."""
        planned = steps(toolchain, code)
        command, environment = planned.run.fill_in(_make_paths(planned, ready))
        grants = ProcessGrants(
            workspace=self._workspace,
            access="read-only",
            readable=(*toolchain.prefixes, ready),
            environment=environment,
        )
        result = self._until(self._confined(command, grants))
        if result.status is not Status.OK:
            raise RuntimeError(f"{toolchain.recipe.name}: {result.status}, {result.reason}")

    def _until(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what comes of it. A runner would handle signals anew each time, which takes half a millisecond."""
        return self._runner.get_loop().run_until_complete(work)

    async def _confined(self, command: list[str], grants: ProcessGrants) -> ProcessResult:
        sandbox = await self._session.processes.open_sandbox()
        return await sandbox.run(command, grants)
