"""`paddock stop`: end a run."""

import asyncio

import click

from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor


@click.command("stop", epilog=render_examples("paddock stop 01JD3W0ZV6N4YQ1R2X5T7B8C9D"))
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def command(ids: tuple[str, ...]) -> None:
    """End runs that `paddock ps` lists. They end in order, as `cancelled`. Exit code 1 if one of them does not run."""
    from paddock.gate.live_runs.reader import LiveRuns

    async def stop_each() -> list[bool]:
        runs = LiveRuns(by=f"{find_actor()} (paddock stop)")
        return [await runs.stop_run(each) for each in ids]

    faults: list[str] = []
    for each, found in zip(ids, asyncio.run(stop_each()), strict=True):
        if found:
            print_note(f"{each}: ends now")
        else:
            faults.append(f"{each[:64]}: does not run; paddock ps lists what runs")
    if faults:
        raise CommandFailure("\n".join(faults))
