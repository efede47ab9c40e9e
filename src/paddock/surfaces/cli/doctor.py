"""`paddock doctor`: the confinement of programs on this machine."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.policy.settings.loader import load
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_lines, print_table

if TYPE_CHECKING:
    from paddock.gate.machine_check import MachineReport, SetupReport
    from paddock.model.base import Json
    from paddock.policy.settings.schema import Settings


@click.command("doctor", epilog=render_examples("paddock doctor", "paddock doctor --json"))
@options.workspace
@options.settings
@options.as_json
def command(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the confinement that this machine supports, tested by use, and how to get more.

    Also checks, without changes, that other users cannot access Paddock's own files. Exit code: 1 if the confinement
    is weaker than sandbox.minimum_tier, so that nothing would run.
    """
    from paddock.gate.machine_check import check_machine, check_setup  # not needed for the help page

    settings = load(workspace, flags=flags).settings
    machine = run_until_signal(check_machine(settings, workspace))
    setup = check_setup(settings, workspace)
    if as_json:
        print_json(_make_json(settings, machine, setup))
    else:
        _print_report(machine, setup)
    if not machine.found.sufficient:
        sys.exit(1)


def _make_json(settings: "Settings", machine: "MachineReport", setup: "SetupReport") -> "dict[str, Json]":
    from paddock.gate.machine_check import describe_toolchain

    languages: dict[str, Json] = {}
    for name, each in machine.toolchains.items():
        row = describe_toolchain(name, each)
        languages[name] = {"state": row.state, "executable": row.detail}
    dangers: dict[str, Json] = {kind: list(names) for kind, names in setup.dangers.items()}
    return {
        **machine.found.model_dump(mode="json"),
        "sufficient": machine.found.sufficient,
        "python": languages.pop("python"),
        "packages": {"state": setup.packages.state, "installer": setup.packages.detail},
        "overlay": {"method": machine.overlay_method},
        "jit": {"granted": settings.grants.jit},
        "types": {"state": setup.types.state},
        "flow": {"state": setup.flow.state, "rules": len(settings.flow.rule), **dangers},
        **({"languages": languages} if languages else {}),
        "files": [place.model_dump(mode="json") for place in setup.places],
    }


def _print_report(machine: "MachineReport", setup: "SetupReport") -> None:
    found = machine.found
    rows = [
        *machine.list_layer_rows(),
        *machine.list_tier_rows(),
        *machine.list_toolchain_rows(),
        *(setup.packages, setup.types, machine.overlay, setup.jit, setup.flow),
        *setup.list_file_rows(),
    ]
    print_table(("", "state", "detail", "fix"), rows)
    effective = found.effective
    name = effective.tier if effective is not None else "none"
    risks = effective.facts.residual if effective is not None else ()
    print_lines([f"tier: {name}; the minimum is {found.minimum}"])
    if found.users:
        print_lines([f"users: {found.users}"])
    print_lines(f"  not confined: {risk}" for risk in risks)
    if not found.sufficient:
        print_lines(["programs will not run: follow a fix above, or lower sandbox.minimum_tier"])
