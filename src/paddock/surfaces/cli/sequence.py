"""`paddock sequence`: named lists of steps (docs/sequences.md)."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Never

import click

from paddock.gate.sequences.engine import SKIPPED, StepRecord, listing
from paddock.gate.sequences.sequence import Sequence, find, read
from paddock.model.base import count
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import CommandGroup, render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import EXIT_SIGNAL_BASE, carry_out, value_of
from paddock.surfaces.cli.table import print_json, print_table, print_text
from paddock.surfaces.rendering.render import console_text, value_text

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock


@click.group(
    "sequence",
    cls=CommandGroup,
    epilog=render_examples(
        "paddock sequence list",
        "paddock sequence show nightly",
        "paddock sequence run nightly --var REGION=eu",
    ),
)
def command() -> None:
    """List, show and run sequences of steps."""


@command.command("list", epilog=render_examples("paddock sequence list", "paddock sequence list --json"))
@options.workspace
@options.as_json
def list_(workspace: Path, *, as_json: bool) -> None:
    """List the sequences of the workspace and of the home directory."""
    found = list(listing(workspace))
    if as_json:
        print_json(found)
        return
    rows = [(each["name"], each.get("description", ""), each.get("problem", "")) for each in found]
    print_table(
        ("sequence", "description", "problem"),
        rows,
        empty="there are no sequences here; write one into .paddock/sequences/NAME.toml",
    )


@command.command("show", epilog=render_examples("paddock sequence show nightly --json"))
@click.argument("name")
@options.workspace
@options.as_json
def show(name: str, workspace: Path, *, as_json: bool) -> None:
    """Show the variables and the steps of a sequence."""
    path = find(name, workspace, "sequences")
    found = read(path, Sequence)
    if as_json:
        fields = found.model_dump(exclude_unset=True)
        print_json({"name": name, "path": str(path.absolute()), **fields})
        return
    rows = [("variable", variable, "required") for variable in found.required]
    rows += [("variable", variable, value) for variable, value in found.vars.items()]
    rows += [(step.kind, step.name, str(getattr(step, step.kind))) for step in found.step]
    print_table(("", "name", ""), rows)


@command.command(
    "run",
    epilog=render_examples(
        "paddock sequence run nightly --var REGION=eu", "paddock sequence run nightly --json | jq .steps"
    ),
)
@click.argument("name")
@options.add_pairs_option("--var", "variables", help="Set a variable of the sequence. Repeatable.")
@options.workspace
@options.settings
@options.as_json
def run(
    name: str, variables: dict[str, str], *, workspace: Path, flags: dict[str, str], as_json: bool
) -> Never:
    """Run a sequence. Policy and the ledger apply to each step.

    Prints the end of each step to standard error and the last value to standard output; with --json the whole answer.
    Exit code: 0 if no step stopped the sequence, 1 otherwise.
    """
    settings = load(workspace, flags=flags).settings
    request = ExecutionRequest(
        actor=find_actor(),
        surface="cli",
        workspace=workspace,
        work=SdkCall(method="sequence.run", arguments=(name, {"vars": dict(variables)})),
    )
    outcome, number = asyncio.run(carry_out(request, settings, on_opened=print_steps))
    answer = value_of(outcome, number)
    if as_json:
        print_json(answer)
    elif answer["ok"] and (
        ended := [step for step in answer["steps"] if {"value", "omitted_bytes"} & step.keys()]
    ):
        if "value" in ended[-1]:
            print_text(value_text(ended[-1]["value"]))
        else:
            size = count(ended[-1]["omitted_bytes"], "byte")
            print_text(f"the value has {size}{_explain_where(ended[-1])}", err=True)
    click.get_current_context().exit(EXIT_SIGNAL_BASE + number if number else int(not answer["ok"]))


def print_steps(opened: "OpenPaddock") -> None:
    """Print the steps of sequences, and what their scripts print, as they end."""
    opened.flowing.flows.on_step = print_step
    opened.flowing.flows.on_console = lambda line: print_text(console_text(line), err=True)


def print_step(record: StepRecord) -> None:
    """Print the end of a step to standard error."""
    took = "" if record["status"] == SKIPPED else f" ({record['ms']:.0f} ms)"
    why = f": {record['error']['message']}" if "error" in record else ""
    print_text(f"{record['name']}: {record['status']}{took}{why}{_explain_where(record)}", err=True)


def _explain_where(record: StepRecord) -> str:
    """Return where a value is stored that was too large."""
    if "artifact" in record:
        return f"; read it with: paddock output show {record['artifact']}"
    return f"; {record['not_kept']}" if "not_kept" in record else ""
