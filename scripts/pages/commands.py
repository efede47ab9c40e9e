"""Every command, from its help page."""

import inspect
from collections.abc import Iterator
from itertools import takewhile

import click

from paddock.surfaces.cli.root import command
from pages.text import table

HEAD = """\
# Commands

<!-- Written by scripts/reference.py from src/paddock/surfaces/cli; `make check` compares. Change the help texts. -->

Each command prints the text on this page with `--help`. With `--json` a command prints one JSON document for
programs. On failure that is `{"error": {"message": ...}}`, and the same message is on standard error.
[Configuration](configuration.md) lists the settings and their sources. [Exit codes](answers.md#exit-codes)
lists the exit codes.

"""
_HELP = "help"


def page() -> str:
    """Return the page."""
    top = click.Context(command, info_name="paddock")
    names = command.list_commands(top)
    index = table(
        ("command", "what it does"),
        [(f"[`paddock {name}`](#paddock-{name})", first_line(found(command, top, name))) for name in names],
    )
    parts = [part for name in names for part in sections(found(command, top, name), f"paddock {name}", top)]
    return HEAD + index + "\n" + "\n".join(parts)


def sections(work: click.Command, path: str, above: click.Context) -> Iterator[str]:
    """Yield the section of a command, then those of the commands below it."""
    context = click.Context(work, info_name=path.rpartition(" ")[2], parent=above)
    words = path.split()
    usage = " ".join([*words, *work.collect_usage_pieces(context)])
    yield f"{'#' * min(len(words), 4)} `{path}`\n\n```text\n{usage}\n```\n"
    yield inspect.cleandoc(work.help or "").replace("\b\n", "") + "\n"
    rows = [row for parameter in work.get_params(context) if (row := option(parameter, context))]
    if rows:
        yield table(("option", "what it is"), rows)
    if lines := examples(work.epilog or ""):
        yield "```text\n" + "\n".join(lines) + "\n```\n"
    if isinstance(work, click.Group):
        for name in work.list_commands(context):
            yield from sections(found(work, context, name), f"{path} {name}", context)


def option(parameter: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    """Return the cells of an option; None for an argument, and for the one that prints this page."""
    told = parameter.get_help_record(context)
    if told is None or parameter.name == _HELP or isinstance(parameter, click.Argument):
        return None
    return f"`{told[0]}`".replace("|", r"\|"), told[1].replace("|", r"\|")


def examples(epilog: str) -> list[str]:
    """Return the command lines at the end of a help page."""
    _, _, rest = epilog.partition("Examples:\n")
    return [line.strip() for line in takewhile(str.strip, rest.splitlines())]


def first_line(work: click.Command) -> str:
    """Return the first sentence of a command."""
    return " ".join(inspect.cleandoc(work.help or "").split("\n\n")[0].split())


def found(group: click.Group, context: click.Context, name: str) -> click.Command:
    """Return a command of a group."""
    work = group.get_command(context, name)
    assert work is not None
    return work
