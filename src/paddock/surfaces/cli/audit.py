"""`paddock audit`: what was done, as the ledger has it."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from paddock.configuration import load
from paddock.model.ids import minted_at
from paddock.store.audit import EVENTS, AuditRecord
from paddock.store.ledger_read import read
from paddock.store.ledger_verify import Finding, verify
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import Failure
from paddock.surfaces.cli.help import Group, examples
from paddock.surfaces.cli.table import print_json, print_table


@click.group(
    "audit",
    cls=Group,
    epilog=examples(
        "paddock audit tail -n 5", "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D", "paddock audit verify"
    ),
)
def command() -> None:
    """Read and verify the record of what was done."""


@command.command(
    "tail", epilog=examples("paddock audit tail", "paddock audit tail -n 100 --event decided --json")
)
@click.option("-n", "count", type=click.IntRange(1), default=20, show_default=True, help="How many records.")
@click.option("--event", type=click.Choice(EVENTS), help="Only records of this event.")
@options.workspace
@options.settings
@options.as_json
def tail(count: int, event: str | None, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the last records, the newest at the end."""
    newest = list(read(_directory(workspace, flags), event=event, limit=count))
    _print(reversed(newest), as_json=as_json)


@command.command(
    "show",
    epilog=examples(
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D",
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D --json",
    ),
)
@click.argument("id_", metavar="ID")
@options.workspace
@options.settings
@options.as_json
def show(id_: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show every record of a request and of what it called, or the one record with that id."""
    directory = _directory(workspace, flags)
    records = read(directory, since=_minted(id_), newest_first=False)
    found = [record for record in records if id_ in (record.id, record.request, record.parent)]
    if not found:
        raise Failure(f"No record of {id_} in {directory}")
    _print(found, as_json=as_json)


@command.command("verify", epilog=examples("paddock audit verify", "paddock audit verify --json"))
@options.workspace
@options.settings
@options.as_json
def verify_(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Check the whole ledger; the exit code is 1 when somebody changed it."""
    directory = _directory(workspace, flags)
    report = verify(directory)
    if as_json:
        print_json({"directory": str(directory), **report.model_dump(mode="json")})
    else:
        for finding in report.notes:
            click.echo(f"note: {_place(finding)}: {finding.message}")
        for finding in report.problems:
            click.echo(f"problem: {_place(finding)}: {finding.message}")
        verdict = "ok" if report.ok else "changed"
        click.echo(f"{verdict}: {report.records} records in {report.files} files of {directory}")
        click.echo(f"last: {report.last_seq} {report.last_hash}")
    click.get_current_context().exit(0 if report.ok else 1)


def _directory(workspace: Path, flags: dict[str, str]) -> Path:
    return load(workspace, flags=flags).settings.audit.directory


def _minted(id_: str) -> datetime | None:
    """Return when an id was made; no record of it is older."""
    seconds = minted_at(id_)
    try:
        return None if seconds is None else datetime.fromtimestamp(seconds, UTC)
    except ValueError:  # an id can tell of years after 9999
        return None


def _print(records: Iterable[AuditRecord], *, as_json: bool) -> None:
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
        return
    rows = [(record.ts, record.event, record.request, _facts(record)) for record in records]
    print_table(("time", "event", "request", "facts"), rows)


def _facts(record: AuditRecord) -> str:
    """Return what people want to read of a record; hashes are for programs (`--json`)."""
    facts = {**({"parent": record.parent} if record.parent else {}), **record.fields}
    return " ".join(
        f"{name}={_fact(value)}"
        for name, value in facts.items()
        if value not in (None, "", ()) and not name.endswith(("_hash", "_sha256"))
    )


def _fact(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _place(finding: Finding) -> str:
    return finding.file if finding.line is None else f"{finding.file}, line {finding.line}"
