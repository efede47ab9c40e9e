"""`paddock temporal`: schedules of sequences (docs/sequences.md)."""

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Never

import click

from paddock.gate.schedules.last_runs import choose_runs
from paddock.gate.schedules.schedule import listing
from paddock.model.base import Json
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options, restore_garbage_collection
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor, open_for_command
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out, value_of
from paddock.surfaces.cli.sequence import print_step, print_steps
from paddock.surfaces.cli.signals import cancel_on_signals
from paddock.surfaces.cli.table import print_json, print_table, print_text
from paddock.surfaces.rendering.render import error_text

if TYPE_CHECKING:
    from paddock.policy.settings.schema import Settings


@click.group(
    "temporal",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock temporal list", "paddock temporal fire nightly", "paddock temporal serve"
    ),
)
def command() -> None:
    """List, fire and serve schedules of sequences."""


@command.command("list", epilog=render_examples("paddock temporal list", "paddock temporal list --json"))
@options.workspace
@options.settings
@options.as_json
def list_(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the schedules of the workspace and of the home directory, with the next time of each."""
    settings = load(workspace, flags=flags).settings
    found = listing(workspace, choose_runs(settings), datetime.now(UTC))
    if as_json:
        print_json(found)
        return
    names = ("name", "sequence", "last", "next", "problem")
    rows = [[str(each.get(name) or "") for name in names] for each in found]
    print_table(names, rows, empty="there are no schedules here; write one into .paddock/temporals/NAME.toml")


@command.command("fire", epilog=render_examples("paddock temporal fire nightly --json"))
@click.argument("name")
@options.workspace
@options.settings
@options.as_json
def fire(name: str, workspace: Path, flags: dict[str, str], *, as_json: bool) -> Never:
    """Run the sequence of a schedule now. Exit code: 0 if it ran to its end, 1 otherwise."""
    request = _build_request(name, workspace)
    settings = load(workspace, flags=flags).settings
    outcome, number = asyncio.run(carry_out(request, settings, on_opened=print_steps))
    answer = value_of(outcome, number)
    if as_json:
        print_json(answer)
    elif problem := _explain_stop(answer):
        print_text(problem, err=True)
    sys.exit(EXIT_SIGNAL_BASE + number if number else int(not answer["ok"]))


@command.command("serve", epilog=render_examples("paddock temporal serve --workspace ~/project"))
@options.workspace
@options.settings
@options.as_json
def serve(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Run schedules when they are due, until Ctrl-C or SIGTERM.

    Prints the end of each run to standard error; with --json one object for each run to standard output.
    """
    asyncio.run(_serve_schedules(workspace, load(workspace, flags=flags).settings, as_json=as_json))


async def _serve_schedules(workspace: Path, settings: "Settings", *, as_json: bool) -> None:
    with cancel_on_signals() as received:
        try:
            async with open_for_command(settings, workspace) as opened:
                opened.flowing.flows.on_step = print_step
                restore_garbage_collection()

                async def fire_schedule(name: str, due: datetime) -> None:
                    outcome = await opened.gate.execute(
                        _build_request(name, workspace, {"due": due.isoformat()})
                    )
                    if as_json:
                        answer = outcome.value if outcome.ok else {"name": name, "ok": False}
                        print_json({**answer, "problem": _explain_problem(outcome)})
                        sys.stdout.flush()
                    else:
                        end = _explain_problem(outcome) or outcome.value.get("skipped", "ok")
                        print_text(f"{name}: {end}", err=True)

                await opened.flowing.temporals.serve(workspace, fire_schedule)
        except asyncio.CancelledError:
            if not received:
                raise


def _build_request(name: str, workspace: Path, *options: dict[str, str]) -> ExecutionRequest:
    work = SdkCall(method="temporal.fire", arguments=(name, *options))
    return ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)


def _explain_problem(outcome: Outcome) -> str:
    """Return why a schedule did not run to its end; empty if it did."""
    return _explain_stop(outcome.value) if outcome.ok else error_text(outcome)


def _explain_stop(answer: Json) -> str:
    if "error" in answer:
        return str(answer["error"].get("message", answer["error"]["name"]))
    return "" if answer["ok"] else "a failing step has stopped the sequence"
