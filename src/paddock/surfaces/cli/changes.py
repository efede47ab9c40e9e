"""`paddock changes`: what programs changed in overlays of the workspace, to show, accept, discard or undo."""

import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from paddock.gate.change_sets import (
    ChangeSets,
    describe_change,
    describe_recovery,
    describe_set,
    format_ns,
    print_path,
)
from paddock.gate.open_paddock import open_audit
from paddock.model.base import Json, count
from paddock.model.outcome import Status
from paddock.model.request import ChangesAction, ChangeSetRun, ExecutionRequest
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import options
from paddock.surfaces.cli.exec import EXIT_DENIED
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out
from paddock.surfaces.cli.table import print_json, print_lines, print_table, warn
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.model.change_set import Change
    from paddock.record.changes.store import StoredChanges

_MARKS = {"added": "+", "modified": "~", "deleted": "-", "mode": "m"}
_COLOURS = {"+": "green", "-": "red", "@": "cyan"}
_BOLD = ("diff ", "--- ", "+++ ")
_DONE = {"accept": "accepted", "undo": "undone"}


@click.group(
    "changes",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock exec --access overlay python -c \"open('notes.txt', 'w').write('hello')\"",
        "paddock changes list",
        "paddock changes diff 3f2a",
        "paddock changes accept 3f2a src",
        "paddock changes undo 3f2a",
    ),
)
def command() -> None:
    """Show, accept, discard and undo what programs with the access `overlay` changed.

    Such a program writes to an overlay, and the workspace stays as it is until a person accepts the changes. An ID may
    be shortened to its beginning, and the `changes-` before it may be left out.
    """


@command.command("list", epilog=render_examples("paddock changes list", "paddock changes list --json"))
@options.workspace
@options.settings
@options.as_json
def list_changes(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the change sets of the workspace, the newest first."""
    sets = _open(load(workspace, flags=flags).settings, workspace)
    found = sets.list_sets(workspace)
    if as_json:
        print_json([describe_set(each) for each in found])
        return
    rows = [
        (each.id, format_ns(each.change_set.ended_ns), _state(each), _count_kinds(each.change_set.changes))
        for each in found
    ]
    empty = "no program changed anything here; run one with: paddock exec --access overlay"
    print_table(("id", "ended", "state", "changes"), rows, empty=empty)


@command.command(
    "show", epilog=render_examples("paddock changes show 3f2a", "paddock changes show 3f2a --json")
)
@click.argument("id")
@options.workspace
@options.settings
@options.as_json
def show(id: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:  # noqa: A002 - its name
    """Show the paths of a change set. Those in red are accepted only if they are named."""
    sets = _open(load(workspace, flags=flags).settings, workspace)
    stored = sets.find(id, workspace)
    given, listed = stored.change_set, sets.list_changes(stored, workspace)
    if as_json:
        changes = list[Json]([describe_change(each) for each in listed])
        print_json(
            {**describe_set(stored), "changes": changes, "left_out": list(map(print_path, given.left_out))}
        )
        return
    _print_paged(_list_paths(stored, listed))


def _list_paths(stored: "StoredChanges", listed: "Iterable[Change]") -> Iterator[str]:
    """Yield the lines of a change set, one for each path."""
    from paddock.engines.changes.plan import describe_guard, is_guarded

    given = stored.change_set
    yield f"{stored.id}: {_count_kinds(given.changes)}, {_state(stored)}"
    accepted = frozenset(stored.state.accepted)
    for change in listed:
        notes = [describe_guard(change)] if is_guarded(change) else []
        notes += ["accepted"] if change.path in accepted else []
        notes += ["changed during the run"] if change.changed_meanwhile else []
        notes += [f"from {print_path(change.renamed_from)}"] if change.renamed_from else []
        noted = f" ({', '.join(notes)})" if notes else ""
        line = f"  {_MARKS[change.kind]} {print_path(change.path)}{noted}"
        yield click.style(line, fg="red") if is_guarded(change) or change.changed_meanwhile else line
    for path in given.left_out:
        yield f"  ! {print_path(path)} (cannot be accepted)"
    if given.incomplete:
        yield f"incomplete, and cannot be accepted: {given.incomplete}"


@command.command(
    "diff", epilog=render_examples("paddock changes diff 3f2a", "paddock changes diff 3f2a src --stat")
)
@click.argument("id")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--stat", is_flag=True, help="Print the number of changed lines of each path only.")
@options.workspace
@options.settings
@options.as_json
def diff(
    id: str,  # noqa: A002 - its name
    paths: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    stat: bool,
    as_json: bool,
) -> None:
    """Print the difference of a change set, or of some paths in it, without secrets."""
    sets = _open(load(workspace, flags=flags).settings, workspace)
    found = sets.compare(sets.find(id, workspace), _read_paths(paths, workspace))
    if as_json:
        print_json(
            [
                {
                    "path": each.path,
                    "added": each.added,
                    "removed": each.removed,
                    **({} if stat else {"diff": "\n".join(each.lines)}),
                }
                for each in found
            ]
        )
    elif stat:
        print_table(("path", "lines"), [(each.path, f"+{each.added} -{each.removed}") for each in found])
    else:
        _print_paged(_colour(line) for each in found for line in each.lines)


@command.command(
    "accept",
    epilog=render_examples(
        "paddock changes accept 3f2a",
        "paddock changes accept 3f2a src/app.py",
        "paddock changes accept 3f2a --merge",
    ),
)
@click.argument("id")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option(
    "--merge", is_flag=True, help="Merge text files that were changed since, where no lines collide."
)
@options.workspace
@options.settings
@options.as_json
def accept(
    id: str,  # noqa: A002 - its name
    paths: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    merge: bool,
    as_json: bool,
) -> None:
    """Write the changes at the PATHs, or all, to the workspace.

    A directory stands for all in it. Protected paths and links that lead out are left unless they are named
    themselves. If a path was changed since, nothing is written. Exit codes: 1 then, 126 if policy denied it.
    """
    _carry_out("accept", id, paths, workspace, flags, merge=merge, as_json=as_json)


@command.command("discard", epilog=render_examples("paddock changes discard 3f2a"))
@click.argument("id")
@options.workspace
@options.settings
@options.as_json
def discard(id: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:  # noqa: A002 - its name
    """Delete the contents of a change set. What was accepted stays in the workspace and cannot be undone."""
    _carry_out("discard", id, (), workspace, flags, merge=False, as_json=as_json)


@command.command("undo", epilog=render_examples("paddock changes undo 3f2a", "paddock changes undo 3f2a src"))
@click.argument("id")
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@options.workspace
@options.settings
@options.as_json
def undo(
    id: str,  # noqa: A002 - its name
    paths: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    as_json: bool,
) -> None:
    """Take back accepted changes at the PATHs, or all. If a path was changed since, nothing is written."""
    _carry_out("undo", id, paths, workspace, flags, merge=False, as_json=as_json)


def _open(settings: Settings, workspace: Path) -> ChangeSets:
    """Return the change sets, after finishing or undoing what a killed command left in the workspace."""
    outgoing = OutgoingRedaction(settings.redaction, KnownSecrets())
    sets = ChangeSets(settings, outgoing.text, partial(open_audit, settings.audit))
    recovery = sets.recover(workspace)
    if recovery is not None:
        warn(describe_recovery(recovery))
    return sets


def _carry_out(
    action: ChangesAction,
    id: str,  # noqa: A002 - its name
    paths: tuple[str, ...],
    workspace: Path,
    flags: dict[str, str],
    *,
    merge: bool,
    as_json: bool,
) -> None:
    settings = load(workspace, flags=flags).settings
    set_id = _open(settings, workspace).find_id(id, workspace, action)
    named = _read_paths(paths, workspace)
    work = ChangeSetRun(action=action, id=set_id, paths=named, merge=merge)
    request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    outcome, number = asyncio.run(carry_out(request, settings, stop=asyncio.Event()))
    if outcome is None:
        raise CommandFailure("interrupted", exit_code=EXIT_SIGNAL_BASE + number)
    value = cast("dict[str, Any] | None", outcome.value) if outcome.has_value else None
    if value is None:
        own = outcome.error is not None and outcome.error.name.startswith("Changes")
        raise CommandFailure(
            outcome.error.message if outcome.error is not None and own else render.error_text(outcome),
            exit_code=EXIT_DENIED if outcome.status is Status.DENIED else 1,
        )
    if as_json:
        print_json(value)
    else:
        _print_report(value)
    if not outcome.ok:
        click.get_current_context().exit(1)


def _print_report(value: dict[str, Any]) -> None:
    if "recovered" in value:
        warn(value["recovered"])
    if value["action"] == "discard":
        print_note(f"{value['id']} {'was discarded before' if 'repeated' in value else 'discarded'}")
        return
    if value["conflicts"]:
        print_note(f"nothing was written, because of {count(len(value['conflicts']), 'conflict')}:")
        for each in value["conflicts"]:
            print_note(f"  {each['path']}: {each['why']}")
        if value["action"] == "undo":
            print_note("name the other paths to undo them")
        elif "can_merge" in value:
            print_note("name the other paths to accept them, or merge text files with --merge")
        else:
            print_note("name the other paths to accept them, or run the program again")
        return
    merged = frozenset(value["merged"])
    print_lines(f"{path} (merged)" if path in merged else path for path in value["paths"])
    print_note(f"{count(len(value['paths']), 'path')} {_DONE[value['action']]}")
    if value["unchanged"]:
        print_note(f"{count(len(value['unchanged']), 'path')} needed no change")
    for each in value["left"]:
        print_note(f"left: {each['path']}: {each['why']}")


def _read_paths(paths: Iterable[str], workspace: Path) -> tuple[str, ...]:
    """Return paths as they are in change sets; they may be absolute, or from a directory in the workspace."""
    here = Path(os.path.realpath(os.curdir))
    base = here.relative_to(workspace) if here.is_relative_to(workspace) else Path()
    found: list[str] = []
    for path in paths:
        whole = os.path.normpath(path if os.path.isabs(path) else workspace / base / path)
        if not Path(whole).is_relative_to(workspace):
            raise CommandFailure(f"{path} is not in the workspace {workspace}")
        found.append(os.path.relpath(whole, workspace))
    return tuple(found)


def _state(stored: "StoredChanges") -> str:
    return stored.state.describe(len(stored.change_set.changes))


def _count_kinds(changes: "tuple[Change, ...]") -> str:
    kinds = ["modified" if each.kind == "mode" else each.kind for each in changes]
    return ", ".join(
        f"{kinds.count(kind)} {kind}" for kind in ("added", "modified", "deleted") if kind in kinds
    )


def _colour(line: str) -> str:
    if line.startswith(("protected: ", "leads out ", "conflict: ")):
        return click.style(line, fg="red", bold=True)
    if line.startswith(_BOLD):
        return click.style(line, bold=True)
    return click.style(line, fg=_COLOURS[line[0]]) if line and line[0] in _COLOURS else line


def _print_paged(lines: Iterator[str]) -> None:
    """Print lines through a pager on a terminal; a pipe gets them without colours."""
    texts = (make_encodable(f"{line}\n") for line in lines)
    if sys.stdout.isatty():
        os.environ.setdefault("LESS", "-FRX")  # as git does it: colours, and no pager for less than a screen
        is_less = not (pager := os.environ.get("PAGER")) or Path(pager.split()[0]).name == "less"
        click.echo_via_pager(texts, color=None if is_less or os.environ.get("NO_COLOR") else True)
    else:
        for text in texts:
            click.echo(text, nl=False)
