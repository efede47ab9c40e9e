"""`paddock audit ... --cluster`: the record of all nodes."""

import asyncio
import json
import select
import sys
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from pathlib import Path

import click

from paddock.cluster.bucket import CheckpointBucket
from paddock.cluster.database import Database
from paddock.cluster.migrate import check_tables
from paddock.cluster.read_record import NodeRecord, RecordFollower, open_record
from paddock.cluster.sign import ANCHOR_NAME, read_anchor
from paddock.cluster.signed_note import MAX_NOTE_CHARS, SigningKey, VerificationKey
from paddock.cluster.verify import KnownNote, RecordFinding, RecordReport, verify_record
from paddock.model.base import count
from paddock.model.errors import ConfigurationError
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.search import RecordFilter
from paddock.surfaces.cli import options
from paddock.surfaces.cli.cluster import find_url
from paddock.surfaces.cli.failure import PRINTED_KEY, CommandFailure
from paddock.surfaces.cli.table import print_json, print_row, print_table, render_facts

_POLL_INTERVAL_S = 0.5
_PRINTED_ROWS = 1000
"""Maximum number of rows that are aligned as one table on a terminal."""
_MAX_SHOWN_IDS = 10_000
"""Maximum number of printed records that are recognized if they come again while the record is followed."""
_COLUMNS = ("time", "node", "event", "request", "facts")


def print_tail(url: str, wanted: RecordFilter, *, limit: int, follow: bool, as_json: bool) -> None:
    """Print the newest matching records of all nodes; with `follow`, also those that come."""
    click.get_current_context().meta[PRINTED_KEY] = True

    async def run() -> None:
        async with Database(url, name="paddock audit") as database:
            await check_tables(database)
            follower = RecordFollower(database)
            await follower.start()
            async with open_record(database) as reader, aclosing(reader.read(wanted, limit=limit)) as found:
                if not follow:
                    await _print_all(found, as_json=as_json, empty="no records match")
                    return
                shown: deque[str] = deque(maxlen=min(limit, _MAX_SHOWN_IDS))
                async for each in found:
                    _print_line(each, as_json=as_json)
                    shown.append(each.record.id)
            # Print the records that come, until Ctrl-C, or until standard output has no reader.
            known = set(shown)
            output = select.poll()
            output.register(sys.stdout, 0)  # only errors are reported
            while not output.poll(0):
                for new in await follower.read_new():
                    if wanted.matches(new.record) and new.record.id not in known:
                        _print_line(new, as_json=as_json)
                sys.stdout.flush()
                await asyncio.sleep(_POLL_INTERVAL_S)
            raise BrokenPipeError

    asyncio.run(run())


def print_request(url: str, id_: str, *, limit: int | None, as_json: bool) -> None:
    """Print the records of a request, and the newest `limit` records of its calls."""

    async def select_records(found: AsyncIterator[NodeRecord]) -> AsyncIterator[NodeRecord]:
        own: list[NodeRecord] = []
        calls: deque[NodeRecord] = deque(maxlen=limit)
        number = 0
        async for each in found:
            if limit is None:
                yield each
            elif each.record.parent == id_:
                calls.append(each)
                number += 1
            else:
                own.append(each)
        if limit is not None:
            options.report_hidden(len(calls), number - len(calls))
            for each in sorted([*own, *calls], key=lambda one: (one.record.ts, one.node, one.record.seq)):
                yield each

    async def run() -> int:
        async with Database(url, name="paddock audit") as database:
            await check_tables(database)
            async with (
                open_record(database) as reader,
                aclosing(reader.read(RecordFilter(name=id_))) as found,
            ):
                first = await anext(found, None)
                if first is None:
                    return 0
                return await _print_all(select_records(_chain(first, found)), as_json=as_json, empty="")

    if not asyncio.run(run()):
        raise CommandFailure(
            f"No record of {id_} in the database of cluster.url; `paddock audit tail --cluster` shows the newest"
        )


def print_verdict(settings: Settings, keys: Sequence[str], known: Sequence[Path], *, as_json: bool) -> None:
    """Verify the record, print what was found, and exit with 1 if it was changed."""
    url = find_url(settings)
    parsed = _find_keys(settings, keys)
    bucket = None if settings.artifacts.url is None else CheckpointBucket(settings.artifacts.url)
    notes = [KnownNote(str(path), _read_note(path)) for path in known]
    anchor = settings.audit.directory / ANCHOR_NAME
    if (note := read_anchor(anchor)) is not None:
        notes.append(KnownNote(str(anchor), note))

    async def run() -> RecordReport:
        async with Database(url, name="paddock audit") as database:
            await check_tables(database)
            return await verify_record(
                database, parsed, directory=settings.audit.directory, known=notes, bucket=bucket
            )

    report = asyncio.run(run())
    if as_json:
        print_json(report.model_dump(mode="json"))
    else:
        for kind, findings in (("note", report.notes), ("problem", report.problems)):
            for finding in findings:
                click.echo(f"{kind}: {render_finding(finding)}")
        click.echo(
            f"{'ok' if report.ok else 'changed'}: {count(report.records, 'record')} of "
            f"{count(report.nodes, 'node')} in {count(report.chains, 'chain')}, "
            f"{count(report.checkpoints, 'checkpoint')}"
        )
        if report.last is not None:
            click.echo(f"last checkpoint: {report.last} of {report.time}, root {report.root}")
        click.echo(f"not signed yet: {count(report.unsigned, 'record')}")
    click.get_current_context().exit(0 if report.ok else 1)


def render_finding(finding: RecordFinding) -> str:
    """Return a finding with the node, record and checkpoint that it concerns."""
    place = [
        *([f"node {finding.node}"] if finding.node is not None else []),
        *([f"chain {finding.chain}"] if finding.chain is not None and finding.seq is None else []),
        *([f"record {finding.seq}"] if finding.seq is not None else []),
        *([f"checkpoint {finding.checkpoint}"] if finding.checkpoint is not None else []),
    ]
    return f"{', '.join(place)}: {finding.message}" if place else finding.message


def _find_keys(settings: Settings, keys: Sequence[str]) -> list[VerificationKey]:
    try:
        found = [VerificationKey.parse(key) for key in keys]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if not found and (path := settings.cluster.checkpoint_key_file) is not None:
        found = [SigningKey.read(path, settings.cluster.name).public]
    if not found:
        raise CommandFailure(
            "the public key of the checkpoints is not known, and without it nothing proves who signed them; "
            "give it with --key, as `paddock cluster key` printed it"
        )
    return found


def _read_note(path: Path) -> str:
    try:
        with path.open("rb") as file:
            note = file.read(4 * MAX_NOTE_CHARS).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is no checkpoint: {error}") from None
    if "\n\n\u2014 " not in note:
        raise ConfigurationError(
            f"{path} is no checkpoint: it has no signature; give --known a copy of the file {ANCHOR_NAME} in "
            "audit.directory of a replica that signs, or the text in the column note of the table checkpoint"
        )
    return note.rstrip("\n") + "\n"  # psql prints one more newline


async def _chain(first: NodeRecord, others: AsyncIterator[NodeRecord]) -> AsyncIterator[NodeRecord]:
    yield first
    async for each in others:
        yield each


async def _print_all(found: AsyncIterator[NodeRecord], *, as_json: bool, empty: str) -> int:
    """Print records as they are read: rows, or one JSON array. Return their number."""
    number = 0
    if as_json:
        click.get_current_context().meta[PRINTED_KEY] = True
        async for each in found:
            click.echo("," if number else "[", nl=sys.stdout.isatty())
            click.echo(json.dumps(each.dump()), nl=False)
            number += 1
        click.echo("]" if number else "[]")
        return number
    rows: list[tuple[str, ...]] = []
    async for each in found:
        number += 1
        rows.append(_make_row(each))
        if len(rows) == _PRINTED_ROWS:
            print_table(_COLUMNS, rows)
            rows = []
    if rows or not number:
        print_table(_COLUMNS, rows, empty=empty)
    return number


def _print_line(found: NodeRecord, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(found.dump()))
    else:
        print_row(_make_row(found))


def _make_row(found: NodeRecord) -> tuple[str, ...]:
    record = found.record
    return record.ts, found.node, record.event, record.request, render_facts(record)
