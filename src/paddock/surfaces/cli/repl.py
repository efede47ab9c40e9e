"""`paddock repl`: a session at a terminal, or one program of standard input in a session."""

import asyncio
import re
import signal
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import TYPE_CHECKING

import click
from platformdirs import user_state_path
from pydantic import ValidationError

from paddock.foundation.files import write_below
from paddock.model.base import Json, count
from paddock.model.directories import GrantedDirectory
from paddock.model.errors import PaddockError
from paddock.model.languages import read_language
from paddock.model.limits import LimitOverrides
from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.session import IMAGE_SUFFIXES, KERNELS, NEW
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.exec import (
    EXIT_OWN_FAILURE,
    exit_code,
    explain_failure,
    read_source,
    require_runtime,
)
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.line_input import LineInput
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.output_files import find_special_name
from paddock.surfaces.cli.program_options import (
    add_program_options,
    explain_request,
    read_input,
    read_settings,
)
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE
from paddock.surfaces.cli.signals import ENDING_SIGNALS
from paddock.surfaces.cli.stream_output import OutputStreamer
from paddock.surfaces.cli.table import print_lines, warn
from paddock.surfaces.client.loop_thread import OpenLoop, start_loop
from paddock.surfaces.rendering.program_response import list_notes, program_response
from paddock.surfaces.rendering.terminal import escape_name

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

COMMANDS = {
    ":files": "list the files of the session",
    ":save PATH": "write a file of the session to the output directory",
    ":reset": "close the session and open another one",
    ":paste": "read a program until a line with :end",
    ":help": "show this list",
    ":quit": "end, as Ctrl-D, exit and quit do",
}
COMMAND_NAMES = tuple(name.split()[0] for name in COMMANDS)
_LEAVING = frozenset({":quit", ":exit", ":q", "exit", "quit", "exit()", "quit()"})
"""What people type to leave a prompt."""
_HELP = [
    *(f"{name:<12}{text}" for name, text in COMMANDS.items()),
    "Ctrl-C interrupts the program and keeps the session; Ctrl-D ends.",
]
_UNKNOWN_COMMAND = re.compile(r":[a-z]+")
_WITH_COLONS = frozenset({"ruby", "shell"})
"""Languages in which a program may begin like a command of the prompt."""
_ANEW = ":reset opens another one"


@click.command(
    "repl",
    epilog=render_examples(
        "paddock repl",
        "paddock repl python --file-in sales.csv --output-dir plots",
        "paddock repl python --package ipython --kernel ipython",
        "paddock repl shell --network full",
        "echo 'print(6 * 7)' | paddock repl python",
    ),
)
@click.argument("runtime", default="python", shell_complete=completions.runtimes)
@options.add_timeout_option("Longest wall time of each program")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write images, and every new file, to this directory. Default: images, to a temporary directory.",
)
@click.option(
    "--kernel",
    type=click.Choice(KERNELS),
    help="Run Python by IPython's shell, with its commands, or plainly.",
)
@click.option("--background", is_flag=True, help="Let its threads and processes run while the prompt waits.")
@add_program_options
@click.pass_context
def command(
    context: click.Context,
    *,
    runtime: str,
    timeout: int | None,
    memory_bytes: int | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
    output_dir: Path | None,
    file_in: tuple[str, ...],
    env: dict[str, str],
    show: tuple[str, ...],
    add_dir: tuple[GrantedDirectory, ...],
    **given: Json,
) -> None:
    """Run programs of python, shell, node, ruby or r, one after another, in one interpreter.

    Variables and files stay from one program to the next. Nothing runs while the prompt waits, unless --background is
    given. Without a terminal, standard input is one program, and the exit code is that of `paddock exec`. :help lists
    the commands of the prompt.
    """
    settings = read_settings(workspace, flags, {**given, "env": env, "show": show, "add_dir": add_dir})
    runtime = read_language(runtime)
    require_runtime(runtime, settings.runtimes)
    fields: dict[str, Json] = {
        "kind": "runtime",
        "runtime": runtime,
        "output": {"mode": "summary"},
        "outputs": ("*",) if output_dir else None,
    }
    opening: dict[str, Json] = {
        "code": "",
        "files": [read_input(each) for each in file_in],
        "env": env,
        **{name: value for name, value in given.items() if value},
    }
    limits = LimitOverrides(timeout_ms=timeout, memory_bytes=memory_bytes)
    source = None if sys.stdin.isatty() and sys.stdout.isatty() else read_source("-")
    loop, session = start_loop(open_for_command(settings, workspace))
    repl = Repl(loop, session, workspace, fields, limits, as_json=as_json, output_dir=output_dir)
    try:
        with repl.handle_signals(at_prompt=source is None):
            code = (
                repl.run_only(source, opening)
                if source is not None
                else repl.open(opening) or repl.converse()
            )
    except _SignalExit:
        code = 0
    except ValidationError as problem:
        raise click.UsageError(explain_request(problem)) from None
    finally:
        loop.end()
    context.exit(EXIT_SIGNAL_BASE + repl.received if repl.received else code)


class _SignalExit(BaseException):
    """A signal ends the command while no program runs."""


class Repl:
    """A session, and the programs that a person runs in it."""

    def __init__(
        self,
        loop: OpenLoop,
        opened: "OpenPaddock",
        workspace: Path,
        fields: dict[str, Json],
        limits: LimitOverrides,
        *,
        as_json: bool,
        output_dir: Path | None,
    ) -> None:
        """Run programs with `fields` on `loop`; write files to `output_dir`, by default to a temporary directory."""
        self.received = 0
        """The signal that ends the command; 0 without one."""
        self._loop = loop
        self._app = opened
        self._workspace = workspace
        self._actor = find_actor()
        self._fields = fields
        self._limits = limits
        self._as_json = as_json
        self._saves = output_dir is not None or not as_json
        self._target = output_dir
        self._opening: dict[str, Json] = {}
        self._handle = ""
        self._stop: asyncio.Event | None = None
        self._reading = False
        self._is_last = False

    def open(self, opening: dict[str, Json]) -> int:
        """Open a session with the fields `opening`; return 0, or the exit code of a failure, which is reported."""
        self._opening = opening
        work = RuntimeRun.model_validate({**self._fields, **opening, "session": NEW})
        outcome = self._execute(work, OutputStreamer())
        self._print_warnings()
        if outcome.session is not None and outcome.ok:
            self._handle = outcome.session.id
            return 0
        self._report(outcome, work, OutputStreamer())
        return exit_code(outcome) or EXIT_OWN_FAILURE

    def converse(self) -> int:
        """Read programs and commands at the terminal until Ctrl-D, and return the exit code."""
        language = str(self._fields["runtime"])
        if not self._as_json:
            print_lines([f"{language}, confined: :help lists commands, Ctrl-D ends"])
        history = user_state_path("paddock") / "repl_history"
        lines = LineInput(
            language, history, lambda text: self._app.outgoing.text(text) != text, COMMAND_NAMES
        )
        try:
            while self._take_turn(lines):
                pass
        finally:
            lines.close()
        return 0

    def _take_turn(self, lines: LineInput) -> bool:
        """Read a program or command and run it; return whether the prompt goes on. Ctrl-C discards what was typed."""
        try:
            self._reading = True
            text = lines.read()
            self._reading = False
        except KeyboardInterrupt:
            self._reading = False
            text = ""
            click.echo()
        if text is None:
            click.echo()
        elif text.strip() in _LEAVING:
            return False
        elif text.strip():
            self._obey(text)
        return text is not None and not self.received

    def _obey(self, text: str) -> None:
        """Run a command of the prompt, or else a program."""
        name, _, argument = text.strip().partition(" ")
        try:
            match name, argument.strip():
                case ":help", "":
                    print_lines(_HELP)
                case ":reset", "":
                    self._reset()
                case _ if not self._handle:
                    print_note(f"there is no session: {_ANEW}")
                case ":files", "":
                    self._list_files()
                case ":save", path if path:
                    self._save_file(path)
                case ":save", _:
                    print_note("give the path of a file; :files lists them")
                case _ if _UNKNOWN_COMMAND.fullmatch(name) and self._fields["runtime"] not in _WITH_COLONS:
                    print_note(f"there is no command {name}; :help lists the commands")
                case _:
                    self.run(text)
        except ValidationError as problem:
            print_note(explain_request(problem))
        except (PaddockError, ValueError) as error:
            print_note(str(error))

    def run(self, code: str) -> int:
        """Run a program in the session, print what it does, and return the exit code of `paddock exec`."""
        return self._run({"code": code, "session": self._handle})

    def run_only(self, code: str, opening: dict[str, Json]) -> int:
        """Run the only program of a session, as `run` does. It may name its packages, because it opens the session."""
        self._is_last = True
        status = self._run({**opening, "code": code, "session": NEW})
        self._print_warnings()
        return status

    def _run(self, given: dict[str, Json]) -> int:
        work = RuntimeRun.model_validate({**self._fields, **given})
        printer = OutputStreamer(combined=True)
        outcome = self._execute(work, printer)
        self._report(outcome, work, printer)
        return exit_code(outcome)

    def _print_warnings(self) -> None:
        for text in self._app.warnings:
            warn(text)

    def _execute(self, work: RuntimeRun, printer: OutputStreamer) -> Outcome:
        """Run a program until it ends; a signal interrupts it."""
        request = ExecutionRequest(
            actor=self._actor, surface="cli", workspace=self._workspace, work=work, limits=self._limits
        )
        stop = asyncio.Event()
        take = None if self._as_json else printer.take_output
        self._stop = stop
        try:
            running = self._loop.submit(lambda: self._app.gate.execute(request, on_output=take, stop=stop))
            outcome = running.result()
        finally:
            self._stop = None
        assert outcome is not None
        return outcome

    def _report(self, outcome: Outcome, work: RuntimeRun, printer: OutputStreamer) -> None:
        """Print what a person should know of the end of a program, below its output."""
        if printer.broken is not None:
            raise printer.broken
        notes = [self._explain_end(outcome), *list_notes(outcome), *self._save_images(outcome)]
        if (session := outcome.session) is not None and session.state == "lost":
            self._handle = ""
            if outcome.status is not Status.LOST:
                notes.append(f"The session is lost: {session.reason}. {_ANEW}.")
        text = "" if self._as_json else "\n".join(filter(None, notes))
        printer.end(more=sys.stdout.isatty() or bool(text))
        if self._as_json:
            end = outcome.session
            if self._is_last and end is not None and end.state == "kept":
                closed = {"state": "lost", "reason": "the command has ended", "expires_in_s": 0.0}
                outcome = outcome.model_copy(update={"session": end.replace(**closed)})
            click.echo(dumps(program_response(outcome, work)))
        elif text:
            print_note(text)

    def _explain_end(self, outcome: Outcome) -> str:
        if outcome.status is Status.LOST and outcome.error is not None:
            return f"{outcome.error.message}\n  hint: {_ANEW}"
        exited = outcome.program is not None and outcome.program.exit_code is not None
        if outcome.status is Status.FAILED and exited and outcome.error is not None and outcome.error.line:
            return f"  hint: {outcome.error.hint}" if outcome.error.hint else ""  # the output has the error
        return explain_failure(outcome)

    def _save_images(self, outcome: Outcome) -> list[str]:
        """Write images, and files that are kept, to the output directory; return a line for each."""
        if not self._saves:
            return []
        number = 0 if outcome.session is None else outcome.session.number
        lines = [
            self._write_file(f"result-{number}{IMAGE_SUFFIXES[result.image_type]}", data)
            for result in outcome.results
            if (data := result.read(result.image_type))
        ]
        for file in outcome.files:
            size = count(file.size, "byte")
            if file.handle is None:
                shown = escape_name(file.path)
                lines.append(f"{shown} ({size}) stays in the session; :save {shown} writes it")
            else:
                lines.append(
                    self._write_file(
                        file.path, self._app.output.artifacts().read(file.handle, self._workspace)
                    )
                )
        return lines

    def _write_file(self, path: str, data: bytes) -> str:
        """Write a file to the output directory under its path, or a numbered one; return a line that says where."""
        size, shown = count(len(data), "byte"), escape_name(path)
        if (name := find_special_name(path)) is not None:
            return f"{shown} ({size}) was not written, because tools may run what {escape_name(name)} holds"
        if self._target is None:
            self._target = Path(tempfile.mkdtemp(prefix="paddock-repl-"))
        free, number = PurePosixPath(path), 1
        while True:
            try:
                self._target.mkdir(parents=True, exist_ok=True)
                write_below(self._target, str(free), data)
            except FileExistsError:
                number += 1
                free = PurePosixPath(path).with_stem(f"{PurePosixPath(path).stem}-{number}")
            except OSError as error:
                return f"{shown} ({size}) was not written to {self._target}: {error.strerror}"
            else:
                return f"{shown} ({size}): {self._target / escape_name(str(free))}"

    def _list_files(self) -> None:
        files = self._loop.run_and_wait(
            lambda: self._app.programs.list_session_files(self._actor, self._handle)
        )
        if not files:
            print_note("the session has no files")
        print_lines(f"{escape_name(file.path)} ({count(file.size, 'byte')})" for file in files)

    def _save_file(self, path: str) -> None:
        sessions = self._app.programs.sessions
        try:
            data = self._loop.run_and_wait(lambda: sessions.read_file(self._actor, self._handle, path))
        except OSError as error:
            print_note(f"{escape_name(path)} cannot be read: {error.strerror}; :files lists the files")
        else:
            print_note(self._write_file(path, self._hide_secrets(data)))

    def _hide_secrets(self, data: bytes) -> bytes:
        """Return a file without secrets, as output leaves; what is not text stays as it is."""
        try:
            return data if b"\0" in data else self._app.outgoing.text(data.decode()).encode()
        except UnicodeDecodeError:
            return data

    def _reset(self) -> None:
        if self._handle:
            sessions, handle = self._app.programs.sessions, self._handle
            self._handle = ""
            self._loop.run_and_wait(lambda: sessions.close_session(self._actor, handle))
        if not self.open(self._opening):
            print_note("another session is open")

    @contextmanager
    def handle_signals(self, *, at_prompt: bool) -> Generator[None]:
        """Let signals interrupt the program and end the command; with a prompt, Ctrl-C does not end the command."""

        def on_signal(number: int, _frame: FrameType | None) -> None:
            goes_on = at_prompt and number == signal.SIGINT
            if not goes_on:
                self.received = number
            if self._stop is not None:
                self._loop.call_soon(self._stop.set)
            elif not goes_on:
                raise _SignalExit
            elif self._reading:
                raise KeyboardInterrupt

        before = {
            number: signal.signal(number, on_signal)
            for number in ENDING_SIGNALS
            if signal.getsignal(number) != signal.SIG_IGN  # nohup(1), background jobs of a script
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
