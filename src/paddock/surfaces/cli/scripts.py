"""`paddock script`: scripts that run by name."""

from pathlib import Path

import click

from paddock.engines.saved_scripts import SUFFIXES, find, list_scripts, read
from paddock.surfaces.cli import options, script_tests
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.table import print_json, print_table

_TEMPLATE = """\
// Run it with: paddock run {name} --var NAME=world
const name = paddock.vars.NAME ?? "there";
console.log(`Hello, ${{name}}!`);
"""


@click.group(
    "script",
    cls=CommandGroup,
    epilog=render_examples("paddock script new report", "paddock script list", "paddock script show report"),
)
def command() -> None:
    """List, create, show and test saved scripts."""


@command.command(
    "list", epilog=render_examples("paddock script list", "paddock script list --workspace ~/project --json")
)
@options.workspace
@options.as_json
def list_(workspace: Path, *, as_json: bool) -> None:
    """List the scripts of the workspace and of the home directory.

    If two scripts have the same name, the first one runs and the others are marked as hidden.
    """
    seen: set[str] = set()
    found: list[tuple[str, Path, bool]] = []
    for name, path in list_scripts(workspace):
        found.append((name, path, name in seen))
        seen.add(name)
    if as_json:
        print_json([{"name": name, "path": str(path), "hidden": hidden} for name, path, hidden in found])
    else:
        rows = [(name, str(path), "hidden" if hidden else "") for name, path, hidden in found]
        print_table(
            ("name", "file", ""), rows, empty="there are no scripts here; create one: paddock script new NAME"
        )


@command.command("new", epilog=render_examples("paddock script new report", "paddock script new report.js"))
@click.argument("name")
@options.workspace
@options.as_json
def new(name: str, workspace: Path, *, as_json: bool) -> None:
    """Create a script in .paddock/scripts of the workspace and print its path."""
    if not name or "/" in name or name.startswith((".", "~", "-")) or not name.isprintable():
        raise click.BadParameter(f"{name!r} is not a plain name", param_hint="NAME")
    path = workspace / ".paddock" / "scripts" / (name if name.endswith(SUFFIXES) else f"{name}.ts")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        file = path.open("x", encoding="utf-8")
    except FileExistsError:
        raise CommandFailure(f"{path} exists already; choose another name or remove it") from None
    try:
        with file:
            file.write(_TEMPLATE.format(name=path.stem))
    except OSError as problem:
        path.unlink()
        raise CommandFailure(f"{path}: cannot be written: {problem.strerror}") from None
    if as_json:
        print_json({"name": path.stem, "path": str(path)})
    else:
        click.echo(path)


command.add_command(script_tests.command)


@command.command(
    "show", epilog=render_examples("paddock script show report", "paddock script show report --json")
)
@click.argument("name")
@options.workspace
@options.as_json
def show(name: str, workspace: Path, *, as_json: bool) -> None:
    """Print the source of a script."""
    script, path = read(name, workspace), find(name, workspace)
    if as_json:
        print_json({"name": path.stem, "path": str(path.absolute()), "source": script.source})
    else:
        click.echo(script.source, nl=not script.source.endswith("\n"))
