"""`paddock script test`: recorded runs as tests of saved scripts, files in `.paddock/tests` of the workspace.

A file is a recording without the program, as JSON that people can review. Anyone may have written it: it decides only
what a script gets that calls nothing.
"""

import asyncio
import errno
from pathlib import Path
from typing import NamedTuple

import click

from paddock.engines.saved_scripts import find, read
from paddock.foundation.files import read_bounded, write_below
from paddock.model.base import Json
from paddock.model.errors import PaddockError, RecordingError, ScriptNotFound
from paddock.model.request import ExecutionRequest, ReplayRun
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.record.payloads.recorded_run import RecordedRun, read_run, write_run
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.replay import render_report
from paddock.surfaces.cli.table import print_json, print_output

_FOLDER = Path(".paddock") / "tests"
_SUFFIX = ".json"
_ID_CHARS = 6


class _Verdict(NamedTuple):
    """The result of one test."""

    name: str
    report: Json
    """The report of the replay; None if it could not run."""
    error: str = ""

    @property
    def is_passed(self) -> bool:
        return self.report is not None and self.report["same"]

    def to_json(self) -> "dict[str, Json]":
        found = {} if self.report is None else {"difference": self.report["difference"]}
        error = {"error": self.error} if self.error else {}
        return {"test": self.name, "passed": self.is_passed, **found, **error}


@click.command(
    "test",
    epilog=render_examples(
        "paddock script test",
        "paddock script test report --json",
        "paddock script test report --from 01JD3W0ZV6N4YQ1R2X5T7B8C9D",
    ),
)
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--from", "run", metavar="RUN", help="Make a test of the script NAME from this recorded run.")
@click.option("--actor", default="", help="With --from: whose run it was, if not yours.")
@options.workspace
@options.settings
@options.as_json
def command(
    names: tuple[str, ...],
    run: str | None,
    actor: str,
    *,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Run the tests of saved scripts, files in .paddock/tests. A test is a recorded run that must stay the same.

    NAME is a script or a test; without one, all tests run. With --from, a test is made and not run: review its file
    before you commit it. Exit code: 0 if all tests passed, 1 otherwise.
    """
    settings = load(workspace, flags=flags).settings
    if run is not None:
        if len(names) != 1:
            raise click.UsageError("--from makes a test of one script: give its NAME.")
        path = asyncio.run(_make_test(names[0], run, actor, workspace, settings))
        if as_json:
            print_json({"test": path.stem, "path": str(path)})
        else:
            click.echo(path)
        return
    files = _list_tests(names, workspace)
    verdicts = asyncio.run(_run_tests(files, workspace, settings))
    if as_json:
        print_json([verdict.to_json() for verdict in verdicts])
    else:
        print_output("\n".join(_render(verdict) for verdict in verdicts))
    click.get_current_context().exit(0 if all(verdict.is_passed for verdict in verdicts) else 1)


def _list_tests(names: tuple[str, ...], workspace: Path) -> list[Path]:
    """Return the files of the tests, or of those with these names. Raises CommandFailure without any."""
    folder = workspace / _FOLDER
    files = sorted(folder.glob(f"*{_SUFFIX}"))
    wanted = [
        file
        for file in files
        if not names or any(file.stem == name or file.stem.rpartition("-")[0] == name for name in names)
    ]
    if not wanted:
        what = f" of {', '.join(names)}" if names else ""
        raise CommandFailure(
            f"there are no tests{what} in {folder}; make one: paddock script test NAME --from RUN"
        )
    return wanted


async def _run_tests(files: list[Path], workspace: Path, settings: Settings) -> list[_Verdict]:
    verdicts: list[_Verdict] = []
    async with open_for_command(settings, workspace) as opened:
        for file in files:
            try:
                request = _read_test(file, workspace, settings)
                outcome = await opened.gate.execute(request)
            except PaddockError as problem:
                verdicts.append(_Verdict(file.stem, None, str(problem)))
                continue
            error = outcome.error
            verdicts.append(
                _Verdict(file.stem, outcome.value, "" if error is None else f"{error.name}: {error.message}")
            )
    return verdicts


def _read_test(file: Path, workspace: Path, settings: Settings) -> ExecutionRequest:
    """Return the request of a test. Raises RecordingError and ScriptNotFound."""
    try:
        text = read_bounded(file, settings.record.payload_bytes, within=workspace.resolve()).decode(
            "utf-8", "surrogatepass"
        )
    except OSError as problem:
        why = "it leads out of the workspace" if problem.errno == errno.EXDEV else problem.strerror
        raise RecordingError(f"{file}: cannot be read: {why}") from None
    except UnicodeDecodeError:
        raise RecordingError(f"{file}: is not UTF-8") from None
    name = read_run(text).program.name
    script = read(name, workspace, named=True)
    return ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        work=ReplayRun(recording=text, source=script.source, language=script.language),
    )


async def _make_test(name: str, run: str, actor: str, workspace: Path, settings: Settings) -> Path:
    """Write the test of a script from a recorded run, and return its path."""
    try:
        script = find(name, workspace)
    except ScriptNotFound as problem:
        raise CommandFailure(str(problem)) from None
    work = ReplayRun(run=run, owner=actor)
    request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    async with open_for_command(settings, workspace) as opened:
        recorded = await opened.gate.recordings.load(request, work)
    if recorded.program.name != script.name:
        raise CommandFailure(f"the run {run} is one of {recorded.program.name}, not of {script.name}")
    place = _FOLDER / f"{script.stem}-{run[-_ID_CHARS:].lower()}{_SUFFIX}"
    await asyncio.to_thread(
        _write_test, workspace, place, write_run(_without_program(recorded), indent=2) + "\n"
    )
    return workspace / place


def _write_test(workspace: Path, place: Path, text: str) -> None:
    """Write a new file below a workspace whose author may have placed links. Raises CommandFailure."""
    try:
        write_below(workspace.resolve(), str(place), text.encode("utf-8", "surrogatepass"))
    except OSError as problem:
        why = problem.strerror
        if problem.errno == errno.EEXIST:
            why = "this test exists; delete its file to make it again"
        elif problem.errno in {errno.ENOTDIR, errno.ELOOP}:
            why = f"{place.parent} must be directories and no links, because a link may lead out of the workspace"
        raise CommandFailure(f"{workspace / place}: cannot be written: {why}") from None


def _without_program(recorded: RecordedRun) -> RecordedRun:
    """Return a recording as a test has it: the script has the text, and the repository need not say who ran it."""
    program = recorded.program.model_copy(update={"source": None})
    hidden = tuple(part for part in recorded.redacted if part != "source")
    return recorded.model_copy(update={"program": program, "actor": "", "redacted": hidden})


def _render(verdict: _Verdict) -> str:
    if verdict.is_passed:
        return f"passed: {verdict.name}"
    why = verdict.error or render_report(verdict.report)
    return f"failed: {verdict.name}\n" + "\n".join(f"  {line}" for line in why.splitlines())
