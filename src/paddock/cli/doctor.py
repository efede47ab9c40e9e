"""`paddock doctor`: the confinement of programs on this machine."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.help import render_examples
from paddock.cli.signals import run_until_signal
from paddock.cli.table import print_json, print_lines, print_table
from paddock.model.sandbox import Examination, Layer, TierReport
from paddock.settings.loader import load
from paddock.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paddock.app.state_check import PlaceReport
    from paddock.runtimes.toolchain import MissingToolchain, Toolchain


@click.command("doctor", epilog=render_examples("paddock doctor", "paddock doctor --json"))
@options.workspace
@options.settings
@options.as_json
def command(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the confinement that this machine supports, tested by use, and how to get more.

    Also checks, without changes, that other users cannot access Paddock's own files. Exit code: 1 if the confinement
    is weaker than sandbox.minimum_tier, so that nothing would run.
    """
    from paddock.app.state_check import check_places
    from paddock.sandbox.spec import read_configured_user
    from paddock.sandbox.tiers import examine  # not needed for the help page

    settings = load(workspace, flags=flags).settings
    sandbox = settings.sandbox
    job_user = read_configured_user(sandbox.job_user)
    found = run_until_signal(examine(sandbox.minimum_tier, job_user))
    python = run_until_signal(_find_python(settings, workspace, found, job_user))
    places = check_places(settings)
    if as_json:
        state, executable, _ = _describe_python(python)
        facts = {**found.model_dump(mode="json"), "sufficient": found.sufficient}
        facts["python"] = {"state": state, "executable": executable}
        facts["jit"] = {"granted": settings.grants.jit}
        print_json({**facts, "files": [place.model_dump(mode="json") for place in places]})
    else:
        _print_report(found, python, places, jit=settings.grants.jit)
    if not found.sufficient:
        sys.exit(1)


async def _find_python(
    settings: Settings, workspace: Path, found: Examination, job_user: int | None
) -> "Toolchain | MissingToolchain":
    """Return the toolchain for Python programs of the workspace."""
    from paddock.cli.runtimes import usual_jobs
    from paddock.runtimes.toolchain_cache import Toolchains

    tier = found.effective.tier if found.effective is not None else found.minimum
    job = next(job for job in usual_jobs(settings, workspace) if job.work.runtime == "python")
    return await Toolchains(os.environ, settings.runtimes).for_job(job, job_user=job_user, tier=tier)


def _describe_python(python: "Toolchain | MissingToolchain") -> tuple[str, str, str]:
    """Return the state of the toolchain, its description or the reason, and a remedy."""
    from paddock.runtimes.toolchain import Toolchain

    if isinstance(python, Toolchain):
        return "available", python.places["executable"], ""
    return "missing", python.reason, python.remedy


def _print_report(
    found: Examination, python: "Toolchain | MissingToolchain", places: "Sequence[PlaceReport]", *, jit: bool
) -> None:
    rows = [_build_layer_row(layer) for layer in found.layers] + [
        _build_tier_row(tier) for tier in found.tiers
    ]
    rows.append(("python", *_describe_python(python)))
    rows.append(_JIT if jit else _JITLESS)
    rows += [(f"files {place.name}", place.state, place.detail, place.fix) for place in places]
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


_CHANGES = "long loops run 2 to 14 times faster, but bugs in V8's compilers become reachable for a program"
_JIT = ("jit", "granted", f"a JavaScript program may be compiled on request: {_CHANGES}", "")
_JITLESS = (
    "jit",
    "not granted",
    f"JavaScript is interpreted. If compiled, {_CHANGES}",
    "to allow it: jit = true under [grants] in the user's paddock.toml",
)


def _build_layer_row(layer: Layer) -> tuple[str, str, str, str]:
    state = "available" if layer.available else "missing"
    return f"layer {layer.name}", state, layer.detail, "" if layer.available else layer.fix


def _build_tier_row(tier: TierReport) -> tuple[str, str, str, str]:
    refused = f"{len(tier.attempts)} attacks tried, all refused"
    state = "opt-in" if tier.tier == "unconfined" else "proved" if tier.proved else "not proved"
    return f"tier {tier.tier}", state, refused if tier.proved else tier.why, tier.fix
