"""`paddock tool`: script tools, which are directories with a script and a schema (docs/tools.md)."""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from paddock.engines.programs.recipe import recipes
from paddock.engines.script_tools.authoring import SUFFIXES, create, findings
from paddock.engines.script_tools.library import BrokenTool, ScriptTool, ToolLibrary
from paddock.engines.script_tools.prompts.detection import detect
from paddock.engines.script_tools.prompts.templates import TIMEOUT_MS, TemplateError, fill
from paddock.gate.script_tool_service import find_tool, make_tool_run, open_library
from paddock.model.errors import ToolNotFound
from paddock.model.limits import LimitOverrides
from paddock.model.numbers import dumps
from paddock.model.request import ExecutionRequest
from paddock.model.tool import ToolEnd
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_output, print_table
from paddock.surfaces.cli.variables import decode_utf8, read_input, read_to_end
from paddock.surfaces.rendering.program_response import list_notes
from paddock.surfaces.rendering.render import tool_end

_NO_TOOLS = "there are no script tools here; create one: paddock tool new NAME"


@click.group(
    "tool",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock tool new word_count",
        'paddock tool run word_count --input \'{"text": "two words"}\'',
        "paddock tool validate",
    ),
)
def command() -> None:
    """List, show, create, check and run script tools."""


@command.command("list", epilog=render_examples("paddock tool list", "paddock tool list --json"))
@options.workspace
@options.settings
@options.as_json
def list_(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the script tools of the workspace and of the configured folders.

    If two tools have the same id, the first one runs and the others are marked as hidden.
    """
    seen: set[str] = set()
    facts: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    for tool in _open_library(workspace, flags).all():
        if isinstance(tool, BrokenTool):
            state, text = "broken", tool.problem
        else:
            state = "disabled" if not tool.manifest.enabled else "hidden" if tool.id in seen else ""
            text = tool.description
            seen.add(tool.id)
        facts.append({**_collect_facts(tool), "state": state})
        rows.append((tool.id, state, text.strip().partition("\n")[0], str(tool.directory)))
    if as_json:
        print_json(facts)
    else:
        print_table(("tool", "state", "description", "directory"), rows, empty=_NO_TOOLS)


@command.command("show", epilog=render_examples("paddock tool show word_count --json"))
@click.argument("name", metavar="ID", shell_complete=completions.script_tools)
@options.workspace
@options.settings
@options.as_json
def show(name: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the manifest, description and input schema of a tool."""
    tool = find_tool(_open_library(workspace, flags), name)
    if as_json:
        manifest = tool.manifest.model_dump(mode="json", by_alias=True)
        print_json({**_collect_facts(tool), "manifest": manifest, "inputSchema": dict(tool.schema.document)})
        return
    manifest = tool.manifest
    rows = [
        ("id", tool.id),
        ("name", manifest.name),
        ("directory", str(tool.directory)),
        ("prompt", tool.prompt),
        ("script", manifest.script),
        ("runtime", manifest.runtime),
        ("enabled", str(manifest.enabled).lower()),
        ("trigger", manifest.execution.trigger),
        ("confirm", str(manifest.execution.confirm).lower()),
        ("workspace", manifest.workspace),
        ("network", ", ".join(manifest.hosts or (manifest.network,))),
        ("description", tool.description),
        ("schema", json.dumps(tool.schema.document)),
    ]
    print_table(("", ""), [row for row in rows if row[1]])


@command.command(
    "new", epilog=render_examples("paddock tool new word_count", "paddock tool new fetch --runtime node")
)
@click.argument("name", metavar="ID", shell_complete=completions.script_tools)
@click.option(
    "--runtime", type=click.Choice(sorted(SUFFIXES)), default="python", help="Language of the script."
)
@options.workspace
@options.as_json
def new(name: str, runtime: str, workspace: Path, *, as_json: bool) -> None:
    """Create a tool in .paddock/tools of the workspace and print its directory."""
    try:
        directory = create(workspace / ".paddock" / "tools", name, runtime)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param_hint="ID") from None
    except FileExistsError as problem:
        raise CommandFailure(f"{problem.filename} exists already; choose another id or remove it") from None
    except OSError as problem:
        raise CommandFailure(f"{name}: the tool cannot be written: {problem.strerror}") from None
    if as_json:
        print_json({"id": name.lower(), "directory": str(directory)})
    else:
        click.echo(directory)


@command.command(
    "validate", epilog=render_examples("paddock tool validate", "paddock tool validate word_count --json")
)
@click.argument("names", metavar="[ID|DIRECTORY]...", nargs=-1)
@options.workspace
@options.settings
@options.as_json
def validate(names: tuple[str, ...], workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Check all tools of the workspace, or the named ones, without running them.

    Exit code: 1 if a tool cannot be used. Warnings do not count.
    """
    settings = load(workspace, flags=flags).settings
    library = open_library(settings.tools, workspace)
    directories = [_find_directory(library, name) for name in names] or [
        tool.directory for tool in library.all()
    ]
    known = recipes(settings.runtimes.recipes)
    found = [(directory, finding) for directory in directories for finding in findings(directory, known)]
    if as_json:
        print_json(
            [
                {
                    "directory": str(directory),
                    "problems": [each._asdict() for where, each in found if where == directory],
                }
                for directory in directories
            ]
        )
    else:
        rows = [(directory.name, each.severity, each.text) for directory, each in found]
        good = [(each.name, "ok", "") for each in directories if each not in {where for where, _ in found}]
        print_table(("tool", "", ""), [*rows, *good], empty=_NO_TOOLS)
    if any(each.severity == "error" for _, each in found):
        click.get_current_context().exit(1)


@command.command(
    "run",
    epilog=render_examples(
        'paddock tool run word_count --input \'{"text": "two words"}\'',
        "paddock tool run word_count --input @inputs.json --json",
        "git log --format=%s | jq -Rs '{text: .}' | paddock tool run word_count --input -",
    ),
)
@click.argument("name", metavar="ID", shell_complete=completions.script_tools)
@click.option("--input", "inputs", metavar="JSON|@FILE|-", default="{}", help="Inputs as a JSON object.")
@options.add_pairs_option(
    "--env", "variables", help="Set a variable of the script, instead of the tool's own. Repeatable."
)
@options.add_timeout_option("Longest wall time")
@options.workspace
@options.settings
@options.as_json
def run(
    name: str,
    inputs: str,
    variables: dict[str, str],
    timeout: int | None,
    *,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Run a tool and print its output. Policy and the ledger apply.

    With --json the answer is one object: success, output, stdout, stderr, exitCode, durationMs, error, violations if
    protected paths of the workspace were restored, and changes of a tool with an overlay. Exit code: 0 success, 1
    failure.
    """
    settings = load(workspace, flags=flags).settings
    values = _read_object(inputs, settings)
    library = open_library(settings.tools, workspace)
    request = ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        limits=LimitOverrides(timeout_ms=timeout),
        work=make_tool_run(library, name, values, env=variables),
    )
    outcome, number = asyncio.run(carry_out(request, settings))
    # Policy or an interrupt may have ended it before it ran.
    end = ToolEnd(success=False, error="Cancelled") if outcome is None else tool_end(outcome)
    if as_json:
        changes = None if outcome is None else outcome.changes
        answer = end.to_wire() | ({} if changes is None else {"changes": changes.model_dump(mode="json")})
        click.echo(dumps(answer))
    else:
        print_output(end.stdout, nl=False)
        print_output(end.stderr, err=True, nl=False)
        if end.error and end.error != end.stderr:
            hint = outcome.error.hint if outcome and outcome.error else ""
            print_output(end.error + (f"\n  hint: {hint}" if hint else "") + "\n", err=True, nl=False)
        if outcome is not None and (notes := list_notes(outcome)):
            print_output("\n" * bool(end.stderr and not end.stderr.endswith("\n")), err=True, nl=False)
            print_output("\n".join([*notes, ""]), err=True, nl=False)
    failed = outcome is None or not outcome.ok
    click.get_current_context().exit(EXIT_SIGNAL_BASE + number if number else int(failed))


@command.command("match", epilog=render_examples('paddock tool match --input \'{"file": "a.csv"}\' --json'))
@click.option("--input", "inputs", metavar="JSON|@FILE|-", default="{}", help="Arguments of the call.")
@options.workspace
@options.settings
@options.as_json
def match(inputs: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show which tools a call of a prompt with these arguments would use, most certain first. Runs nothing."""
    settings = load(workspace, flags=flags).settings
    tools = open_library(settings.tools, workspace).tools().values()
    found = detect(_read_object(inputs, settings), [(tool.manifest, tool.schema.document) for tool in tools])
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        confirm = {True: "to be confirmed", False: ""}
        rows = [
            (each.tool, str(each.priority), each.reason, confirm[each.needs_confirmation]) for each in found
        ]
        empty = "no tool matches these arguments; `paddock tool list` shows the tools" if tools else _NO_TOOLS
        print_table(("tool", "priority", "reason", ""), rows, empty=empty)


@command.command("fill", epilog=render_examples('paddock tool fill report.md --input \'{"file": "a.csv"}\''))
@click.argument("template", metavar="FILE|-", type=click.File("rb"))
@click.option("--input", "inputs", metavar="JSON|@FILE|-", default="{}", help="Inputs of all scripts.")
@click.option("--prompt", default="", metavar="ID", help="Prompt whose own tools take precedence.")
@options.workspace
@options.settings
@options.as_json
def fill_template(
    template: BinaryIO, inputs: str, prompt: str, *, workspace: Path, flags: dict[str, str], as_json: bool
) -> None:
    """Print a template with every {{script:id.field key='value'}} replaced by the output of the script.

    Each script runs once for the same inputs, with a timeout of five seconds. Policy and the ledger apply.
    """
    settings = load(workspace, flags=flags).settings

    async def fill_in(given: str, values: dict[str, Any]) -> str:
        async with open_for_command(settings, workspace) as opened:
            library = opened.scripts.library

            async def run_one(name: str, of_call: dict[str, Any]) -> ToolEnd | None:
                try:
                    work = make_tool_run(library, name, of_call, prompt=prompt)
                except ToolNotFound:
                    return None
                request = ExecutionRequest(
                    actor=find_actor(),
                    surface="cli",
                    workspace=workspace,
                    limits=LimitOverrides(timeout_ms=TIMEOUT_MS),
                    work=work,
                )
                return tool_end(await opened.gate.execute(request))

            searched = [str(folder) for folder in library.folders]
            return await fill(given, values, run_one, searched=searched)

    try:
        what = "standard input" if template is sys.stdin.buffer else template.name
        given = decode_utf8(what, read_to_end(what, template))
        text = run_until_signal(fill_in(given, _read_object(inputs, settings)))
    except TemplateError as problem:
        raise CommandFailure(str(problem)) from None
    if as_json:
        print_json({"text": text})
    else:
        print_output(text + "\n" * (not text.endswith("\n")), nl=False)


def _read_object(text: str, settings: Settings) -> dict[str, Any]:
    values = read_input(text, settings.limits.script, "script")
    if not isinstance(values, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--input")
    return cast("dict[str, Any]", values)


def _open_library(workspace: Path, flags: dict[str, str]) -> ToolLibrary:
    return open_library(load(workspace, flags=flags).settings.tools, workspace)


def _find_directory(library: ToolLibrary, name: str) -> Path:
    if "/" in name and Path(name).is_dir():
        return Path(name)
    found = library.find(name)
    return found.directory if found is not None else find_tool(library, name).directory


def _collect_facts(tool: ScriptTool | BrokenTool) -> dict[str, Any]:
    facts: dict[str, Any] = {"id": tool.id, "directory": str(tool.directory)}
    if isinstance(tool, BrokenTool):
        return {**facts, "problem": tool.problem}
    return {**facts, "name": tool.manifest.name, "prompt": tool.prompt, "description": tool.description}
