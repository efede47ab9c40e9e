"""What a program in a language runtime costs: its source, never seen before, to its output; then out of the cache.

Each language that this machine has runs its own greeting, next to the same toolchain run bare, in turns.
"""

import asyncio
import itertools
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.measure import Line, Scale, at_most, interleaved, milliseconds, ratio
from paddock.model.limits import LimitOverrides
from paddock.model.process import GIB
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.settings import ArtifactSettings, AuditSettings, RuntimeSettings, Settings
from paddock.runtimes.recipe import recipes
from paddock.runtimes.steps import Job, Step, hello, steps
from paddock.runtimes.toolchain import Search, Toolchain, find
from paddock.wiring import open_session

TITLE = "Programs in language runtimes, against the bare toolchain"

_HASH = {"python", "shell", "ruby", "perl", "r", "elixir", "powershell"}
"""Languages whose comments start with a number sign; those of the others start with two slashes."""
_LONGEST_MS = 120_000
_numbers = itertools.count(os.getpid() * 1_000_000)


def measure(scale: Scale) -> list[Line]:
    lines: list[Line] = []
    search = Search(os.environ["PATH"], user=65534 if os.geteuid() == 0 else None)
    with _paddock() as run:
        for name, recipe in recipes().items():
            toolchain = find(recipe, search)
            if isinstance(toolchain, Toolchain):
                lines += _language(name, toolchain, run, scale.of(9, 1))
    return lines


def _language(
    name: str, toolchain: Toolchain, run: Callable[[str, str], None], rounds: int
) -> Iterator[Line]:
    code, mark = hello(toolchain), "#" if name in _HASH else "//"

    def fresh() -> str:
        return f"{code}\n{mark} {next(_numbers)}\n"

    cold = milliseconds(lambda: run(name, fresh()))
    with tempfile.TemporaryDirectory() as folder:
        bare = _Bare(toolchain, Path(folder))
        contenders = {
            "bare": lambda: milliseconds(lambda: bare.whole(fresh())),
            "fresh": lambda: milliseconds(lambda: run(name, fresh())),
            "known": lambda: milliseconds(lambda: run(name, code)),
            "ready": lambda: milliseconds(bare.ready),
        }
        run(name, code)
        bare.whole(code)
        figures = interleaved(contenders, rounds)
    spent = {who: median(values) for who, values in figures.items()}
    note = f"{spent['fresh']:.0f} ms, bare {spent['bare']:.0f} ms, the first {cold:.0f} ms"
    if not toolchain.way.compile:
        yield Line(f"{name}, more than bare", spent["fresh"] - spent["bare"], "ms", at_most(12), note=note)
        return
    yield Line(
        f"{name}, compiled and run, against bare", ratio(figures["fresh"], figures["bare"]), "x", note=note
    )
    known = f"{spent['known']:.0f} ms, bare {spent['ready']:.0f} ms"
    yield Line(
        f"{name}, out of the cache, against the ready program",
        ratio(figures["known"], figures["ready"]),
        "x",
        at_most(1.3),
        note=known,
    )


class _Bare:
    """The commands of a toolchain without Paddock, in a directory."""

    def __init__(self, toolchain: Toolchain, folder: Path) -> None:
        self._toolchain = toolchain
        self._folder = folder
        self._ready: Callable[[], None] = lambda: None

    def whole(self, code: str) -> None:
        """Write, compile and run a program."""
        plan = steps(self._toolchain, code)
        scratch = Path(tempfile.mkdtemp(dir=self._folder))
        for name, text in {plan.file_name: plan.source, **plan.files}.items():
            (scratch / name).write_text(text)
        job = Job(scratch / plan.file_name, scratch / plan.output_name, scratch, GIB)
        if plan.compile is not None:
            _spawn(plan.compile, job)
        _spawn(plan.run, job)
        self._ready = lambda: _spawn(plan.run, job)

    def ready(self) -> None:
        """Run the last program once more."""
        self._ready()


def _spawn(step: Step, job: Job) -> None:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(job.scratch)}
    subprocess.run(
        step.command(job),
        env=environment | step.environment(job),
        cwd=job.scratch,
        capture_output=True,
        check=True,
    )


@contextmanager
def _paddock() -> Iterator[Callable[[str, str], None]]:
    """Yield what runs a program of a runtime through a gate."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        place = Path(folder)
        (workspace := place / "workspace").mkdir()
        settings = Settings(
            audit=AuditSettings(directory=place / "audit"),
            artifacts=ArtifactSettings(directory=place / "artifacts"),
            runtimes=RuntimeSettings(max_duration_ms=_LONGEST_MS),
        )
        context = open_session(settings, workspace)
        session = runner.run(context.__aenter__())

        def run(runtime: str, code: str) -> None:
            work = RuntimeRun.model_validate({"runtime": runtime, "code": code})
            limits = LimitOverrides(wall_ms=_LONGEST_MS)
            request = ExecutionRequest(workspace=workspace, work=work, limits=limits)
            outcome = runner.run(session.gate.execute(request))
            if not outcome.ok:
                raise RuntimeError(f"{runtime}: {outcome.error}")

        try:
            yield run
        finally:
            runner.run(context.__aexit__(None, None, None))
