"""`paddock exec`: run one program in a language runtime; its output and its exit code are passed on."""

import asyncio
import shutil
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import click
from pydantic import ValidationError

from paddock.engines.packages.interface import on_progress
from paddock.foundation.files import below
from paddock.model.base import Json
from paddock.model.errors import FlagError, PaddockError
from paddock.model.fields import make_work
from paddock.model.languages import read_language
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome, Status
from paddock.model.program import (
    CODE_CHARS,
    MAX_ARGUMENTS,
    OUTPUT_MODES,
    STDIN_BYTES,
    Access,
    OutputMode,
)
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.requirements import needs_own_folder
from paddock.policy.settings.schema import RuntimeSettings, Settings
from paddock.surfaces.cli import completions, options, streams
from paddock.surfaces.cli.failure import (
    CommandFailure,
    build_interrupt_failure,
    build_refusal_failure,
    build_thread_failure,
)
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.interrupts import is_interrupt
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.output_files import LocalFiles, StoredFiles, save_files
from paddock.surfaces.cli.program_options import (
    add_program_options,
    explain_request,
    read_input,
    read_settings,
)
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out
from paddock.surfaces.cli.server_options import (
    ServerOptions,
    SessionRunner,
    add_server_options,
    check_server_options,
)
from paddock.surfaces.cli.stream_output import OutputStreamer, print_response
from paddock.surfaces.cli.table import print_json
from paddock.surfaces.cli.variables import decode_utf8
from paddock.surfaces.rendering.program_response import list_notes, program_response

if TYPE_CHECKING:
    from paddock.policy.settings.recipes import Recipe
    from paddock.record.output.recording import OnOutput

EXIT_OWN_FAILURE, EXIT_DENIED, EXIT_NO_RUNTIME, EXIT_TIMEOUT = 125, 126, 127, 124
"""Exit codes that are not the program's, as in env(1) and timeout(1)."""

_NOTHING_TO_RUN = (
    "There is nothing to run: give a FILE, a language with -c CODE, - for a program on standard input, "
    "or -- COMMAND."
)
_REST_KEY = "paddock.exec.rest"
_MAX_CODE_BYTES = 4 * CODE_CHARS
"""Maximum size of a source in UTF-8; an endless file is not read further."""


class _ExecCommand(click.Command):
    """A command that passes on everything after `--`, including dashes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args.index("--") if "--" in args else len(args)
        ctx.meta[_REST_KEY] = tuple(args[own + 1 :])
        try:
            return super().parse_args(ctx, args[:own])
        except click.UsageError as problem:
            if "unexpected extra argument" not in problem.message:
                raise
            message = f"{problem.message}; arguments of the program follow --."
            raise click.UsageError(message, problem.ctx) from None


@click.command(
    "exec",
    cls=_ExecCommand,
    epilog=render_examples(
        "paddock exec python -c 'print(6 * 7)'",
        "paddock exec rust ./main.rs -- --size 10",
        "git log | paddock exec perl ./count.pl",
        "paddock exec ./main.rs",
        "paddock exec -- npm test",
        "paddock exec python ./plot.py --file-in sales.csv --output '*.png' --output-dir plots",
        "paddock exec node -- --version",
        "paddock exec java ./Main.java --mode summary --query error --json",
        "paddock exec java ./Main.java --json",
        "paddock exec python -c 'x = 1' --session new --server http://127.0.0.1:8700",
    ),
)
@click.argument("runtime", required=False, shell_complete=completions.runtimes)
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("-c", "--code", help="Source code of the program.")
@click.option(
    "--stdin/--no-stdin",
    "with_stdin",
    default=None,
    help="Pass standard input to the program, or not. By default it is passed if it is a file, or a pipe with data; "
    "--stdin waits for the pipe.",
)
@click.option("--cwd", default=".", metavar="REL", help="Working directory, relative to the workspace.")
@options.add_timeout_option("Longest wall time, compile step included")
@options.timeout_ms
@click.option("--mode", type=click.Choice(OUTPUT_MODES), help="Print an answer instead of the output.")
@click.option(
    "--query", "terms", multiple=True, metavar="TERM", help="Show lines that contain a term. Repeatable."
)
@click.option(
    "--max-lines",
    type=click.IntRange(10, 1000),
    default=100,
    show_default=True,
    metavar="N",
    help="Maximum number of lines of a summary.",
)
@click.option(
    "--combined",
    is_flag=True,
    help="Merge both output streams in the order of writing, as on a terminal or with `2>&1`.",
)
@click.option("--no-keep", is_flag=True, help="Do not store the output for `paddock output`.")
@click.option(
    "--output",
    "outputs",
    multiple=True,
    metavar="PATTERN",
    help="Keep files that it leaves there, e.g. '*.csv'; by default images. Repeatable.",
)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write kept files to this directory.",
)
@options.add_duration_option("--cpu-time", "cpu_ms", help="Maximum time on all processors together")
@click.option(
    "--session",
    metavar="HANDLE|new",
    help="Run it in a session of a running server, after earlier programs; `new` opens one and prints its handle.",
)
@add_server_options
@add_program_options
@click.pass_context
def command(
    context: click.Context,
    *,
    runtime: str | None,
    file: str | None,
    timeout: int | None,
    timeout_ms: int | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
    memory_bytes: int | None,
    cpu_ms: int | None,
    output_dir: Path | None,
    session: str | None,
    server: ServerOptions,
    **given: Json,
) -> None:
    """Run a program in a language runtime: CODE, a FILE, or the runtime itself with `-- ARGS`.

    A FILE of the workspace runs in place, so it can import files beside it. A compiler sees only that file. Without
    RUNTIME, the suffix of FILE decides; without both, the command after `--` runs. Output and exit code are the
    program's own. Other exit codes: 124 timeout, 125 Paddock failed, 126 denied by policy, 127 runtime not available,
    128+N ended by signal N.
    """
    timeout = options.choose_timeout_ms(timeout, timeout_ms)
    answered = given["mode"] is not None or bool(given["terms"])
    given["combined"] = given["combined"] or not (answered or as_json or streams.are_separate())
    try:
        given["outputs"] = given["outputs"] or (("*",) if output_dir else ())
        check_server_options(context, session, server)
        settings = None if session is not None else read_settings(workspace, flags, given)
        del given["show"], given["add_dir"]  # settings have them
        program = _find_program(runtime, file, given.pop("code"), context.meta[_REST_KEY], settings)
        work = _build_work(program, workspace=workspace, session=session, **given)
        limits = LimitOverrides(timeout_ms=timeout, memory_bytes=memory_bytes, cpu_ms=cpu_ms)
        on_server = SessionRunner(server, work, limits)
        runner = on_server if settings is None else _LocalRunner(settings, workspace, work, limits)
        context.exit(_execute(runner, work, answered=answered, as_json=as_json, output_dir=output_dir))
    except ValidationError as problem:
        raise click.UsageError(explain_request(problem)) from None
    except PaddockError as error:
        raise CommandFailure(
            str(error), exit_code=2 if isinstance(error, FlagError) else EXIT_OWN_FAILURE
        ) from error
    except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
        raise
    except OSError as error:
        raise build_refusal_failure(error, exit_code=EXIT_OWN_FAILURE) from error
    except Exception as error:
        if is_interrupt(error):
            raise build_interrupt_failure() from None
        if isinstance(error, RuntimeError) and (
            failure := build_thread_failure(error, exit_code=EXIT_OWN_FAILURE)
        ):
            raise failure from None
        traceback.print_exc()  # Python's own exit code 1 could be the program's
        message = (
            f"Paddock failed: {type(error).__name__}: {error}; please report it with the traceback above"
        )
        raise CommandFailure(message, exit_code=EXIT_OWN_FAILURE) from error


def require_runtime(name: str, runtimes: RuntimeSettings) -> None:
    """Raise Failure, with the exit code of a missing runtime, for a language that no settings name."""
    if name in runtimes.languages:
        return
    from paddock.engines.programs.recipe import no_runtime

    message = no_runtime(name, runtimes.recipes)
    if shutil.which(name) is not None:
        message += f"; to run the command {name}: paddock exec -- {name}"
    raise CommandFailure(message, exit_code=EXIT_NO_RUNTIME)


class _GivenProgram(NamedTuple):
    """What is run."""

    runtime: str
    file: str | None
    code: str | None
    args: Sequence[str]


def _find_program(
    runtime: str | None, file: str | None, code: str | None, args: Sequence[str], settings: Settings | None
) -> _GivenProgram:
    """Return the program, with its runtime where the command line leaves it out. None: a server has the settings.

    A single file is run by the runtime of its suffix. A command is run by the runtime whose executable it is, and any
    other command by `shell`. Raises UsageError without a program, and Failure for an unknown runtime.
    """
    from paddock.engines.programs.recipe import find_executable_runtime, recipes

    known = recipes({} if settings is None else settings.runtimes.recipes)
    program: _GivenProgram | None = None
    if runtime is None:
        if code is None and args:
            found = find_executable_runtime(args[0], known)
            if found is None or found == "shell":  # a shell takes no arguments of its own
                program = _GivenProgram("shell", None, 'exec "$@"', args)
            else:
                program = _GivenProgram(found, None, None, args[1:])
    else:
        language = read_language(runtime)
        if file is None and code is None and language not in known:
            program = _find_file(runtime, args, known)
        program = program or _GivenProgram(language, file, code, args)
    if program is not None and settings is not None:
        require_runtime(program.runtime, settings.runtimes)
    if program is None or (program.code is None and program.file is None and not program.args):
        raise click.UsageError(_NOTHING_TO_RUN)
    return program


def _find_file(file: str, args: Sequence[str], known: "Mapping[str, Recipe]") -> _GivenProgram | None:
    """Return the program for a file that stands where a runtime could. Raises UsageError for an unknown suffix."""
    from paddock.engines.programs.recipe import find_suffix_runtime

    if (runtime := find_suffix_runtime(Path(file), known)) is not None:
        return _GivenProgram(runtime, file, None, args)
    if Path(file).is_file():
        what = f"{file}: no language has the suffix of this file; name one: paddock exec RUNTIME {file}"
        raise click.UsageError(what)
    if "/" in file:
        fault = "is a directory" if Path(file).is_dir() else "there is no such file"
        raise click.UsageError(f"{file}: {fault}; name the file of a program, or a runtime with -c CODE")
    return None


def _build_work(
    program: _GivenProgram,
    *,
    workspace: Path,
    with_stdin: bool | None,
    access: Access | None,
    network: str | list[str] | None,
    mode: OutputMode | None,
    terms: tuple[str, ...],
    max_lines: int,
    no_keep: bool,
    combined: bool,
    file_in: tuple[str, ...],
    outputs: tuple[str, ...],
    packages: tuple[str, ...],
    env: dict[str, str],
    session: str | None,
    **plain: str | None,
) -> RuntimeRun:
    """Return the program's request, with the fields that options set."""
    runtime, file, code, args = program
    if len(args) > MAX_ARGUMENTS:
        raise click.UsageError(f"A program gets at most {MAX_ARGUMENTS} arguments, not {len(args)}.")
    if code is not None and file is not None:
        raise click.UsageError("Give either -c CODE or FILE; arguments of the program follow --.")
    if file == "-" and with_stdin:
        raise click.UsageError("The program and --stdin cannot both come from standard input.")
    own_place = bool(file_in or outputs or session) or needs_own_folder(runtime, packages)
    if file is not None:
        code = read_source(file)
    fields: dict[str, Json] = {
        **plain,
        "args": args,
        "access": access,
        "file": "" if own_place or file in (None, "-") else below(workspace, Path(file)),
        "files": [read_input(given) for given in file_in],
        "outputs": outputs or None,
        "env": env,
        "packages": packages,
        "session": session,
        "stdin": _read_stdin(file, with_stdin),
        "network": network,
        "output_mode": mode or ("intent" if terms else "minimal"),
        "query_terms": terms,
        "max_lines": max_lines,
        "keep": not no_keep,
        "combined": combined,
    }
    return make_work(runtime, code, fields)


class ExecRunner(StoredFiles, Protocol):
    """What runs a program: this machine, or a server."""

    @property
    def keeps_output(self) -> bool:
        """Whether output is stored there."""
        ...

    def run(self, on_output: "OnOutput | None") -> tuple[Outcome, int]:
        """Return the outcome, and the signal that interrupted it or 0."""
        ...


class _LocalRunner(LocalFiles):
    """Runs a program on this machine."""

    def __init__(self, settings: Settings, workspace: Path, work: RuntimeRun, limits: LimitOverrides) -> None:
        super().__init__(settings, workspace)
        self.keeps_output = settings.artifacts.enabled
        self._settings = settings
        self._request = ExecutionRequest(
            actor=find_actor(), surface="cli", workspace=workspace, work=work, limits=limits
        )

    def run(self, on_output: "OnOutput | None") -> tuple[Outcome, int]:
        stop = asyncio.Event()
        outcome, number = asyncio.run(
            carry_out(self._request, self._settings, on_output=on_output, stop=stop)
        )
        assert outcome is not None
        return outcome, number


def _execute(
    runner: ExecRunner, work: RuntimeRun, *, answered: bool, as_json: bool, output_dir: Path | None
) -> int:
    """Run the program, print its output or answer, and return the exit code."""
    passing = OutputStreamer(combined=work.output.combined)
    take = None if as_json or answered else passing.take_output
    if work.packages:
        on_progress.set(print_note)
    outcome, number = runner.run(take)
    cut_short = number if outcome.status is Status.CANCELLED else 0
    try:
        if passing.broken is not None:
            raise passing.broken
        listed = save_files(outcome, runner, output_dir, exit_code=EXIT_OWN_FAILURE)
        # A person may look for the output later: report why it was not stored although it should be.
        stores = runner.keeps_output and not answered
        lost = outcome.program.not_kept if stores and outcome.program is not None else ""
        notes = (explain_failure(outcome), *list_notes(outcome), lost, listed)
        text = "" if as_json else "\n".join(filter(None, notes))
        passing.end(more=bool(text))
        if as_json or answered:
            response = program_response(outcome, work)
            (print_json if as_json else print_response)(response)
        if text:
            print_note(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        if not (cut_short and passing.broken is None):  # after a hangup there is no terminal
            what = f"cannot write the output: {error.strerror}"
            raise CommandFailure(what, exit_code=EXIT_OWN_FAILURE) from None
    return EXIT_SIGNAL_BASE + cut_short if cut_short else exit_code(outcome)


def explain_failure(outcome: Outcome) -> str:
    """Return why a program is not ok, unless its exit code and its own output say it."""
    exited = outcome.program is not None and outcome.program.exit_code is not None
    if outcome.error is None or (outcome.status is Status.FAILED and exited and not outcome.error.hint):
        return ""
    rule = outcome.decision.rule
    hint = outcome.error.hint
    if rule.removeprefix("runtimes.") in RuntimeSettings.model_fields and "`" not in outcome.error.message:
        hint = f"{rule} in the settings decides this; paddock policy show prints its file"
    return outcome.error.message + (f"\n  hint: {hint}" if hint else "")


def exit_code(outcome: Outcome) -> int:
    """Return the exit code for the end of a program."""
    program = outcome.program
    match outcome.status:
        case Status.DENIED:
            return EXIT_DENIED
        case Status.INVALID:
            return 2
        case Status.TIMEOUT:
            return EXIT_TIMEOUT
        case Status.UNAVAILABLE if outcome.error is not None and outcome.error.name == "Unavailable":
            return EXIT_NO_RUNTIME
        case Status.UNAVAILABLE | Status.ERROR | Status.LOST:
            return EXIT_OWN_FAILURE
        case _ if program is not None and program.signal is not None:
            return EXIT_SIGNAL_BASE + program.signal
        case _:
            return (program and program.exit_code) or int(not outcome.ok)


def read_source(file: str) -> str:
    """Return the program in a file, or on standard input for `-`. Raises BadParameter for one that cannot be read."""
    try:
        if file == "-":
            data = sys.stdin.buffer.read(_MAX_CODE_BYTES + 1)
        else:
            with Path(file).open("rb") as stream:  # it may be a pipe, for example from `<(...)`
                data = stream.read(_MAX_CODE_BYTES + 1)
    except OSError as problem:
        message = f"{file}: cannot read this program: {problem.strerror}"
        raise click.BadParameter(message, param_hint="FILE") from None
    try:
        text = decode_utf8(file, data) if len(data) <= _MAX_CODE_BYTES else ""
    except CommandFailure as problem:
        raise click.BadParameter(problem.message, param_hint="FILE") from None
    if len(data) > _MAX_CODE_BYTES or len(text) > CODE_CHARS:
        message = f"{file}: a program has at most {CODE_CHARS} characters, and this has more"
        raise click.BadParameter(message, param_hint="FILE")
    return text


def _read_stdin(file: str | None, wanted: bool | None) -> bytes | None:
    """Return standard input for the program: as the option says, by default what is there to be read."""
    if wanted is False or (wanted is None and (file == "-" or not streams.has_input())):
        return None
    data = sys.stdin.buffer.read(STDIN_BYTES + 1)
    if len(data) > STDIN_BYTES:
        raise click.UsageError(
            f"A program gets at most {STDIN_BYTES} bytes of standard input, but this is more; put it into a file of "
            "the workspace, which the program can read, or give --no-stdin."
        )
    return data if data or wanted else None
