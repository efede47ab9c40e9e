"""The root of the command line. A command's module is imported when it is called; `paddock --version` stays fast."""

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from paddock._version import __version__
from paddock.foundation.own_files import has_repairs
from paddock.model.errors import FlagError, PaddockError
from paddock.surfaces.cli.failure import (
    PRINTED_KEY,
    CommandFailure,
    build_interrupt_failure,
    build_refusal_failure,
    build_thread_failure,
)
from paddock.surfaces.cli.folding import fold_text
from paddock.surfaces.cli.help import CommandGroup, render_examples, suggest_option
from paddock.surfaces.cli.interrupts import is_interrupt
from paddock.surfaces.cli.streams import EXIT_BROKEN_PIPE, find_output_error
from paddock.surfaces.rendering.terminal import escape_text

_COMMANDS_PACKAGE = "paddock.surfaces.cli"
_AS_JSON_KEY = "paddock.as_json"
"""Key in a context's `meta`: whether the command line asks for JSON, before it has been validated."""
_COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run a script."),
    "replay": ("replay", "Run a recorded script again, and compare it with its recording."),
    "exec": ("exec", "Run a program in one of the language runtimes."),
    "batch": ("batch", "Run many programs from a file of JSON lines, and judge them by tests."),
    "changes": ("changes", "Show, accept, discard and undo what programs changed in overlays."),
    "repl": ("repl", "Run programs one after another in one interpreter."),
    "compute": ("compute", "Compute one text from another: JSON in, JSON out."),
    "script": ("scripts", "List, create, show and test scripts."),
    "sequence": ("sequence", "List, show and run sequences of steps."),
    "temporal": ("temporal", "List, fire and serve schedules of sequences."),
    "servers": ("servers", "List upstream MCP servers and their tools, and call one."),
    "ps": ("ps", "List what runs now in all processes of Paddock."),
    "stop": ("stop", "End a run that `paddock ps` lists."),
    "sessions": ("sessions", "List and close the sessions of a running server."),
    "serve": ("serve", "Serve agents by MCP, over standard streams or HTTP, and programs by the HTTP API."),
    "cluster": ("cluster", "Prepare the database that several machines share, and show its state."),
    "ui": ("ui", "Serve a page that shows what runs, what waits for a person, and what happened."),
    "approve": ("approve", "List the questions that wait for a person, or answer one."),
    "output": ("output", "Search, show and delete stored output of programs."),
    "vault": ("vault", "Keep secrets for scripts."),
    "webhook": ("webhook", "List, register, test and delete webhooks."),
    "tool": ("tool", "List, show, create, check and run script tools."),
    "install": ("install", "Add Paddock to an MCP client's configuration."),
    "record": ("record", "Delete recordings of scripts."),
    "audit": ("audit", "Read and verify the ledger."),
    "runtimes": ("runtimes", "List the languages this machine can run, and install others."),
    "packages": ("packages", "List, add and remove environments with packages for programs."),
    "policy": ("policy", "Show what policy allows, and how it decides."),
    "doctor": ("doctor", "Show the confinement that this machine supports, tested by use."),
    "config": ("config", "Show the settings in force and their sources."),
    "completion": ("completions", "Print the completion script of a shell."),
}
"""Module and short help of every command, in the order of the help page."""


class _Lazy(CommandGroup):
    """A group that imports a command's module only to run it, and reports Paddock's exceptions as errors."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"{_COMMANDS_PACKAGE}.{_COMMANDS[cmd_name][0]}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])

    def main(self, *args: Any, **extra: Any) -> Any:  # noqa: ANN401 - click's signature
        """Run a command line; an error of the operating system ends it with its reason, wherever it occurs."""
        try:
            return super().main(*args, **extra)
        except OSError as error:
            failure = _build_write_failure(find_output_error()) or build_refusal_failure(error)
        except SystemExit as end:
            failure = _build_write_failure(find_output_error())
            if failure is None or end.code:
                raise
        failure.show()
        sys.exit(failure.exit_code)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:  # noqa: ANN401 - click's signature
        """Return the context of a command line; output such as help may find no reader."""
        try:
            context = super().make_context(*args, **extra)
        except BrokenPipeError:
            find_output_error()
            raise click.exceptions.Exit(EXIT_BROKEN_PIPE) from None
        except KeyboardInterrupt:
            raise build_interrupt_failure() from None
        if os.environ.get("NO_COLOR"):  # https://no-color.org
            context.color = False
        return context

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_AS_JSON_KEY] = "--json" in takewhile(lambda word: word != "--", args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise suggest_option(error) from None

    def invoke(self, ctx: click.Context) -> object:
        try:
            with _record_repairs():
                return self._carry_out(ctx)
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption):
                error = suggest_option(error)
            if ctx.meta[_AS_JSON_KEY] and PRINTED_KEY not in ctx.meta:
                from paddock.surfaces.cli.table import print_json

                try:
                    print_json({"error": {"message": error.format_message()}})
                except OSError:
                    find_output_error()  # standard error and the exit code report it, too
            if isinstance(error, click.UsageError) and type(error).show is click.UsageError.show:
                text = fold_text(f"Error: {escape_text(error.format_message())}", sys.stderr)
                error = click.UsageError(text.removeprefix("Error: "), ctx=error.ctx)
            raise error from None

    def _carry_out(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PaddockError as error:
            raise CommandFailure(str(error), exit_code=2 if isinstance(error, FlagError) else 1) from error
        except (KeyboardInterrupt, click.Abort) as error:
            at_prompt = isinstance(error.__context__, EOFError)
            raise (
                CommandFailure("there was no answer; nothing was done")
                if at_prompt
                else build_interrupt_failure()
            ) from None
        except BrokenPipeError:
            find_output_error()  # the reader closed the pipe
            ctx.exit(EXIT_BROKEN_PIPE)
        except OSError as error:
            raise (_build_write_failure(find_output_error()) or build_refusal_failure(error)) from None
        except Exception as error:
            if isinstance(error, RuntimeError):
                failure = build_thread_failure(error)
            else:
                failure = build_interrupt_failure() if is_interrupt(error) else None
            if failure is None:  # a fault of Paddock, or of click
                raise
            raise failure from None


@contextmanager
def _record_repairs() -> Generator[None]:
    """At the end, record in the user's ledger the repairs of Paddock's own files that no other ledger has recorded.

    Most commands record nothing else. If that ledger cannot be written, the warning that each repair logged must
    suffice.
    """
    try:
        yield
    finally:
        if has_repairs():
            from paddock.policy.settings.loader import load
            from paddock.record.ledger.writer import Ledger

            with suppress(PaddockError, OSError):
                Ledger(load(Path()).settings.audit.directory).close()


def _build_write_failure(error: OSError | None) -> CommandFailure | None:
    """Return the failure of output that could not be written."""
    return None if error is None else CommandFailure(f"cannot write the output: {error.strerror}")


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=render_examples(
        "paddock run hello --var NAME=world",
        "echo 'return 6 * 7' | paddock run -",
        "paddock exec python -c 'print(6 * 7)'",
        "paddock servers tools github",
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="paddock", message="%(prog)s %(version)s")
def command() -> None:
    """Run unreviewed code, with exactly the powers your policy grants."""
