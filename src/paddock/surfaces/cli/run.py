"""`paddock run`: run one script; its output goes to standard output, its error to standard error."""

import sys
from pathlib import Path
from typing import get_args

import click
from click.shell_completion import CompletionItem

from paddock.engines.saved_scripts import Script, list_scripts, read, text, whole
from paddock.model.errors import ScriptNotFound
from paddock.model.limits import LimitOverrides
from paddock.model.request import Check, ExecutionRequest, GuestRun
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import execute_and_exit
from paddock.surfaces.cli.variables import read_input, read_variables


def _complete_names(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    names = dict.fromkeys(name for name, _ in list_scripts(Path()) if name.startswith(incomplete))
    return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]


@click.command(
    "run",
    epilog=render_examples(
        "paddock run hello --var NAME=world",
        "paddock run ./audit.ts --workspace ~/project --timeout 10",
        "paddock run ./audit.ts --check types",
        "paddock run ./audit.ts --record",
        "git log --format=%s | jq -R . | jq -s . | paddock run summarise --input -",
        "paddock run - --json < program.js",
    ),
)
@click.argument("program", metavar="NAME|PATH|-", shell_complete=_complete_names)
@options.add_pairs_option("--var", "variables", help="Set a variable of the script. Repeatable.")
@click.option(
    "--vars-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Read variables from a .json, .toml or .env file. --var takes precedence.",
)
@click.option(
    "--input", "input_text", metavar="JSON|@FILE|-", help="JSON value that the script reads as `input`."
)
@options.add_timeout_option("Longest wall time")
@click.option("--jit", is_flag=True, help="Grant just-in-time compilation, unless a settings file denies it.")
@click.option(
    "--check",
    type=click.Choice(get_args(Check)),
    help="What its types decide before its first call: whether it starts, only warnings, or nothing.",
)
@click.option(
    "--record", is_flag=True, help="Record the run for `paddock replay`, unless a settings file denies it."
)
@options.workspace
@options.settings
@options.as_json
def command(
    program: str,
    variables: dict[str, str],
    vars_file: Path | None,
    input_text: str | None,
    timeout: int | None,
    *,
    jit: bool,
    check: Check | None,
    record: bool,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Run a script by name, by path, or from standard input.

    Paddock searches a name in .paddock/scripts of the workspace, then of the home directory, with the suffixes .ts,
    .js and .mjs. Console lines and the result go to standard output, errors to standard error. Exit
    code: 0 success, 1 failure, 2 invalid command line.
    """
    if program == "-" and input_text == "-":
        raise click.UsageError("The script and --input cannot both come from standard input.")
    try:
        if program == "-":
            script = Script("stdin", text("standard input", whole("standard input", sys.stdin.buffer)))
        else:
            script = read(program, workspace)
    except ScriptNotFound as problem:
        raise CommandFailure(str(problem)) from None
    if jit:
        flags = {"grants.jit": "true", **flags}
    if record:
        flags = {"record.payloads": "asked", **flags}
    settings = load(workspace, flags=flags).settings
    request = ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        jit=jit,
        limits=LimitOverrides(timeout_ms=timeout),
        work=GuestRun(
            source=script.source,
            name=script.name,
            language=script.language,
            profile="script",
            vars={**(read_variables(vars_file) if vars_file else {}), **variables},
            input=None if input_text is None else read_input(input_text, settings.limits.script, "script"),
            raw_results=script.raw_results,
            check=check,
            record=record,
        ),
    )
    execute_and_exit(request, settings, as_json=as_json)
