"""Find out which programs run in place: files of the workspace that can import the files beside them.

The program itself reads those files, with its own grants. Every other program runs from a copy in scratch.
"""

import os
import stat
from pathlib import Path

from paddock.confinement.sandbox.child import permissions
from paddock.confinement.sandbox.child.hiding import NOTHING, HidingRules, is_hidden
from paddock.engines.programs.steps import StepRunner
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import Toolchain, identity_of, reachable_to_read


def find_in_place(
    task: ProgramTask,
    planned: StepRunner,
    toolchain: Toolchain,
    user: int | None,
    rules: HidingRules = NOTHING,
) -> Path | None:
    """Return the real path of the program's own file; None if a copy is to run.

    The program must be interpreted without changes, the workspace be granted, and `user` (None: this process's) be able
    to read the file, which must not be hidden by the `rules`. It must contain the code that was requested and approved.
    """
    work = task.work
    if not work.file or task.terms.grants.access == "none":
        return None
    named = Path(work.file)
    if planned.compile is not None or planned.source != work.code:
        return None
    if named.suffix not in ("", *toolchain.recipe.extensions):
        return None
    try:
        path = (task.workspace / named).resolve(strict=True)
        top = task.workspace.resolve()
        inside = path.is_relative_to(top) and not is_hidden(str(path), str(top), rules)
        holds = inside and _holds_code(path, planned.source.encode("utf-8", "surrogatepass"), user)
    except OSError:
        return None
    return path if holds and reachable_to_read(path, user) else None


def _holds_code(path: Path, code: bytes, user: int | None) -> bool:
    """Return whether a regular file that a user may read contains exactly `code`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        facts = os.fstat(descriptor)
        plain = stat.S_ISREG(facts.st_mode) and permissions.may_read(facts, *identity_of(user))
        return plain and facts.st_size == len(code) and file.read(len(code) + 1) == code
