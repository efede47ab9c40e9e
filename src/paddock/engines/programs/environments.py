"""Existing Python environments: the one that the user's settings name, or that of the workspace.

    [runtimes.python] environment      the user trusts it: its interpreter is run and used like one on PATH
    runtimes.workspace_environment     programs may have written it: only its name and its files in the workspace are
                                       used, and only if its interpreter belongs to an installation elsewhere

Nothing of a workspace's environment runs outside of the sandbox. No link in it leads to a grant, except to a Python
installation. No program may change it while it runs, because the user's editor and shell start programs from it.
Directories that `.pth` files name are not granted; those in the workspace can be read anyway.
"""

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import (
    MissingToolchain,
    Toolchain,
    ToolchainSearch,
    UnusableError,
    find,
    normalise_name,
    reachable,
    use,
)
from paddock.model.requirements import INSTALLERS
from paddock.model.sandbox import Tier
from paddock.policy.settings.recipes import Recipe
from paddock.policy.settings.schema import RuntimeSettings

ENVIRONMENT_KEY = "runtimes.python.environment"
_GRANT_KEY = "runtimes.workspace_environment"
_MARKER_FILES = ("pyvenv.cfg", "conda-meta")
"""Files that mark an environment: of venv, uv and virtualenv; of conda."""
REQUEST_READ_ONLY = "request the access read-only"
_STANDARD_LIBRARY = "lib*/*/os.py"


class Environment(NamedTuple):
    """An environment for programs to use."""

    folder: Path
    setting: str
    """The setting that names or allows it."""
    inside: bool
    """Whether it is in the workspace, so that programs may have written it."""
    refusal: str = ""
    """Why a program cannot use it, although the settings name it."""


class RejectedInterpreter(NamedTuple):
    """An interpreter that is not used, although a person would expect it."""

    reason: str
    """The interpreter and the reason."""
    remedies: tuple[str, ...]
    """Steps that together make programs use it; empty if there is no short way."""


def choose_environment(
    settings: RuntimeSettings, task: ProgramTask, environ: Mapping[str, str], tier: Tier
) -> Environment | None:
    """Return the environment for a program to use, or None. An environment that the settings name is never replaced."""
    if task.work.runtime != "python":
        return None
    if (named := settings.python.environment) is not None:
        inside = _is_in(named, task.workspace)
        return Environment(named, ENVIRONMENT_KEY, inside, _refuse_environment(task, tier) if inside else "")
    if not settings.workspace_environment or _refuse_environment(task, tier):
        return None
    folder = _find_in_workspace(task, environ)
    return None if folder is None else Environment(folder, _GRANT_KEY, inside=True)


def find_node_modules(settings: RuntimeSettings, task: ProgramTask) -> Path | None:
    """Return the directory of the packages for a program of Node.js that names none itself; None without one."""
    folder = settings.node.environment
    if folder is None or INSTALLERS.get(task.work.runtime) != "npm" or task.work.packages:
        return None
    return folder / "node_modules"


def find_passed_over(
    settings: RuntimeSettings, task: ProgramTask, environ: Mapping[str, str], tier: Tier
) -> RejectedInterpreter | None:
    """Return the environment of the workspace that a program does not use, or None."""
    if task.work.runtime != "python" or settings.python.environment is not None:
        return None
    if (folder := _find_in_workspace(task, environ)) is None:
        return None
    reasons: list[str] = []
    remedies: list[str] = []
    if not settings.workspace_environment:
        reasons.append(f"{_GRANT_KEY} is off, because programs may have changed what is in the workspace")
        remedies.append(f"set {_GRANT_KEY} = true in the user's paddock.toml")
    if refusal := _refuse_environment(task, tier):
        reasons.append(refusal)
        remedies.append(REQUEST_READ_ONLY)
    return (
        RejectedInterpreter(f"{folder} was not used: {'; '.join(reasons)}", tuple(remedies))
        if reasons
        else None
    )


def unreachable(
    recipe: Recipe, task: ProgramTask, environ: Mapping[str, str], user: int | None, usual: int | None
) -> RejectedInterpreter | None:
    """Return the first interpreter of a runtime on PATH if the user of a program cannot reach it, or None.

    The program runs as `user`; it would run as `usual` if it could read the workspace. None means this process's user.
    """
    names = task.terms.grants.executables or recipe.candidates
    path = os.pathsep.join(filter(os.path.isabs, environ.get("PATH", "").split(os.pathsep)))
    first = next(filter(None, (shutil.which(name, path=path) for name in names)), None)
    if first is None or _is_in(Path(first), task.workspace) or reachable(Path(first), user):
        return None
    reason = f"{first} was not used: the program runs as user {user}, which cannot reach it"
    helps = task.terms.grants.access == "none" and reachable(Path(first), usual)
    return RejectedInterpreter(reason, (REQUEST_READ_ONLY,) if helps else ())


def toolchain(
    recipe: Recipe, environment: Environment, search: ToolchainSearch, names: tuple[str, ...] | None
) -> Toolchain | MissingToolchain:
    """Return the toolchain of an environment, or why it cannot be used."""
    folder = environment.folder
    wanted = recipe.candidates if names is None else names
    why: object = environment.refusal
    remedy = f"{REQUEST_READ_ONLY}, or change {environment.setting} in the settings"
    if not why:
        remedy = f"make it again, or change {environment.setting} in the settings"
        if not any((folder / mark).exists() for mark in _MARKER_FILES):
            why = f"it is not an environment: it has neither {' nor '.join(_MARKER_FILES)}"
    if not why:
        use_it = _toolchain_of_programs if environment.inside else _toolchain_of_user
        try:
            return use_it(recipe, folder, search, wanted)
        except (UnusableError, OSError) as error:
            why = error
    return MissingToolchain(recipe, f"{folder} cannot be used: {why}", remedy)


def _find_in_workspace(task: ProgramTask, environ: Mapping[str, str]) -> Path | None:
    """Return the environment of the workspace, whether or not programs may use it."""
    workspace = task.workspace.resolve()
    activated = environ.get("VIRTUAL_ENV", "")
    for folder in (Path(activated) if activated.startswith("/") else None, workspace / ".venv"):
        if folder is not None and _is_in(folder, workspace) and (folder / _MARKER_FILES[0]).is_file():
            return folder
    return None


def _is_in(folder: Path, workspace: Path) -> bool:
    with contextlib.suppress(OSError, RuntimeError):  # a cycle of links
        return folder.resolve().is_relative_to(workspace.resolve())
    return False


def _refuse_environment(task: ProgramTask, tier: Tier) -> str:
    """Return why a program cannot use an environment of its workspace, or ""."""
    access = task.terms.grants.access
    if access == "none":
        return "the program may not read the workspace"
    if access == "workspace-write" and tier == "landlock":
        return "in the tier landlock a program that may write to the workspace could change it"
    return ""


def _toolchain_of_user(
    recipe: Recipe, folder: Path, search: ToolchainSearch, names: tuple[str, ...]
) -> Toolchain:
    """Return the toolchain of an environment that the user trusts. Raises UnusableError."""
    real = folder.resolve()
    if Path.home().is_relative_to(real):
        raise UnusableError(f"it would let programs read all of {real}")
    own = replace(search, path=str(folder / "bin"))
    for name in names:
        if not (folder / "bin" / name).exists():
            continue
        found = find(recipe, own, executable=name)
        if isinstance(found, Toolchain):
            return replace(found, prefixes=(real, *found.prefixes))
        raise UnusableError(found.reason)
    raise _no_interpreter(folder / "bin", names)


def _toolchain_of_programs(
    recipe: Recipe, folder: Path, search: ToolchainSearch, names: tuple[str, ...]
) -> Toolchain:
    """Return the toolchain of an environment that programs may have written. Raises UnusableError, OSError."""
    bin_folder = folder.resolve() / "bin"
    if folder.is_symlink() or bin_folder.is_symlink():
        raise UnusableError("it is a link, or its bin is one")
    for variant in recipe.variants:
        wanted = [name for name in variant.executables if name in map(normalise_name, names)]
        for named in (bin_folder / name for name in wanted):
            search.looked.append(str(named))
            if not named.exists():
                continue
            real = named.resolve(strict=True)
            if search.distrusts(real):
                raise UnusableError(f"its interpreter {named} is in the workspace, not outside")
            if not any(real.parent.parent.glob(_STANDARD_LIBRARY)):
                raise UnusableError(f"{named} leads to {real}, which is not in an installation of Python")
            if not reachable(named, search.user):
                raise UnusableError(f"{named} cannot be reached by the user that programs run as")
            base = use(recipe, variant, real, search)
            placeholders = {
                "executable": str(named),
                "bin": str(bin_folder),
                "prefix": str(bin_folder.parent),
            }
            path = f"{bin_folder}:{base.environment.get('PATH', '/usr/local/bin:/usr/bin:/bin')}"
            return replace(
                base,
                executable=named,
                placeholders={**base.placeholders, **placeholders},
                prefixes=(*base.prefixes, named),  # `named`: the jail gets the links to the interpreter
                environment={**base.environment, "PATH": path},
                still=(bin_folder.parent,),
            )
    raise _no_interpreter(bin_folder, names)


def _no_interpreter(folder: Path, names: tuple[str, ...]) -> UnusableError:
    return UnusableError(f"its interpreter is missing: {folder} has no {' or '.join(names)}")
