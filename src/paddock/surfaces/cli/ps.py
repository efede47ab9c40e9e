"""`paddock ps`: what runs now."""

import asyncio
import time
from typing import TYPE_CHECKING

import click

from paddock.model.limits import MIB
from paddock.model.live_runs import STATE_NAMES
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.table import print_json, print_table, warn

if TYPE_CHECKING:
    from paddock.model.live_runs import RunNow


@click.command("ps", epilog=render_examples("paddock ps", "paddock ps --json"))
@options.as_json
def command(*, as_json: bool) -> None:
    """List what runs now in all processes of Paddock of this user, the oldest first.

    `paddock stop ID` ends a run. With `--json`, open sessions, workers and servers are listed, too.
    """
    from paddock.gate.live_runs.reader import LiveRuns

    found = asyncio.run(LiveRuns().list_all())
    for problem in found.problems:
        warn(problem)
    if as_json:
        print_json([process.model_dump(mode="json") for process in found.processes])
        return
    now = time.time()
    rows = [_make_row(run, now) for run in found.runs]
    columns = ("id", "runs", "for", "by", "state", "since", "calls", "memory", "cpu")
    print_table(columns, rows, empty="nothing runs now")


def _make_row(run: "RunNow", now: float) -> tuple[str, ...]:
    return (
        run.id,
        f"{run.language} {run.name}".strip(),
        run.actor,
        run.surface,
        STATE_NAMES[run.state],
        f"{max(0.0, now - run.since):.0f} s",
        str(run.calls),
        "" if run.memory_bytes is None else f"{run.memory_bytes // MIB} MiB",
        "" if run.cpu_ms is None else f"{run.cpu_ms / 1000:.1f} s",
    )
