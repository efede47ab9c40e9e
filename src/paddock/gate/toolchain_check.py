"""Find the toolchains for programs of a workspace, for `paddock doctor` and `paddock runtimes`."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.programs.recipe import executables, recipes
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain
from paddock.engines.programs.toolchain_cache import Toolchains
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import SandboxFacts
from paddock.model.request import RuntimeRun
from paddock.model.sandbox import Examination
from paddock.policy.decisions import programs
from paddock.policy.settings.schema import Settings


def list_usual_tasks(settings: Settings, workspace: Path) -> list[ProgramTask]:
    """Return for each runtime the default program of `paddock exec` in a workspace."""
    tasks: list[ProgramTask] = []
    added = settings.runtimes.recipes
    catalogue = partial(executables, added=added)
    known = recipes(added)
    for name in settings.runtimes.languages:
        work = programs.add_defaults(RuntimeRun(runtime=name, code=" "), settings)
        terms, _, _ = programs.judge_program(work, LimitOverrides(), settings, catalogue)
        tasks.append(ProgramTask(work, terms, workspace, workspace.resolve(), known[name]))
    return tasks


async def find_toolchains(
    settings: Settings, workspace: Path, found: Examination, job_user: int | None
) -> Mapping[str, Toolchain | MissingToolchain]:
    """Return the toolchain for programs of the workspace in Python, and in each language that the settings add."""
    tier = found.effective.tier if found.effective is not None else found.minimum
    toolchains = Toolchains(os.environ, settings.runtimes)
    supervised = found.effective is None or not found.effective.unsupervised
    sandbox = KernelSandbox(SandboxFacts(tier=tier), tier, job_user, supervised=supervised)
    return {
        name: await toolchains.for_task(task, sandbox)
        for task in list_usual_tasks(settings, workspace)
        if (name := task.work.runtime) in {"python", *settings.runtimes.recipes}
    }
