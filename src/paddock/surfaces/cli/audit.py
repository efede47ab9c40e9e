"""`paddock audit`: read the ledger."""

import json
import select
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from paddock.model.base import count
from paddock.policy.settings.loader import load
from paddock.record.ledger.line_format import list_irregular_files
from paddock.record.ledger.read import Follower
from paddock.record.ledger.search import STATUSES, RecordFilter, find
from paddock.record.ledger.sink import EVENTS, AuditRecord
from paddock.record.ledger.verify import Finding, verify
from paddock.surfaces.cli import options
from paddock.surfaces.cli.failure import PRINTED_KEY, CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.streams import with_controls
from paddock.surfaces.cli.table import print_json, print_row, print_table, render_facts, warn

if TYPE_CHECKING:
    from click._termui_impl import ProgressBar

_POLL_INTERVAL_MS = 200
"""Interval between checks for new records, in milliseconds."""
_SLOW_BYTES = 32 * 1024 * 1024
"""Size of records that take about a second to index, in bytes."""


_add_cluster = click.option(
    "--cluster", "shared", is_flag=True, help="Read the record of all nodes, in the database of cluster.url."
)


@click.group(
    "audit",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock audit tail -n 5", "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D", "paddock audit verify"
    ),
)
def command() -> None:
    """Read and verify the ledger."""


@command.command(
    "tail",
    epilog=render_examples(
        "paddock audit tail",
        "paddock audit tail -n 100 --event decided --json",
        "paddock audit tail --server git --status failed --since 24h --until 1h",
        "paddock audit tail --actor claude --follow",
        "paddock audit tail --cluster --since 1h",
    ),
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Maximum number of records, the newest ones.",
)
@click.option("--event", type=click.Choice(EVENTS), help="Only records of this event.")
@click.option("--actor", help="Only requests of this user, client or schedule.")
@click.option("--status", type=click.Choice(STATUSES), help="Only requests with this status.")
@click.option("--server", help="Only calls of this upstream server.")
@click.option("--tool", help="Only calls of this tool: TOOL or SERVER/TOOL of a server, or a script tool.")
@options.since
@options.until
@click.option("-f", "--follow", is_flag=True, help="Keep printing new records; with --json one line each.")
@_add_cluster
@options.workspace
@options.settings
@options.as_json
def tail(
    *,
    limit: int,
    event: str | None,
    actor: str | None,
    status: str | None,
    server: str | None,
    tool: str | None,
    since: datetime | None,
    until: datetime | None,
    follow: bool,
    shared: bool,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Show the last records, the newest one at the end."""
    if follow and until is not None:
        raise click.UsageError("--follow shows new records, and --until ends before them; use one of the two")
    wanted = RecordFilter(
        event=event, actor=actor, status=status, server=server, tool=tool, since=since, until=until
    )
    if shared:
        from paddock.surfaces.cli import cluster_record
        from paddock.surfaces.cli.cluster import find_url

        url = find_url(load(workspace, flags=flags).settings)
        cluster_record.print_tail(url, wanted, limit=limit, follow=follow, as_json=as_json)
        return
    directory = _find_directory(workspace, flags)
    follower = Follower(directory) if follow else None
    newest = _find_records(directory, wanted, limit=limit)[::-1]
    if follower is None:
        empty = "no records match" if wanted != RecordFilter() else f"nothing is recorded yet in {directory}"
        _print_records(newest, as_json=as_json, empty=empty)
        return
    # Print what follows, too, until Ctrl-C, or until standard output has no reader.
    click.get_current_context().meta[PRINTED_KEY] = True
    shown = {record.id for record in newest}
    _print_lines(newest, as_json=as_json)
    reader = select.poll()
    reader.register(sys.stdout, 0)  # only errors are reported
    while not reader.poll(_POLL_INTERVAL_MS):
        new = (record for record in follower.new_records() if wanted.matches(record))
        _print_lines((record for record in new if record.id not in shown), as_json=as_json)
    raise BrokenPipeError


@command.command(
    "show",
    epilog=render_examples(
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D",
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D --all",
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D --json",
        "paddock audit show 01JD3W0ZV6N4YQ1R2X5T7B8C9D --cluster",
    ),
)
@click.argument("id_", metavar="ID")
@click.option(
    "--all", "everything", is_flag=True, help="Show all records of its calls. --json also prints all."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    help=f"Maximum number of records of its calls, the newest ones. Default: {options.LISTED_ENTRIES}.",
)
@_add_cluster
@options.workspace
@options.settings
@options.as_json
def show(
    id_: str,
    workspace: Path,
    flags: dict[str, str],
    *,
    everything: bool,
    limit: int | None,
    shared: bool,
    as_json: bool,
) -> None:
    """Show the records of a request and the newest records of its calls, or the one record with that id."""
    if shared:
        from paddock.surfaces.cli import cluster_record
        from paddock.surfaces.cli.cluster import find_url

        url = find_url(load(workspace, flags=flags).settings)
        most = options.choose_limit(limit, everything=everything or as_json)
        cluster_record.print_request(url, id_, limit=most, as_json=as_json)
        return
    directory = _find_directory(workspace, flags)
    newest_first = _find_records(directory, RecordFilter(name=id_))
    if not newest_first:
        raise CommandFailure(f"No record of {id_} in {directory}; `paddock audit tail` shows the newest")
    count = options.choose_limit(limit, everything=everything or as_json)
    calls = [record for record in newest_first if record.parent == id_]
    hidden = {record.id for record in calls[count:]} if count else set[str]()
    options.report_hidden(len(calls) - len(hidden), len(hidden))
    _print_records([record for record in reversed(newest_first) if record.id not in hidden], as_json=as_json)


@command.command(
    "verify",
    epilog=render_examples(
        "paddock audit verify",
        "paddock audit verify --json",
        "paddock audit verify --archive /backup/ledger",
        "paddock audit verify --cluster --key paddock+81b0c0e3+AaGWZnT8P8ydLvw7Pg/zOWrIV3NNWW7A1eNpfAcC2XxX",
        "paddock audit verify --cluster --known ./checkpoint-of-march",
    ),
)
@click.option(
    "--cluster", "shared", is_flag=True, help="Check the record of all nodes and its signed checkpoints."
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="With --cluster: public key of the checkpoints. Default: that of cluster.checkpoint_key_file.",
)
@click.option(
    "--known",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --cluster: file with a checkpoint that the record must have.",
)
@click.option(
    "--archive",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Check the days that `paddock audit archive` moved to this directory.",
)
@options.workspace
@options.settings
@options.as_json
def verify_(
    workspace: Path,
    flags: dict[str, str],
    *,
    shared: bool,
    folder: Path | None,
    keys: tuple[str, ...],
    known: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Check the whole ledger. Exit code: 1 if it was changed."""
    if shared and folder is not None:
        raise click.UsageError("--archive and --cluster exclude each other.")
    if shared:
        from paddock.surfaces.cli import cluster_record

        settings = load(workspace, flags=flags).settings
        cluster_record.print_verdict(settings, keys, known, as_json=as_json)
        return
    if keys or known:
        raise click.UsageError("--key and --known require --cluster.")
    directory = _find_directory(workspace, flags)
    if folder is None:
        report = verify(directory)
    else:
        from paddock.record.ledger.archive import verify_archive

        report = verify_archive(folder.absolute(), directory)
        directory = folder.absolute()
    if as_json:
        print_json({"directory": str(directory), **report.model_dump(mode="json")})
    else:
        for finding in report.notes:
            click.echo(f"note: {_render_place(finding)}: {finding.message}")
        for finding in report.problems:
            click.echo(f"problem: {_render_place(finding)}: {finding.message}")
        for day in report.archived:
            click.echo(f"archived: {day.file} in {day.folder}, up to record {day.last_seq}")
        verdict = "ok" if report.ok else "changed"
        click.echo(
            f"{verdict}: {count(report.records, 'record')} in {count(report.files, 'file')} of {directory}"
        )
        click.echo(f"last: {report.last_seq} {report.last_hash}")
    click.get_current_context().exit(0 if report.ok else 1)


@command.command(
    "archive",
    epilog=render_examples(
        "paddock audit archive /backup/ledger --older-than 90d",
        "paddock audit archive /backup/ledger --older-than 2026-01-01 --dry-run",
        "paddock audit verify --archive /backup/ledger",
    ),
)
@click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@options.add_moment_option(
    "--older-than",
    "before",
    required=True,
    help="Only days that ended before this time: an age such as 90d, or a date.",
)
@click.option("--dry-run", is_flag=True, help="Show the days, and change nothing.")
@options.workspace
@options.settings
@options.as_json
def archive_(
    folder: Path, before: datetime, workspace: Path, flags: dict[str, str], *, dry_run: bool, as_json: bool
) -> None:
    """Move closed days of the ledger to a directory. Records are copied, synced and compared before their removal.

    The ledger records the number, the hash and the SHA-256 of each day, so that `paddock audit verify` continues the
    chain and `paddock audit verify --archive` proves the moved files.
    """
    from paddock.record.ledger.archive import archive

    settings = load(workspace, flags=flags).settings
    directory, folder = settings.audit.directory, folder.absolute()
    if settings.cluster.url and not dry_run:
        raise CommandFailure(
            "This ledger belongs to a cluster, which reads it from its first record on (cluster.url). "
            "Nothing was archived. Back up the directory instead: " + str(directory)
        )
    days = archive(directory, folder, before, dry_run=dry_run)
    if as_json:
        found = [day.model_dump(mode="json", exclude={"folder"}) for day in days]
        print_json({"directory": str(directory), "folder": str(folder), "dry_run": dry_run, "days": found})
        return
    verb = "would archive" if dry_run else "archived"
    for day in days:
        click.echo(f"{verb}: {day.file}, up to record {day.last_seq}")
    if not days:
        click.echo(f"nothing to archive: no closed day of {directory} is that old")


def _find_directory(workspace: Path, flags: dict[str, str]) -> Path:
    return load(workspace, flags=flags).settings.audit.directory


def _find_records(directory: Path, wanted: RecordFilter, *, limit: int | None = None) -> list[AuditRecord]:
    """Return matching records, newest first. On a terminal, show the progress of indexing if it takes long."""
    for name in list_irregular_files(directory):
        warn(f"{directory / name} is not a regular file, so its records are not shown: move it away")
    with _AuditProgress() as progress:
        return list(find(directory, wanted, limit=limit, on_progress=progress))


class _AuditProgress:
    """Shows the progress of indexing the ledger, if it takes a second or more."""

    def __init__(self) -> None:
        self._bar: ProgressBar[int] | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if total - done < _SLOW_BYTES:
                return
            bar = click.progressbar(length=total, label="indexing the record", file=with_controls(sys.stderr))
            self._bar = self._open.enter_context(bar)
        self._bar.update(done - self._bar.pos)


def _print_lines(records: Iterable[AuditRecord], *, as_json: bool) -> None:
    for record in records:
        if as_json:
            click.echo(json.dumps(record.model_dump(mode="json")))
        else:
            print_row(_build_row(record))


def _print_records(records: Iterable[AuditRecord], *, as_json: bool, empty: str = "") -> None:
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
        return
    print_table(("time", "event", "request", "facts"), list(map(_build_row, records)), empty=empty)


def _build_row(record: AuditRecord) -> tuple[str, ...]:
    return record.ts, record.event, record.request, render_facts(record)


def _render_place(finding: Finding) -> str:
    return finding.file if finding.line is None else f"{finding.file}, line {finding.line}"
