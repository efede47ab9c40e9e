"""Which directories are refused: the kernel's, those that would widen a grant, and those that a program has chosen."""

import os
from collections.abc import Sequence
from pathlib import Path

from paddock.confinement.sandbox.child import namespaces
from paddock.confinement.sandbox.child.paths import is_below
from paddock.model.process import ProcessGrants


def is_the_kernels(path: str) -> bool:
    """Return whether a real path is in /proc or /dev; files in shared memory count as ordinary files."""
    kernels = any(is_below(path, folder) for folder in ("/proc", "/dev"))
    return kernels and not any(is_below(path, folder) for folder in namespaces.PRIVATE_FOLDERS)


def list_overlaid(grants: ProcessGrants) -> list[Path]:
    """Return the directories that get an overlay, the workspace first; their order numbers the overlays."""
    own = [grants.workspace] if grants.workspace is not None and grants.access == "overlay" else []
    return [*own, *grants.overlaid]


def explain_refusal(path: Path, grants: ProcessGrants, folders: Sequence[Path]) -> str:
    """Return why a directory may not be granted; "" if it may. `folders` are those that a job works in."""
    real = os.path.realpath(path)
    workspace = "" if grants.workspace is None else os.path.realpath(grants.workspace)
    if grants.access in {"read-only", "overlay"} and path in grants.writable and is_below(workspace, real):
        return (
            f"{path} cannot be granted for writing: it holds the workspace {grants.workspace}, to which the access is "
            f"{grants.access}; grant a directory that does not hold it, or the access workspace-write"
        )
    if path in grants.overlaid and path in grants.writable:
        return f"{path} is granted both as an overlay and for writing; grant it once"
    if path in grants.overlaid and (other := _find_overlapping(path, real, workspace, grants)):
        return (
            f"{path} cannot be an overlay beside {other}: neither may hold the other; give it read-only (:ro) or for "
            "writing (:rw)"
        )
    for folder in folders:
        if path.is_relative_to(folder) and real != str(folder.resolve() / path.relative_to(folder)):
            return (
                f"{path} leads through a link in {folder}, which a program may have made; grant the directory that is "
                "meant"
            )
    return ""


def _find_overlapping(path: Path, real: str, workspace: str, grants: ProcessGrants) -> str:
    """Return the first granted directory that holds a directory with an overlay, or is in it; "" without one."""
    given = [*grants.writable, *grants.searched, *grants.overlaid]
    others = [os.path.realpath(each) for each in given if each != path]
    for other in ([workspace] if workspace else []) + others:
        if is_below(real, other) or is_below(other, real):
            return other
    return ""
