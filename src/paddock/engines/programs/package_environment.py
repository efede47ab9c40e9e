"""The toolchain of a program with packages: that of the program, with the environment that has them.

    Python    the interpreter of a virtual environment; its entry points come last on PATH
    Node.js   `node_modules` beside the program; its `.bin` comes last on PATH

A session, or the run of one program, uses the environment as long as the context of `open_environment` lasts.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from paddock.confinement.sandbox.protocol import GuardingSandbox
from paddock.engines.packages.interface import PackageInterpreter, PackagesError, WantedPackages
from paddock.engines.packages.python import SCRIPTS
from paddock.engines.packages.service import Packages
from paddock.engines.programs.environments import Environment
from paddock.engines.programs.running_task import PreparedToolchain
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import MissingToolchain, Toolchain, ToolchainSearch, UnusableError
from paddock.engines.programs.toolchain_cache import Toolchains
from paddock.model.requirements import LOCK_FILE, PACKAGE_FILE
from paddock.model.texts import install_command

_MODULES = "node_modules"


@asynccontextmanager
async def open_environment(
    task: ProgramTask,
    toolchain: Toolchain,
    toolchains: Toolchains,
    sandbox: GuardingSandbox,
    packages: Packages,
    *,
    stop: asyncio.Event | None,
) -> AsyncGenerator[PreparedToolchain]:
    """Yield the toolchain of a program with its packages (`task.work.packages`), installed first if necessary.

    `toolchain` is that of the program without packages. Raises PackagesError with the reason and the remedy, and
    EngineError as sandboxes do.
    """
    files = {file.path: file.data for file in task.work.files if file.data is not None}
    wanted = WantedPackages(
        task.work.runtime,
        task.work.packages,
        {name: files[name] for name in (PACKAGE_FILE, LOCK_FILE) if name in files},
        task.actor,
    )
    user = sandbox.user(task.first_grants)
    search = ToolchainSearch.of_machine(toolchains.environ, user, untrusted=(task.workspace,))
    interpreter = PackageInterpreter(
        executable=toolchain.executable,
        readable=toolchain.prefixes,
        identity=toolchain.identity,
        installer=_find_installer(wanted, search, toolchain),
        has_workspace=task.terms.grants.access != "none",
    )
    async with packages.provide(wanted, interpreter, sandbox, task.open_hosts, stop) as provided:
        if wanted.installer == "npm":
            modules = provided.folder / _MODULES
            toolchain = replace(toolchain, prefixes=(*toolchain.prefixes, provided.folder))
            yield PreparedToolchain(
                _add_to_path(toolchain, modules / ".bin"), {_MODULES: modules}, provided.facts
            )
            return
        found = await toolchains.find(
            task.recipe,
            user=user,
            # Also in a workspace that contains the store: no program may write there, because it is Paddock's own.
            untrusted=(),
            names=task.terms.grants.executables,
            environment=Environment(provided.folder, "packages", inside=False),
        )
        if isinstance(found, MissingToolchain):
            raise PackagesError(
                f"the environment with the packages cannot be used: {found.reason}", found.remedy
            )
        yield PreparedToolchain(_add_to_path(found, provided.folder / SCRIPTS), facts=provided.facts)


def _add_to_path(toolchain: Toolchain, folder: Path) -> Toolchain:
    """Return a toolchain with a directory at the end of PATH, where it shadows no program."""
    path = toolchain.environment.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return replace(toolchain, environment={**toolchain.environment, "PATH": f"{path}{os.pathsep}{folder}"})


def _find_installer(wanted: WantedPackages, search: ToolchainSearch, toolchain: Toolchain) -> Path:
    """Return uv, or the npm beside node or on PATH. Raises PackagesError without one."""
    if wanted.installer == "uv":
        if (own := find_uv()) is not None:
            return own
        remedy = f"install Paddock with it: {install_command('packages')}"
    else:
        beside = toolchain.executable.parent / "npm"
        if beside.is_file():
            return beside
        remedy = "put npm on PATH; it is part of the packages of Node.js"
    try:
        return search.program([wanted.installer])
    except UnusableError as error:
        raise PackagesError(
            f"packages for {wanted.language} need {wanted.installer}, which is not installed ({error})",
            remedy,
        ) from None


def find_uv() -> Path | None:
    """Return the uv that was installed with Paddock, or None."""
    own = Path(sys.executable).parent / "uv"
    return own if os.access(own, os.X_OK) else None
