"""Programs that are files of the workspace: which of them are run where they stand, beside what they import.

What is read there is read by the program, with its own grants. Everything else is run from a copy that stands alone.
"""

import os
import stat
from pathlib import Path

from paddock.runtimes.steps import StepRunner
from paddock.runtimes.task import ProgramTask
from paddock.runtimes.toolchain import Toolchain, identity_of, reachable_to_read
from paddock.sandbox.child import permissions


def find_in_place(
    job: ProgramTask, planned: StepRunner, toolchain: Toolchain, user: int | None
) -> Path | None:
    """Return the program's own file, without links; None where a copy is to be run.

    It is interpreted, as it is; the workspace is granted, and `user`, None being this process's, may read it there;
    and it holds the code that was asked for and decided on.
    """
    work = job.work
    if not work.file or job.terms.grants.access == "none":
        return None
    named = Path(work.file)
    if planned.compile is not None or planned.source != work.code:
        return None
    if named.suffix not in ("", *toolchain.recipe.extensions):
        return None
    try:
        path = (job.workspace / named).resolve(strict=True)
        inside = path.is_relative_to(job.workspace.resolve())
        holds = inside and _holds_code(path, planned.source.encode("utf-8", "surrogatepass"), user)
    except OSError:
        return None
    return path if holds and reachable_to_read(path, user) else None


def _holds_code(path: Path, code: bytes, user: int | None) -> bool:
    """Tell whether a plain file that a user may read holds `code` and nothing else."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # a descriptor
        facts = os.fstat(descriptor)
        plain = stat.S_ISREG(facts.st_mode) and permissions.may_read(facts, *identity_of(user))
        return plain and facts.st_size == len(code) and file.read(len(code) + 1) == code
