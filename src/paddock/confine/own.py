"""Paddock's own places: no program reads the vault, or changes what decides on programs and what is known of them.

They may lie in a workspace, for instance when that is the user's home. A mount or a rule of Landlock could hide them in
some tiers only, so such a workspace is not granted at all.
"""

import os
from pathlib import Path
from typing import NamedTuple

from paddock.confine.plan import GrantError
from paddock.model.process import ProcessGrants


class OwnPlace(NamedTuple):
    """A file or directory of Paddock's own, that need not be there."""

    what: str
    """What people call it."""
    path: Path
    secret: bool = False
    """Whether it may not even be read."""


def check_own(grants: ProcessGrants, places: tuple[OwnPlace, ...]) -> None:
    """Raise GrantError when the workspace that is granted would hand over one of the places, or lies in one."""
    if grants.workspace is None or grants.access == "none":
        return
    workspace = os.path.realpath(grants.workspace)
    writes = grants.access == "workspace-write"
    for place in places:
        real = os.path.realpath(place.path)
        if os.path.commonpath((workspace, real)) not in (workspace, real):
            continue
        told = f"the workspace holds {place.what} ({os.path.relpath(real, workspace)})"
        if place.secret and os.path.exists(real):  # noqa: PTH110
            raise GrantError(
                f"{told}, which no program may read; work in another folder, or with access none"
            )
        if writes:
            raise GrantError(
                f"{told}, which no program may change; work in another folder, or with read-only access"
            )
