"""Attack a sandbox from within: bait that only confinement protects, and what the canary could do with it."""

import json
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from paddock.confinement.sandbox.child import canary
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants, ProcessResult

Run = Callable[[ProcessGrants, str], Awaitable[ProcessResult]]
"""Runs the canary with grants, against a target in JSON."""


class CanaryError(Exception):
    """The canary, or a program after it, could not run."""


async def run_canary(
    folder: Path, run: Run, readable: tuple[Path, ...] = (), facts: Mapping[str, object] | None = None
) -> tuple[dict[str, bool], Path]:
    """Return for each attempt of the canary whether it was refused, and the workspace that it had in `folder`.

    It runs without a workspace, and with one to read. Its target contains `facts`, too. Raises CanaryError if it cannot
    run.
    """
    workspace, bait = _set_bait(folder)
    target = json.dumps({**canary.describe_parent(), **bait, **(facts or {})})
    attempts: dict[str, bool] = {}
    for grants in (
        ProcessGrants(readable=readable),
        ProcessGrants(workspace=workspace, access="read-only", readable=readable),
    ):
        result = await run(grants, target)
        if result.status is not Status.OK:
            raise CanaryError(result.reason or result.stderr.head or "the canary could not run")
        try:
            found = json.loads(result.stdout.head).items()
        except (ValueError, AttributeError):
            raise CanaryError("the canary told nothing that can be read") from None
        for name, refused in found:
            attempts[name] = refused is True and attempts.get(name, True)
    # A sandbox may have another directory of that name; what counts is whether the file exists outside of it.
    attempts["make a file outside"] = not os.path.lexists(folder / "secret.made")  # noqa: ASYNC240 - a look at /tmp
    return attempts, workspace


def _set_bait(folder: Path) -> tuple[Path, dict[str, str]]:
    """Make a workspace, a file outside of it that only confinement protects, and a hidden one in it."""
    folder.chmod(0o711)
    # Any user may write to it, so that no file mode is taken for confinement. Its random name and the unlistable folder
    # keep other users of the machine out: without the bait, an attempt would look refused.
    workspace = folder / f"workspace-{secrets.token_hex(8)}"
    workspace.mkdir()
    workspace.chmod(0o777)
    bait = {"secret": folder / "secret", "hidden": workspace / ".env"}
    for file in bait.values():
        file.write_text("canary")
        file.chmod(0o666)
    return workspace, {name: str(file) for name, file in bait.items()}
