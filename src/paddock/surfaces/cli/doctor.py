"""`paddock doctor`: what confines programs on this machine."""

import sys
from pathlib import Path

import click

from paddock.configuration import load
from paddock.model.sandbox import Examination, Layer, TierReport
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import examples
from paddock.surfaces.cli.signals import heeding_signals
from paddock.surfaces.cli.table import print_json, print_lines, print_table


@click.command("doctor", epilog=examples("paddock doctor", "paddock doctor --json"))
@options.workspace
@options.settings
@options.as_json
def command(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show what confinement this machine gives, proved by trying, and how to get more.

    Exits with 1 when it is less than the setting sandbox.minimum_tier asks for, so that nothing would run.
    """
    from paddock.confine.ladder import examine  # noqa: PLC0415 - the help page needs no sandbox
    from paddock.confine.plan import configured_user  # noqa: PLC0415

    settings = load(workspace, flags=flags).settings.sandbox
    found = heeding_signals(examine(settings.minimum_tier, configured_user(settings.job_user)))
    if as_json:
        print_json({**found.model_dump(mode="json"), "sufficient": found.sufficient})
    else:
        _print(found)
    if not found.sufficient:
        sys.exit(1)


def _print(found: Examination) -> None:
    rows = [_layer(layer) for layer in found.layers] + [_tier(tier) for tier in found.tiers]
    print_table(("", "state", "detail", "fix"), rows)
    effective = found.effective
    name = effective.tier if effective is not None else "none"
    risks = effective.facts.residual if effective is not None else ()
    print_lines(
        [
            f"tier in force: {name}; the least allowed is {found.minimum}",
            *(f"  left open: {risk}" for risk in risks),
        ]
    )
    if not found.sufficient:
        print_lines(["programs will not run: follow a fix above, or lower sandbox.minimum_tier"])


def _layer(layer: Layer) -> tuple[str, str, str, str]:
    state = "available" if layer.available else "missing"
    return f"layer {layer.name}", state, layer.detail, "" if layer.available else layer.fix


def _tier(tier: TierReport) -> tuple[str, str, str, str]:
    refused = f"{len(tier.attempts)} attacks tried, all refused"
    state = "opt-in" if tier.tier == "unconfined" else "proved" if tier.proved else "not proved"
    return f"tier {tier.tier}", state, refused if tier.proved else tier.why, tier.fix
