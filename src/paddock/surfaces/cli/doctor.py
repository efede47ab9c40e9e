"""`paddock doctor`: the confinement of programs on this machine."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.errors import ConfigurationError
from paddock.model.outcome import SandboxFacts
from paddock.model.sandbox import Examination
from paddock.model.texts import install_command
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli import options
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.signals import run_until_signal
from paddock.surfaces.cli.table import print_json, print_lines, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
    from paddock.gate.state_check import PlaceReport


_CHANGES = "long loops run 2 to 14 times faster, but bugs in V8's compilers become reachable for a program"
_JIT = ("jit", "granted", f"a JavaScript program may be compiled on request: {_CHANGES}", "")
_JITLESS = (
    "jit",
    "not granted",
    f"JavaScript is interpreted. If compiled, {_CHANGES}",
    "to allow it: jit = true under [grants] in the user's paddock.toml",
)


_OVERLAYS = {
    "overlayfs": ("overlayfs", "a program with the access overlay writes to an overlay of the workspace", ""),
    "copy": (
        "copy",
        "a program with the access overlay works in a copy of the workspace, of limited size",
        "make the tier namespaces available, and keep TMPDIR on a file system such as ext4 or tmpfs",
    ),
}


@click.command("doctor", epilog=render_examples("paddock doctor", "paddock doctor --json"))
@options.workspace
@options.settings
@options.as_json
def command(workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """Show the confinement that this machine supports, tested by use, and how to get more.

    Also checks, without changes, that other users cannot access Paddock's own files. Exit code: 1 if the confinement
    is weaker than sandbox.minimum_tier, so that nothing would run.
    """
    from paddock.confinement.sandbox.spec import read_configured_user
    from paddock.confinement.sandbox.tiers import examine  # not needed for the help page
    from paddock.gate.flow.proposal import find_dangers
    from paddock.gate.network_check import check_network
    from paddock.gate.overlay_check import find_overlay_method
    from paddock.gate.state_check import check_places

    settings = load(workspace, flags=flags).settings
    sandbox = settings.sandbox
    job_user = read_configured_user(sandbox.job_user)
    found = run_until_signal(examine(sandbox.minimum_tier, job_user))
    network = run_until_signal(check_network(found, job_user))
    found = found.model_copy(update={"layers": (*found.layers, network)})
    overlay = run_until_signal(find_overlay_method(found, job_user, workspace.resolve()))
    toolchains = run_until_signal(_find_toolchains(settings, workspace, found, job_user))
    python = toolchains.pop("python")
    places = check_places(settings)
    dangers = find_dangers(settings, _list_servers(settings, workspace))
    flow = _describe_flow(settings, dangers)
    if as_json:
        state, executable, _ = _describe_toolchain(python)
        facts = {**found.model_dump(mode="json"), "sufficient": found.sufficient}
        facts["python"] = {"state": state, "executable": executable}
        facts["packages"] = dict(zip(("state", "installer"), _describe_installer(), strict=False))
        facts["overlay"] = {"method": overlay}
        facts["jit"] = {"granted": settings.grants.jit}
        facts["types"] = {"state": _describe_compiler()[0]}
        facts["flow"] = {"state": flow[0], "rules": len(settings.flow.rule), **dangers}
        if toolchains:
            facts["languages"] = {
                name: dict(zip(("state", "executable"), _describe_toolchain(each), strict=False))
                for name, each in toolchains.items()
            }
        print_json({**facts, "files": [place.model_dump(mode="json") for place in places]})
    else:
        rows = [("overlay", *_OVERLAYS[overlay]), _JIT if settings.grants.jit else _JITLESS, ("flow", *flow)]
        _print_report(found, {"python": python, **toolchains}, places, rows)
    if not found.sufficient:
        sys.exit(1)


async def _find_toolchains(
    settings: Settings, workspace: Path, found: Examination, job_user: int | None
) -> "dict[str, Toolchain | MissingToolchain]":
    """Return the toolchain for programs of the workspace in Python, and in each language that the settings add."""
    from paddock.confinement.sandbox.sandbox import KernelSandbox
    from paddock.engines.programs.toolchain_cache import Toolchains
    from paddock.surfaces.cli.runtimes import usual_tasks

    tier = found.effective.tier if found.effective is not None else found.minimum
    toolchains = Toolchains(os.environ, settings.runtimes)
    supervised = found.effective is None or not found.effective.unsupervised
    sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, job_user, supervised=supervised)
    return {
        name: await toolchains.for_task(task, sandbox)
        for task in usual_tasks(settings, workspace)
        if (name := task.work.runtime) in {"python", *settings.runtimes.recipes}
    }


def _describe_toolchain(toolchain: "Toolchain | MissingToolchain") -> tuple[str, str, str]:
    """Return the state of the toolchain, its description or the reason, and a remedy."""
    from paddock.engines.programs.toolchain import Toolchain

    if isinstance(toolchain, Toolchain):
        return "available", toolchain.placeholders["executable"], ""
    return "missing", toolchain.reason, toolchain.remedy


def _describe_installer() -> tuple[str, str, str]:
    """Return whether Python packages can be installed, by what, and a remedy."""
    from paddock.engines.programs.package_environment import find_uv

    if (found := find_uv() or shutil.which("uv")) is not None:
        return "available", str(found), ""
    return "missing", "programs get no Python packages without uv", install_command("packages")


def _describe_compiler() -> tuple[str, str, str]:
    """Return whether the types of programs can be checked, by what, and a remedy."""
    from paddock.engines.types.installation import VERSION, find_compiler

    if find_compiler(None) is not None:
        return "available", f"TypeScript {VERSION} checks JavaScript programs before their first call", ""
    return "missing", "the types of JavaScript programs are not checked", "paddock runtimes install types"


def _list_servers(settings: Settings, workspace: Path) -> "Sequence[str]":
    """Return the names of the configured servers; none if their files cannot be read, which other commands report."""
    from paddock.gate.servers import ServerService

    try:
        return tuple(ServerService(settings, workspace).config.servers)
    except ConfigurationError:
        return ()


def _describe_flow(settings: Settings, dangers: "Mapping[str, Sequence[str]]") -> tuple[str, str, str]:
    """Return whether rules watch the flow of data, what is granted together, and a remedy."""
    if settings.flow.rule:
        labelled = {kind for label in settings.flow.label for kind in (*label.source, label.sink)}
        wanted = {kind: None for rule in settings.flow.rule for kind in (*rule.source, rule.sink)}
        if missing := [kind for kind in wanted if kind not in labelled]:
            return (
                "no label",
                f"no label names a tool that is {' or '.join(missing)}, so that the flow rules wait for it in vain",
                "label such tools, if there are any; `paddock policy flows` proposes labels",
            )
        return "watched", "flow rules decide about calls that could send what a run has read", ""
    if not all(dangers.values()):
        return (
            "no rule",
            "no private data, untrusted content and a way out together, by the names of servers",
            "",
        )
    shown = ", ".join(f"{kind} ({', '.join(names[:3])})" for kind, names in dangers.items())
    return (
        "unguarded",
        f"one run may read and send all of: {shown}. An instruction in the content could make it do so",
        "paste what `paddock policy flows` proposes",
    )


def _print_report(
    found: Examination,
    toolchains: "Mapping[str, Toolchain | MissingToolchain]",
    places: "Sequence[PlaceReport]",
    others: "Sequence[tuple[str, str, str, str]]",
) -> None:
    rows: list[tuple[str, str, str, str]] = []
    for layer in found.layers:
        state, fix = ("available", "") if layer.available else ("missing", layer.fix)
        rows.append((f"layer {layer.name}", state, layer.detail, fix))
    for tier in found.tiers:
        worked = [name for name, refused in tier.attempts.items() if not refused]
        left = f"all refused except: {', '.join(worked)}" if worked else "all refused"
        tried = f"{len(tier.attempts)} attacks tried, {left}"
        state = "opt-in" if tier.tier == "unconfined" else "proved" if tier.proved else "not proved"
        rows.append((f"tier {tier.tier}", state, tried if tier.proved else tier.why, tier.fix))
    rows += [(name, *_describe_toolchain(each)) for name, each in toolchains.items()]
    rows.append(("packages", *_describe_installer()))
    rows.append(("types", *_describe_compiler()))
    rows += others
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
