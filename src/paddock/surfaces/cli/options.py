"""Options that several commands share."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from paddock.model.base import count
from paddock.model.directories import DIRECTORY_SUFFIXES, GrantedDirectory
from paddock.model.limits import MIB
from paddock.model.network import NETWORKS
from paddock.policy.settings.units import DURATIONS, MAX_AMOUNT, SIZES, read_duration_ms, read_size_bytes
from paddock.record.ledger.moment import parse_end, parse_moment

LISTED_ENTRIES = 50
"""Default number of entries in a list that grows with use."""


class _DirectoryParameter(click.Path):
    """An existing directory, as its real path."""

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:  # noqa: ANN401 - click's signature
        try:
            return super().convert(value, param, ctx)
        except FileNotFoundError:  # the current directory, at which relative names start
            self.fail("the current directory was removed; go to another one", param, ctx)


directory = _DirectoryParameter(exists=True, file_okay=False, resolve_path=True, path_type=Path)

workspace = click.option(
    "--workspace",
    "-w",
    type=directory,
    default=Path(),
    help="Workspace directory. Default: the current directory.",
)


def _parse_directories(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> tuple[GrantedDirectory, ...]:
    """Return DIR[:ro|:rw|:overlay] strings as directories with the access to each, by default reading."""
    found: list[GrantedDirectory] = []
    for text in texts:
        path, _, suffix = text.rpartition(":")
        if not path or suffix not in DIRECTORY_SUFFIXES:
            path, suffix = text, "ro"
        real = directory.convert(path, parameter, context)
        found.append(GrantedDirectory(path=real, access=DIRECTORY_SUFFIXES[suffix]))
    return tuple(found)


add_dir = click.option(
    "--add-dir",
    multiple=True,
    callback=_parse_directories,
    metavar="DIR[:ro|:rw|:overlay]",
    help="Let it use a directory beside the workspace: read it, write there (:rw), or make changes that wait "
    "to be accepted (:overlay). Repeatable.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def _parse_pairs(_context: click.Context, parameter: click.Parameter, texts: Sequence[str]) -> dict[str, str]:
    """Return KEY=VALUE strings as a mapping: split at the first `=`; the last value of a key counts."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE", param=parameter)
        pairs[key] = value
    return pairs


def add_pairs_option(*names: str, help: str) -> Callable[[Any], Any]:
    """Return a repeatable option whose values are KEY=VALUE."""
    return click.option(*names, multiple=True, metavar="KEY=VALUE", callback=_parse_pairs, help=help)


def _parse_duration(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        milliseconds = read_duration_ms(text) if text.strip()[-1:].isalpha() else float(text) * 1000
    except ValueError:
        milliseconds = 0
    if not 0 < milliseconds <= MAX_AMOUNT:
        raise click.BadParameter(f"must be a number of seconds above 0, or {DURATIONS}", param=parameter)
    return max(1, round(milliseconds))


def _read_network(
    _context: click.Context, parameter: click.Parameter, text: str | None
) -> str | list[str] | None:
    if text is None or text in NETWORKS:
        return text
    names = [name.strip() for name in text.split(",")]
    if all("." in name or ":" in name for name in names):
        return names
    hint = "; for servers that the program starts itself, write loopback" if "localhost" in names else ""
    raise click.BadParameter(
        f"{text!r} is neither {', '.join(NETWORKS)} nor a list of hosts, such as "
        f"api.example.com,files.example.com{hint}",
        param=parameter,
    )


def add_network_option(help: str) -> Callable[[Any], Any]:
    """Return the option for access to the network. Its value is a grant, or the list of hosts that were named."""
    text = f"{help}: none, loopback, hosts, full, or hosts by name, e.g. api.example.com,files.example.com."
    return click.option("--network", metavar="NETWORK", callback=_read_network, help=text)


def add_timeout_option(help: str) -> Callable[[Any], Any]:
    """Return the option for a wall time; see `add_duration_option`."""
    return add_duration_option("--timeout", help=help)


def add_duration_option(*names: str, help: str) -> Callable[[Any], Any]:
    """Return an option for a time, in seconds or as a duration with a unit. Its value is in milliseconds."""
    return click.option(
        *names, metavar="DURATION", callback=_parse_duration, help=f"{help}, e.g. 2.5 or 500ms."
    )


def _parse_size(_context: click.Context, parameter: click.Parameter, text: str | None) -> int | None:
    try:
        size = None if text is None else int(text) if text.isdecimal() else read_size_bytes(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param=parameter) from None
    if size is not None and 0 < size < MIB:
        what = f"{text} is {count(size, 'byte')}, and no program runs with less than 1MiB; write a size such as {SIZES}"
        raise click.BadParameter(what, param=parameter)
    return size or None


def add_size_option(*names: str, help: str) -> Callable[[Any], Any]:
    """Return an option for a size with its unit. Its value is in bytes."""
    return click.option(*names, metavar="SIZE", callback=_parse_size, help=f"{help}, e.g. 512MiB.")


timeout_ms = click.option("--timeout-ms", type=click.IntRange(1), hidden=True)
"""The deprecated spelling of `--timeout`, in milliseconds."""


def choose_timeout_ms(timeout: int | None, timeout_ms: int | None) -> int | None:
    """Return the wall time from `--timeout` or its deprecated spelling. Raises UsageError for both."""
    if timeout is not None and timeout_ms is not None:
        raise click.UsageError("The timeout is given twice: with --timeout and with --timeout-ms.")
    return timeout if timeout_ms is None else timeout_ms


def _parse_moment(_context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    try:
        return None if text is None else (parse_end if parameter.name == "until" else parse_moment)(text)
    except ValueError as problem:
        raise click.BadParameter(str(problem), param=parameter) from None


def add_moment_option(*names: str, required: bool = False, help: str) -> Callable[[Any], Any]:
    """Return an option for a time: an age, or a date in ISO 8601."""
    return click.option(*names, metavar="AGE|DATE", callback=_parse_moment, required=required, help=help)


since = add_moment_option("--since", help="Only records since this time: an age such as 24h, or a date.")
until = add_moment_option(
    "--until",
    help="Only records until this time: an age such as 24h, or a date, whose whole day is included.",
)


limit = click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    help=f"Maximum number of entries, the newest ones. Default: {LISTED_ENTRIES}.",
)


def choose_limit(limit: int | None, *, everything: bool) -> int | None:
    """Return the maximum number of entries from `--limit` or `--all`; None for all."""
    return limit or (None if everything else LISTED_ENTRIES)


def report_hidden(shown: int, hidden: int) -> None:
    """Print to standard error how many older entries a list leaves out."""
    if hidden:
        click.echo(f"{hidden} older entries not shown; --limit {shown + hidden} shows them", err=True)


settings = add_pairs_option(
    "--set", "flags", help="Set a setting for this command, e.g. limits.script.sleep_ms=50."
)
