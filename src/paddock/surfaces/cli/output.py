"""`paddock output`: the stored output of programs."""

import re
import sys
from itertools import islice
from pathlib import Path
from typing import Literal

import click

from paddock.gate.stored_output import open_artifacts
from paddock.model.artifact import STREAMS, Cursor, LineRange, OutputQuery, Stream
from paddock.model.capture import decode_stream
from paddock.policy.settings.loader import load
from paddock.record.output.artifacts import Artifacts, StoredArtifact
from paddock.record.output.query import OpenArtifact, query
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.stream_output import TerminalStream, print_excerpts
from paddock.surfaces.cli.streams import why_broken
from paddock.surfaces.cli.table import print_json, print_table, warn
from paddock.surfaces.rendering.terminal import make_encodable

_EXAMPLE = "runtime-demo-1774356909696-fc5aa1f22e33e17c"

_stream = click.option(
    "--stream",
    type=click.Choice(("stdout", "stderr", "both")),
    default="both",
    show_default=True,
    help="Which of the two.",
)


@click.group(
    "output",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock output list",
        f"paddock output query {_EXAMPLE} --term error",
        f"paddock output show {_EXAMPLE}",
    ),
)
def command() -> None:
    """Search, show and delete stored output of programs."""


def _parse_range(
    _context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[int, int] | None:
    if text is None:
        return None
    found = re.fullmatch(r"([1-9][0-9]{0,9})-([1-9][0-9]{0,9})", text)
    if found is None or int(found[1]) > int(found[2]):
        raise click.BadParameter(f"{text!r} is not FIRST-LAST, for example 10-20", param=parameter)
    return int(found[1]), int(found[2])


@command.command(
    "query",
    epilog=render_examples(
        f"paddock output query {_EXAMPLE} --term error --term warning --context 5",
        f"paddock output query {_EXAMPLE} --lines 100-120 --stream stderr",
        f"paddock output query {_EXAMPLE} --term error --after 240 --json",
    ),
)
@click.argument("handle", shell_complete=completions.handles)
@click.option(
    "-t", "--term", "--query", "terms", multiple=True, help="Text to look for, in either case; up to 10."
)
@click.option(
    "--lines", metavar="FIRST-LAST", callback=_parse_range, help="Lines to read, at most 1000 at a time."
)
@_stream
@click.option("--after", type=click.IntRange(0), help="Go on after this line (of stdout, or of --stream).")
@click.option(
    "--context", type=click.IntRange(0, 20), default=3, show_default=True, help="Lines around a match."
)
@click.option(
    "--max", "max_excerpts", type=click.IntRange(1, 100), default=10, show_default=True, help="Most excerpts."
)
@options.workspace
@options.settings
@options.as_json
def query_(
    handle: str,
    *,
    terms: tuple[str, ...],
    lines: tuple[int, int] | None,
    stream: Literal["stdout", "stderr", "both"],
    after: int | None,
    context: int,
    max_excerpts: int,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """Print the parts of stored output that hold a term, or lines by their numbers."""
    if not (terms or lines or after is not None):
        raise click.UsageError("give --term, --lines or --after")
    if lines and (terms or after is not None):
        raise click.UsageError("--lines cannot be combined with --term or --after")
    if len(terms) > 10 or any(not 1 <= len(term) <= 1000 for term in terms):
        raise click.UsageError("give up to 10 terms of 1 to 1000 characters")
    if any(make_encodable(term) != term for term in terms):
        raise click.UsageError("a term is not UTF-8 text; output is searched as UTF-8")
    first: Stream = "stdout" if stream == "both" else stream
    asked = OutputQuery(
        artifact_handle=handle,
        query_terms=terms,
        max_excerpts=max_excerpts,
        context_lines=context,
        stream=stream,
        cursor=None if after is None else Cursor(stream=first, after_line=after),
        line_range=LineRange(stream=first, start_line=lines[0], end_line=lines[1]) if lines else None,
    )
    found = query(_open_artifacts(workspace, flags), asked, workspace)
    if as_json:
        print_json(found.to_wire())
        return
    # Excerpts go to standard output, and notes to standard error.
    print_excerpts(found.to_wire()["excerpts"])
    if found.match_status == "noMatchFallback":
        click.echo("no match; these are the first lines" if found.excerpts else "no output", err=True)
    if found.match_status == "lineRange" and not found.excerpts:
        searched = " and ".join(found.searched_streams)
        has = f"{searched} has {found.total_lines}" if searched else "there was no output on this stream"
        click.echo(f"no such lines: {has}", err=True)
    if (more := found.next_cursor) is not None:
        option = " --stream stderr" if more.stream == "stderr" else ""
        click.echo(f"there is more: --after {more.after_line}{option}", err=True)


@command.command(
    "get",
    epilog=render_examples(
        f"paddock output get {_EXAMPLE} -o plot.png",
        f"paddock output get {_EXAMPLE} > table.csv",
    ),
)
@click.argument("handle", shell_complete=completions.handles)
@click.option(
    "-o",
    "--output",
    "target",
    type=click.Path(path_type=Path),
    help="File to write, which must not exist yet.",
)
@options.workspace
@options.settings
def get(handle: str, *, target: Path | None, workspace: Path, flags: dict[str, str]) -> None:
    """Write a stored file, or standard output of a program, to a file or to standard output."""
    data = _open_artifacts(workspace, flags).read(handle, workspace)
    if target is None:
        sys.stdout.buffer.write(data)
        return
    try:
        with target.open("xb") as stream:
            stream.write(data)
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        why = "it exists already; remove it, or choose another name" if exists else error.strerror
        raise CommandFailure(f"{target} cannot be written: {why}") from None


@command.command(
    "show",
    epilog=render_examples(
        f"paddock output show {_EXAMPLE}",
        f"paddock output show {_EXAMPLE} --stream stdout > result.txt",
        f"paddock output show {_EXAMPLE} --json",
    ),
)
@click.argument("handle", shell_complete=completions.handles)
@_stream
@options.workspace
@options.settings
@options.as_json
def show(
    handle: str,
    stream: Literal["stdout", "stderr", "both"],
    workspace: Path,
    flags: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Print stored output whole, each stream to its own; with --json what is known about it instead."""
    reading = OpenArtifact(_open_artifacts(workspace, flags), handle, workspace)
    if as_json:
        print_json(_collect_facts(reading.found))
        return
    empty = True
    for name in STREAMS if stream == "both" else (stream,):
        target = sys.stdout if name == "stdout" else sys.stderr
        screen = TerminalStream(target) if target.isatty() else None
        take = decode_stream(screen.write_piece) if screen else target.buffer.write
        for piece in reading.pieces(name):
            empty = empty and not piece
            take(piece)
        if screen:
            screen.end()
        target.flush()
        if (error := why_broken(target)) is not None:
            raise error
    if empty and sys.stderr.isatty():  # otherwise standard error gets only the program's own output
        click.echo("this output is empty" if stream == "both" else f"there is nothing on {stream}", err=True)


@command.command("list", epilog=render_examples("paddock output list", "paddock output list --all --json"))
@click.option("--all", "everything", is_flag=True, help="Of every workspace, and all of it without --limit.")
@options.limit
@options.workspace
@options.settings
@options.as_json
def list_(
    workspace: Path, flags: dict[str, str], *, everything: bool, limit: int | None, as_json: bool
) -> None:
    """List stored output of this workspace, the newest at the end."""
    count = options.choose_limit(limit, everything=everything)
    readable = _open_artifacts(workspace, flags).readable(None if everything else workspace)
    found = list(islice(readable, count))[::-1]
    options.report_hidden(len(found), sum(1 for _ in readable))
    if as_json:
        print_json([_collect_facts(each) for each in found])
    else:
        print_table(
            ("created", "handle", "runtime", "status", "bytes", "expires"),
            [_build_row(each) for each in found],
            empty=f"no output is stored{'' if everything else ' for this workspace'}; "
            "`paddock exec` and `paddock run` store it",
        )


@command.command("gc", epilog=render_examples("paddock output gc", "paddock output gc --json"))
@options.workspace
@options.settings
@options.as_json
def gc(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Delete stored output that has expired, of every workspace."""
    swept = _open_artifacts(workspace, flags).sweep()
    if as_json:
        print_json({"deleted": swept.deleted, "errors": swept.errors})
    else:
        click.echo(f"deleted: {swept.deleted}")
        if swept.errors:
            warn(f"could not be checked or deleted: {swept.errors}")


def _open_artifacts(workspace: Path, flags: dict[str, str]) -> Artifacts:
    return open_artifacts(load(workspace, flags=flags).settings)


def _collect_facts(found: StoredArtifact) -> dict[str, object]:
    handle = {"artifactHandle": str(found.handle)}
    manifest = found.manifest.model_dump(mode="json", by_alias=True) if found.manifest else None
    return {**handle, "manifest": manifest}


def _build_row(found: StoredArtifact) -> tuple[str, ...]:
    created = found.handle.created.isoformat(timespec="seconds")
    if (manifest := found.manifest) is None:
        return (created, str(found.handle), "?", "?", "?", "?")
    size = manifest.stdout_bytes + manifest.stderr_bytes
    expires = manifest.expires_at.isoformat(timespec="seconds")
    return (created, str(found.handle), manifest.runtime, manifest.status, str(size), expires)
