"""Programs that run in an overlay of a workspace, in a real sandbox, and the change sets of what they did."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.processes import PATIENCE_S

from paddock.confinement.sandbox.fork_server import Jail
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.changes.capture import CaptureLimits, CaptureRules, Overlaid, capture_changes
from paddock.engines.changes.opening import OverlayBounds, OverlayRun
from paddock.model.change_set import ChangeSet
from paddock.model.limits import MIB
from paddock.model.outcome import RawResult, SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.sandbox import Tier
from paddock.record.changes.store import ChangeStore

ROOT = 0
"""Value of `job_user` with which programs of root stay root in every tier."""
LIMITS = CaptureLimits(64 * MIB, 1000)
BOUNDS = OverlayBounds(64 * MIB, 1000)


class OverlayEnd(NamedTuple):
    """The end of a program with an overlay."""

    result: ProcessResult
    id: str
    changes: ChangeSet

    @property
    def change_list(self) -> list[tuple[str, str]]:
        """The kind and the path of each change."""
        return [(change.kind, change.path) for change in self.changes.changes]


def open_sandbox(tier: Tier, **options: object) -> KernelSandbox:
    """Return a sandbox of a tier in which root stays root."""
    return KernelSandbox(SandboxFacts(tier=tier), tier, ROOT, **options)  # type: ignore[arg-type]


async def run_in_overlay(
    sandbox: KernelSandbox,
    workspace: Path,
    argv: Sequence[str],
    store: ChangeStore,
    *,
    bounds: OverlayBounds = BOUNDS,
    limits: CaptureLimits = LIMITS,
    process_limits: ProcessLimits | None = None,
    streams: Streams | None = None,
) -> OverlayEnd | RawResult:
    """Run a program with the access `overlay`, and store what it changed; return a result if it cannot have one."""
    grants = ProcessGrants(workspace=workspace, access="overlay")
    process_limits = process_limits or ProcessLimits(timeout_ms=round(1000 * PATIENCE_S))
    kept: list[tuple[str, ChangeSet]] = []

    def take(overlaid: Overlaid, rules: CaptureRules) -> None:
        with store.begin() as new:
            found = capture_changes(overlaid, new, "run-1", rules, limits)
            kept.append((new.finish(found), found))

    overlay = OverlayRun(bounds, take)
    opened = await overlay.open(sandbox, grants, process_limits)
    if isinstance(opened, RawResult):
        return opened
    grants, slot, overlays = opened
    assert isinstance(slot, Jail)
    try:
        here = overlays.locate(workspace)
        folder = str(here.relative_to(slot.scratch)) if overlays.has_copy else ""
        given = grants.replace(folder=folder)
        result = await sandbox.run(argv, given, process_limits, streams, slot=slot)
        await overlay.keep(sandbox, overlays, result)
    finally:
        slot.release()
    ((set_id, found),) = kept
    return OverlayEnd(result, set_id, found)
