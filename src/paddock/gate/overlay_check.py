"""Try the overlay of a workspace on this machine, for `paddock doctor`."""

from pathlib import Path

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.changes import OverlayMethod
from paddock.model.errors import EngineError
from paddock.model.outcome import SandboxFacts
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.model.sandbox import Examination


async def find_overlay_method(found: Examination, job_user: int | None, workspace: Path) -> OverlayMethod:
    """Return how a program with the access `overlay` gets one, tried in a workspace."""
    tier = found.effective.tier if found.effective is not None else found.minimum
    if tier != "namespaces":
        return "copy"
    grants = ProcessGrants(workspace=workspace, access="overlay")
    try:
        async with KernelSandbox(SandboxFacts(tier=tier), tier, job_user) as sandbox:
            slot = await sandbox.take_slot(grants, ProcessLimits())
            try:
                return "overlayfs" if await sandbox.has_overlay(slot) else "copy"
            finally:
                slot.release()
    except EngineError:  # no program runs at all, which other lines report
        return "copy"
