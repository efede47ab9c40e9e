"""Check this machine, for `paddock doctor` and the page: the facts, and a row with a remedy for each.

check_setup      files, settings and what is installed: at once
check_machine    layers, tiers, network, overlay and toolchains, tried by programs: a few seconds
"""

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paddock.confinement.sandbox.spec import read_configured_user
from paddock.confinement.sandbox.tiers import examine
from paddock.engines.programs.package_environment import find_uv
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
from paddock.engines.types.installation import VERSION, find_compiler
from paddock.gate.flow.proposal import find_dangers
from paddock.gate.network_check import check_network
from paddock.gate.overlay_check import find_overlay_method
from paddock.gate.servers import ServerService
from paddock.gate.state_check import PlaceReport, check_places
from paddock.gate.toolchain_check import find_toolchains
from paddock.model.changes import OverlayMethod
from paddock.model.errors import ConfigurationError
from paddock.model.sandbox import Examination
from paddock.model.texts import install_command
from paddock.policy.settings.schema import Settings

_CHANGES = "long loops run 2 to 14 times faster, but bugs in V8's compilers become reachable for a program"


class CheckRow(NamedTuple):
    """One check and its result, for people."""

    name: str
    state: str
    """`available`, `missing`, `proved`, `private`, ..."""
    detail: str
    """What was found, or why it is missing."""
    fix: str = ""
    """A command, a setting or a step that would help."""


_JIT = CheckRow("jit", "granted", f"a JavaScript program may be compiled on request: {_CHANGES}")
_JITLESS = CheckRow(
    "jit",
    "not granted",
    f"JavaScript is interpreted. If compiled, {_CHANGES}",
    "to allow it: jit = true under [grants] in the user's paddock.toml",
)
_OVERLAYS: dict[OverlayMethod, CheckRow] = {
    "overlayfs": CheckRow(
        "overlay", "overlayfs", "a program with the access overlay writes to an overlay of the workspace"
    ),
    "copy": CheckRow(
        "overlay",
        "copy",
        "a program with the access overlay works in a copy of the workspace, of limited size",
        "make the tier namespaces available, and keep TMPDIR on a file system such as ext4 or tmpfs",
    ),
}


class SetupReport(NamedTuple):
    """Facts that no program needs to prove."""

    packages: CheckRow
    """Whether Python packages can be installed."""
    types: CheckRow
    """Whether the types of programs can be checked."""
    jit: CheckRow
    flow: CheckRow
    """Whether rules watch the flow of data."""
    dangers: Mapping[str, Sequence[str]]
    """Servers of each kind that are dangerous together."""
    places: Sequence[PlaceReport]
    """Places of Paddock's own files."""

    def list_file_rows(self) -> list[CheckRow]:
        """Return a row for each place of Paddock's own files."""
        return [CheckRow(f"files {each.name}", each.state, each.detail, each.fix) for each in self.places]


class MachineReport(NamedTuple):
    """Facts that programs have proved."""

    found: Examination
    """Layers, with the network, and tiers."""
    overlay_method: OverlayMethod
    toolchains: Mapping[str, Toolchain | MissingToolchain]
    """Toolchain of Python, and of each language that the settings add."""

    @property
    def overlay(self) -> CheckRow:
        """The row of the overlay."""
        return _OVERLAYS[self.overlay_method]

    def list_layer_rows(self) -> list[CheckRow]:
        """Return a row for each layer."""
        return [
            CheckRow(f"layer {each.name}", "available", each.detail)
            if each.available
            else CheckRow(f"layer {each.name}", "missing", each.detail, each.fix)
            for each in self.found.layers
        ]

    def list_tier_rows(self) -> list[CheckRow]:
        """Return a row for each tier."""
        rows: list[CheckRow] = []
        for tier in self.found.tiers:
            worked = [name for name, refused in tier.attempts.items() if not refused]
            left = f"all refused except: {', '.join(worked)}" if worked else "all refused"
            tried = f"{len(tier.attempts)} attacks tried, {left}"
            state = "opt-in" if tier.tier == "unconfined" else "proved" if tier.proved else "not proved"
            rows.append(CheckRow(f"tier {tier.tier}", state, tried if tier.proved else tier.why, tier.fix))
        return rows

    def list_toolchain_rows(self) -> list[CheckRow]:
        """Return a row for each toolchain."""
        return [describe_toolchain(name, each) for name, each in self.toolchains.items()]


def check_setup(settings: Settings, workspace: Path) -> SetupReport:
    """Check Paddock's own files, the settings and what is installed, without changes."""
    dangers = find_dangers(settings, _list_servers(settings, workspace))
    return SetupReport(
        packages=_describe_installer(),
        types=_describe_compiler(),
        jit=_JIT if settings.grants.jit else _JITLESS,
        flow=_describe_flow(settings, dangers),
        dangers=dangers,
        places=check_places(settings),
    )


async def check_machine(settings: Settings, workspace: Path) -> MachineReport:
    """Try the confinement of programs of a workspace on this machine."""
    real_workspace = await asyncio.to_thread(workspace.resolve)
    job_user = read_configured_user(settings.sandbox.job_user)
    found = await examine(settings.sandbox.minimum_tier, job_user)
    network = await check_network(found, job_user)
    found = found.model_copy(update={"layers": (*found.layers, network)})
    overlay = await find_overlay_method(found, job_user, real_workspace)
    return MachineReport(found, overlay, await find_toolchains(settings, workspace, found, job_user))


def describe_toolchain(name: str, toolchain: Toolchain | MissingToolchain) -> CheckRow:
    """Return the row of a toolchain: its executable, or why it is missing."""
    if isinstance(toolchain, Toolchain):
        return CheckRow(name, "available", toolchain.placeholders["executable"])
    return CheckRow(name, "missing", toolchain.reason, toolchain.remedy)


def _describe_installer() -> CheckRow:
    if (found := find_uv() or shutil.which("uv")) is not None:
        return CheckRow("packages", "available", str(found))
    fix = install_command("packages")
    return CheckRow("packages", "missing", "programs get no Python packages without uv", fix)


def _describe_compiler() -> CheckRow:
    if find_compiler(None) is not None:
        detail = f"TypeScript {VERSION} checks JavaScript programs before their first call"
        return CheckRow("types", "available", detail)
    fix = "paddock runtimes install types"
    return CheckRow("types", "missing", "the types of JavaScript programs are not checked", fix)


def _list_servers(settings: Settings, workspace: Path) -> Sequence[str]:
    """Return the names of the configured servers; none if their files cannot be read, which other commands report."""
    try:
        return tuple(ServerService(settings, workspace).config.servers)
    except ConfigurationError:
        return ()


def _describe_flow(settings: Settings, dangers: Mapping[str, Sequence[str]]) -> CheckRow:
    """Return whether rules watch the flow of data, what is granted together, and a remedy."""
    if settings.flow.rule:
        labelled = {kind for label in settings.flow.label for kind in (*label.source, label.sink)}
        wanted = {kind: None for rule in settings.flow.rule for kind in (*rule.source, rule.sink)}
        if missing := [kind for kind in wanted if kind not in labelled]:
            return CheckRow(
                "flow",
                "no label",
                f"no label names a tool that is {' or '.join(missing)}, so that the flow rules wait for it in vain",
                "label such tools, if there are any; `paddock policy flows` proposes labels",
            )
        return CheckRow(
            "flow", "watched", "flow rules decide about calls that could send what a run has read"
        )
    if not all(dangers.values()):
        detail = "no private data, untrusted content and a way out together, by the names of servers"
        return CheckRow("flow", "no rule", detail)
    shown = ", ".join(f"{kind} ({', '.join(names[:3])})" for kind, names in dangers.items())
    return CheckRow(
        "flow",
        "unguarded",
        f"one run may read and send all of: {shown}. An instruction in the content could make it do so",
        "paste what `paddock policy flows` proposes",
    )
