"""Cache the toolchains that a session has found, until the files by which they were found change.

A search takes a millisecond and more; checking that nothing changed takes a tenth of that. The check compares what the
kernel reports: device, inode, owner, mode, size, times. Therefore the next run notices a replaced toolchain, one that
now precedes it on PATH, and a new warm start.
"""

import asyncio
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

from paddock.confinement.sandbox.protocol import Sandbox
from paddock.engines.programs import directories, environments
from paddock.engines.programs.environments import Environment, RejectedInterpreter
from paddock.engines.programs.task import ProgramTask
from paddock.engines.programs.toolchain import INSTALLED, MissingToolchain, Toolchain, ToolchainSearch, find
from paddock.policy.settings.recipes import Recipe
from paddock.policy.settings.schema import RuntimeSettings

_MAX_TOOLCHAINS = 64
"""Maximum number of cached toolchains; the least recently used one is removed first."""

_Facts = tuple[int, ...] | None
_IDENTITY_FIELDS = "st_dev", "st_ino", "st_mode", "st_uid", "st_gid"
_ITSELF: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(*_IDENTITY_FIELDS)
_WHOLE: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(
    *_IDENTITY_FIELDS, "st_size", "st_mtime_ns", "st_ctime_ns"
)


@dataclass(frozen=True, slots=True)
class _KnownToolchain:
    toolchain: Toolchain
    path: str | None
    """PATH at the time of the search."""
    seen: Mapping[str, _Facts]


class Toolchains:
    """Finds toolchains on the PATH of `environ`."""

    def __init__(self, environ: Mapping[str, str], settings: RuntimeSettings | None = None) -> None:
        """Take environments of Python and Node.js from `settings`; without settings there are none."""
        self._environ = environ
        self._settings = settings or RuntimeSettings()
        self._answers: dict[tuple[object, ...], str] = {}
        self._known: OrderedDict[tuple[object, ...], _KnownToolchain] = OrderedDict()

    @property
    def environ(self) -> Mapping[str, str]:
        """The variables with PATH."""
        return self._environ

    async def for_task(self, task: ProgramTask, sandbox: Sandbox) -> Toolchain | MissingToolchain:
        """Return the toolchain of a program: its user must be able to reach it, and programs cannot have written it."""
        found = await self.find(
            task.recipe,
            user=sandbox.user(task.first_grants),
            untrusted=(task.workspace,),
            names=task.terms.grants.executables,
            environment=environments.choose_environment(self._settings, task, self._environ, sandbox.tier),
        )
        modules = environments.find_node_modules(self._settings, task)
        if modules is None or isinstance(found, MissingToolchain):
            return found
        if not modules.is_dir():
            reason = f"runtimes.node.environment names {modules.parent}, which has no directory node_modules"
            return MissingToolchain(task.recipe, reason, f"run npm install in {modules.parent}")
        return replace(
            found,
            prefixes=(*found.prefixes, modules),
            still=(*found.still, modules),
            links={modules.name: modules},
        )

    def find_passed_over(self, task: ProgramTask, sandbox: Sandbox) -> list[RejectedInterpreter]:
        """Return the environment of the workspace and the first interpreter on PATH, if a program does not use them."""
        tier = sandbox.tier
        if environments.choose_environment(self._settings, task, self._environ, tier) is not None:
            return []
        grants = task.first_grants
        user = sandbox.user(grants)
        usual = sandbox.user(grants.replace(workspace=task.workspace, access="read-only"))
        found = (
            environments.find_passed_over(self._settings, task, self._environ, tier),
            environments.unreachable(task.recipe, task, self._environ, user, usual),
        )
        return [rejected for rejected in found if rejected is not None]

    async def find(
        self,
        recipe: Recipe,
        *,
        user: int | None,
        untrusted: tuple[Path, ...],
        names: tuple[str, ...] | None = None,
        environment: Environment | None = None,
    ) -> Toolchain | MissingToolchain:
        """Return the first toolchain that `user` can reach and that is not in `untrusted`, or why there is none.

        `names` are the permitted executables, the best first; None means all of the recipe. An `environment` is used
        instead of PATH.
        """
        key = (recipe.name, user, untrusted, names, environment)
        known = self._known.get(key)
        if known is not None and self._still_holds(known):
            self._known.move_to_end(key)
            return known.toolchain
        self._known.pop(key, None)
        path = self._environ.get("PATH")
        search = ToolchainSearch.of_machine(self._environ, user, untrusted=untrusted, answers=self._answers)
        found = await asyncio.to_thread(find_first, recipe, search, names, environment)
        if isinstance(found, Toolchain):
            self._known[key] = _KnownToolchain(found, path, _search_facts(found, search))
            while len(self._known) > _MAX_TOOLCHAINS:
                self._known.popitem(last=False)
        return found

    def _still_holds(self, known: _KnownToolchain) -> bool:
        if known.path != self._environ.get("PATH"):
            return False
        for path, facts in known.seen.items():  # noqa: SIM110 - a generator is slower, and every program waits
            if _stat_facts(path) != facts:
                return False
        return True


def find_first(
    recipe: Recipe,
    search: ToolchainSearch,
    names: tuple[str, ...] | None,
    environment: Environment | None = None,
) -> Toolchain | MissingToolchain:
    """Search for the toolchain of a recipe, in this order: the environment, then the executables with these names."""
    if environment is not None:
        return environments.toolchain(recipe, environment, search, names)
    if names is None or names == recipe.candidates:
        return find(recipe, search)
    found: Toolchain | MissingToolchain = MissingToolchain(
        recipe, "policy allows no executable that can run it", ""
    )
    for name in names:
        found = find(recipe, search, executable=name)
        if isinstance(found, Toolchain):
            break
    return found


def _search_facts(toolchain: Toolchain, search: ToolchainSearch) -> dict[str, _Facts]:
    """Return the facts that change if a search would have another result: of the files found, and of earlier ones."""
    folders = dict.fromkeys(map(os.path.dirname, search.looked))
    candidates = filter(os.path.lexists, search.looked)
    found = map(str, (toolchain.executable, *toolchain.placeholders.values(), *toolchain.prefixes))
    required = [os.path.dirname(toolchain.placeholders[name]) for name in toolchain.variant.requires]
    recipe = toolchain.recipe
    warm = [str(search.warm / recipe.name)] if search.warm is not None and toolchain.variant.warm else []
    whole = {
        f"{path}/": _stat_facts(f"{path}/")
        for path in (*folders, *required, *warm, *_list_installed(search, folders))
    }
    itself = {path: _stat_facts(path) for path in (*candidates, *found) if f"{path}/" not in whole}
    return {**itself, **whole}


def _list_installed(search: ToolchainSearch, looked: Container[str]) -> list[str]:
    """Return the directories of Paddock's own installations if the search reached them, which come last."""
    roots = directories.list_search_directories(search.user)
    path = [folder for folder in search.path.split(os.pathsep) if folder.startswith("/")]
    others = [folder for folder in path if not any(Path(folder).is_relative_to(root) for root in roots)]
    if not all(folder in looked for folder in others):
        return []
    parts = "", *(pattern.partition("/")[0] for pattern in INSTALLED)
    return [str(root / part) for root in roots for part in parts]


def _stat_facts(path: str) -> _Facts:
    """Return the facts of a file or directory; if `path` ends in a slash, they change with the directory's entries."""
    try:
        facts = os.stat(path)  # about fifty of these calls for each program that runs
    except OSError:
        return None
    if stat.S_ISDIR(facts.st_mode) and not path.endswith("/"):
        return _ITSELF(facts)
    return _WHOLE(facts)
