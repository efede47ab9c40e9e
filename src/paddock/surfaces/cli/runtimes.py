"""`paddock runtimes`: the languages of this machine, how to install others, and how to start faster."""

import os
import shlex
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.confinement.sandbox import spec
from paddock.engines.programs import directories
from paddock.engines.programs.install import NotInstallableError, commands
from paddock.engines.programs.inventory import InstalledToolchain, survey
from paddock.engines.programs.recipe import HELLO_OUTPUT, no_runtime, recipes
from paddock.engines.programs.steps import hello
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
from paddock.engines.programs.toolchain_cache import Toolchains
from paddock.engines.programs.warm import warm as make_warm
from paddock.engines.types import installation as compiler
from paddock.gate.toolchain_check import list_usual_tasks
from paddock.model.languages import read_language
from paddock.model.process import ProcessGrants
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_table
from paddock.surfaces.client.ray.nodes import name_resources

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.confinement.sandbox.protocol import Sandbox
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.policy.settings.recipes import Recipe


_TYPES = "types"
"""What `paddock runtimes install` calls the compiler that checks the types of programs. It is no runtime."""


@dataclass(frozen=True, slots=True)
class _RuntimeRow:
    """The displayed facts of one runtime."""

    runtime: str
    title: str
    state: str
    """`found`, `missing`; with --check `works` or `fails` instead of `found`."""
    executable: str = ""
    version: str = ""
    ms: int | None = None
    """Duration of its greeting in milliseconds, including the compile step."""
    note: str = ""
    reason: str = ""
    """Why it is missing or fails."""
    remedy: str = ""


@click.group(
    "runtimes",
    cls=CommandGroup,
    invoke_without_command=True,
    epilog=render_examples(
        "paddock runtimes",
        "paddock runtimes --check --json",
        "paddock runtimes install go kotlin",
        "paddock runtimes install types",
        "paddock runtimes --ray-resources",
    ),
)
@click.option("--check", is_flag=True, help="Run a confined program in each of them.")
@click.option(
    "--ray-resources",
    is_flag=True,
    help="Print the languages as custom resources of a Ray node, for `ray start --resources`.",
)
@options.workspace
@options.settings
@options.as_json
@click.pass_context
def command(
    context: click.Context,
    workspace: Path,
    flags: dict[str, str],
    *,
    check: bool,
    ray_resources: bool,
    as_json: bool,
) -> None:
    """List the languages that this machine can run, and how to install the others.

    With --check, exit code: 1 if an installed runtime does not work.
    """
    if context.invoked_subcommand is not None:
        return
    settings = load(workspace, flags=flags).settings

    async def inspect() -> list[_RuntimeRow]:
        async with open_for_command(settings, workspace) as opened:
            sandbox = await opened.processes.open_sandbox()
            tasks = list_usual_tasks(settings, workspace)
            toolchains = Toolchains(os.environ, settings.runtimes)
            rows: list[_RuntimeRow] = []
            for task, each in zip(tasks, await survey(sandbox, toolchains, tasks), strict=True):
                row = (
                    await _run_greeting(opened, workspace, each)
                    if check and isinstance(each, InstalledToolchain)
                    else _build_row(each)
                )
                notes = [each.reason for each in toolchains.find_passed_over(task, sandbox)]
                notes.append(await _without_workspace(sandbox, toolchains, task, row))
                rows.append(replace(row, note="; ".join(filter(None, (row.note, *notes)))))
        return rows

    rows = run_until_signal(inspect())
    if ray_resources:
        print_json(name_resources(row.runtime for row in rows if row.state in {"found", "works"}))
    elif as_json:
        print_json([asdict(row) for row in rows])
    else:
        columns = ("runtime", "state", "version", "ms", "executable", "note or remedy")
        cells = [
            (
                *(row.runtime, row.state, row.version, "" if row.ms is None else str(row.ms)),
                *(row.executable, "; ".join(filter(None, (row.note, row.reason, row.remedy)))),
            )
            for row in rows
        ]
        print_table(columns, cells)
    if any(row.state == "fails" for row in rows):
        sys.exit(1)


def _find_recipes(names: tuple[str, ...]) -> "Mapping[str, Recipe]":
    """Return every recipe. Those that settings add are asked for where a name is not built in.

    No workspace may add any, so that of the current directory stands for all.
    """
    return recipes() if recipes().keys() >= set(names) else recipes(load(Path()).settings.runtimes.recipes)


def _check_names(
    _context: click.Context, parameter: click.Parameter, names: tuple[str, ...]
) -> tuple[str, ...]:
    names = tuple(map(read_language, names))
    languages = tuple(name for name in names if name != _TYPES or parameter.name != "installed")
    known = _find_recipes(languages)
    for name in languages:
        if name not in known:
            added = {each: recipe for each, recipe in known.items() if each not in recipes()}
            raise click.BadParameter(no_runtime(name, added), param=parameter)
    return names


@command.command(
    "install",
    epilog=render_examples("paddock runtimes install go", "paddock runtimes install kotlin r --yes"),
)
@click.argument(
    "installed",
    nargs=-1,
    required=True,
    callback=_check_names,
    metavar="RUNTIME...",
    shell_complete=completions.runtimes,
)
@click.option("--yes", is_flag=True, help="Run the commands instead of printing them.")
@options.as_json
def install(installed: tuple[str, ...], *, yes: bool, as_json: bool) -> None:
    """Print or run the commands that install runtimes with this machine's package managers.

    Packages of npm and pip go into Paddock's own directory. Other packages are installed for the machine. `types` is
    the TypeScript compiler that checks programs before their first call; its hash is compared with a pinned one.
    """
    target = directories.find_install_directory(spec.user(ProcessGrants(), None, "landlock"))
    wanted: dict[tuple[str, ...], None] = {}
    impossible: list[str] = []
    known = _find_recipes(tuple(name for name in installed if name != _TYPES))
    for name in installed:
        try:
            if name == _TYPES:
                wanted[compiler.make_install_command(target)] = None
            else:
                wanted |= dict.fromkeys(commands(known[name], target))
        except (NotInstallableError, compiler.CompilerPackageError) as error:
            impossible.append(str(error))
    if as_json:
        print_json(list(wanted))
    for words in wanted:
        if not as_json:
            click.echo(shlex.join(words))
        if yes:
            try:
                subprocess.run(words, check=True, stdout=sys.stderr, umask=0o022)  # noqa: S603 - asked for
            except (OSError, subprocess.CalledProcessError) as error:
                raise CommandFailure(f"{words[0]} failed: {error}") from None
    if yes and _TYPES in installed and not impossible:
        try:
            compiler.verify_installation(target)
        except compiler.CompilerPackageError as error:
            raise CommandFailure(str(error)) from None
    if impossible:
        raise CommandFailure("\n".join(impossible))


@command.command("warm", epilog=render_examples("paddock runtimes warm", "paddock runtimes warm kotlin"))
@click.argument(
    "names", nargs=-1, callback=_check_names, metavar="[RUNTIME]...", shell_complete=completions.runtimes
)
@options.workspace
@options.settings
@options.as_json
def warm(names: tuple[str, ...], workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Build caches that make compilers start faster, such as Go's standard library and Java's class archives."""
    settings = load(workspace, flags=flags).settings
    made: dict[str, str] = {}

    async def warm_each() -> None:
        async with open_for_command(settings, workspace) as opened:
            sandbox = await opened.processes.open_sandbox()
        toolchains = Toolchains(os.environ, settings.runtimes)
        for task in list_usual_tasks(settings, workspace):
            name = task.work.runtime
            if names and name not in names:
                continue
            found = await toolchains.for_task(task, sandbox)
            if isinstance(found, Toolchain):
                user = sandbox.user(task.first_grants)
                ready = make_warm(found, directories.warm(user))
                if ready is not None:
                    made[name] = str(ready)
            elif name in names:
                raise CommandFailure(f"{found.recipe.title}: {found.reason}; {found.remedy}")

    run_until_signal(warm_each())
    if as_json:
        print_json(made)
    else:
        print_table(("runtime", "warm start"), list(made.items()))


async def _without_workspace(
    sandbox: "Sandbox", toolchains: Toolchains, task: ProgramTask, row: _RuntimeRow
) -> str:
    """Return a note on the executable for programs without access to the workspace; "" if it is the row's."""
    grants = task.terms.grants.model_copy(update={"access": "none"})
    task = task._replace(terms=task.terms.model_copy(update={"grants": grants}))
    found = await toolchains.for_task(task, sandbox)
    if isinstance(found, MissingToolchain):
        return f"with --access none: {found.reason}" if row.executable else ""
    executable = found.placeholders["executable"]
    return "" if executable == row.executable else f"with --access none: {executable}"


def _build_row(each: InstalledToolchain | MissingToolchain) -> _RuntimeRow:
    if isinstance(each, MissingToolchain):
        recipe = each.recipe
        return _RuntimeRow(recipe.name, recipe.title, "missing", reason=each.reason, remedy=each.remedy)
    toolchain = each.toolchain
    return _RuntimeRow(
        toolchain.recipe.name,
        toolchain.recipe.title,
        "found",
        executable=toolchain.placeholders["executable"],
        version=each.version,
        note=toolchain.variant.note,
    )


async def _run_greeting(opened: "OpenPaddock", workspace: Path, each: InstalledToolchain) -> _RuntimeRow:
    """Run the greeting of a runtime through the gate, like any program."""
    work = RuntimeRun(runtime=each.toolchain.recipe.name, code=hello(each.toolchain))
    request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    outcome = await opened.gate.execute(request)
    row, end = _build_row(each), outcome.program
    printed = end.stdout.head.strip() if end else ""
    if outcome.ok and printed == HELLO_OUTPUT:
        return replace(row, state="works", ms=round(outcome.usage.wall_ms + (end.compile_ms if end else 0)))
    if outcome.error is None:
        return replace(row, state="fails", reason=f"its output was {printed!r}")
    return replace(row, state="fails", reason=outcome.error.message, remedy=outcome.error.hint)
