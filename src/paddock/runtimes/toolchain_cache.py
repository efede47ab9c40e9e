"""The toolchains that a session has found, each until something that it was found by changes.

Looking for one costs a millisecond and more; looking whether it is still the same costs a tenth of that. What counts
as the same is what the kernel says of the files: device, inode, owner, mode, size, times. So a toolchain that was
replaced, one that comes to stand before it on PATH, and a warm start that was made meanwhile are seen at the next run.
"""

import asyncio
import os
import stat
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from paddock.runtimes import directories, environments
from paddock.runtimes.environments import Environment, RejectedInterpreter
from paddock.runtimes.task import ProgramTask
from paddock.runtimes.toolchain import INSTALLED, MissingToolchain, Search, Toolchain, find
from paddock.sandbox.protocol import Sandbox
from paddock.settings.recipes import Recipe
from paddock.settings.schema import RuntimeSettings

_MAX_TOOLCHAINS = 64
"""Toolchains that are remembered; the one not used for longest goes."""

_Facts = tuple[int, ...] | None
_IDENTITY_FIELDS = "st_dev", "st_ino", "st_mode", "st_uid", "st_gid"
_ITSELF: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(*_IDENTITY_FIELDS)
_WHOLE: Callable[[os.stat_result], tuple[int, ...]] = attrgetter(
    *_IDENTITY_FIELDS, "st_size", "st_mtime_ns", "st_ctime_ns"
)


@dataclass(frozen=True, slots=True)
class _Known:
    toolchain: Toolchain
    path: str | None
    """PATH as it was."""
    seen: Mapping[str, _Facts]


class Toolchains:
    """Finds toolchains; `environ` is where PATH comes from."""

    def __init__(self, environ: Mapping[str, str], settings: RuntimeSettings | None = None) -> None:
        """Take environments from `settings`; without them programs get none."""
        self._environ = environ
        self._settings = settings or RuntimeSettings()
        self._answers: dict[tuple[object, ...], str] = {}
        self._known: OrderedDict[tuple[object, ...], _Known] = OrderedDict()

    async def for_job(self, job: ProgramTask, sandbox: Sandbox) -> Toolchain | MissingToolchain:
        """Return what runs a program, as its job will see it: what its user can reach, and nobody but us put there."""
        return await self.find(
            job.recipe,
            user=sandbox.user(job.first_grants),
            untrusted=(job.workspace,),
            names=job.terms.grants.executables,
            environment=environments.choose_environment(self._settings, job, self._environ, sandbox.tier),
        )

    def find_passed_over(self, job: ProgramTask, sandbox: Sandbox) -> list[RejectedInterpreter]:
        """Return the environment of the workspace, and what is first on PATH, where a program uses them not."""
        tier = sandbox.tier
        if environments.choose_environment(self._settings, job, self._environ, tier) is not None:
            return []
        grants = job.first_grants
        user = sandbox.user(grants)
        usual = sandbox.user(grants.replace(workspace=job.workspace, access="read-only"))
        found = (
            environments.find_passed_over(self._settings, job, self._environ, tier),
            environments.unreachable(job.recipe, job, self._environ, user, usual),
        )
        return [each for each in found if each is not None]

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

        `names` are the executables that may be taken, the best first; None stands for all of the recipe. An
        `environment` is used instead of PATH.
        """
        key = (recipe.name, user, untrusted, names, environment)
        known = self._known.get(key)
        if known is not None and self._still_holds(known):
            self._known.move_to_end(key)
            return known.toolchain
        self._known.pop(key, None)
        path = self._environ.get("PATH")
        search = Search.of_machine(self._environ, user, untrusted=untrusted, answers=self._answers)
        found = await asyncio.to_thread(_find_first, recipe, search, names, environment)
        if isinstance(found, Toolchain):
            self._known[key] = _Known(found, path, _search_facts(found, search))
            while len(self._known) > _MAX_TOOLCHAINS:
                self._known.popitem(last=False)
        return found

    def _still_holds(self, known: _Known) -> bool:
        if known.path != self._environ.get("PATH"):
            return False
        for place, facts in known.seen.items():  # noqa: SIM110 - a generator takes longer, and each program waits
            if _stat_facts(place) != facts:
                return False
        return True


def _find_first(
    recipe: Recipe, search: Search, names: tuple[str, ...] | None, environment: Environment | None = None
) -> Toolchain | MissingToolchain:
    if environment is not None:
        return environments.toolchain(recipe, environment, search, names)
    if names is None or names == recipe.candidates:
        return find(recipe, search)
    found: Toolchain | MissingToolchain = MissingToolchain(
        recipe, "nothing that policy allows can run it", ""
    )
    for name in names:
        found = find(recipe, search, executable=name)
        if isinstance(found, Toolchain):
            break
    return found


def _search_facts(toolchain: Toolchain, search: Search) -> dict[str, _Facts]:
    """Return what tells that a search would find something else: what was found, and what would come before it."""
    folders = dict.fromkeys(map(os.path.dirname, search.looked))
    candidates = filter(os.path.lexists, search.looked)
    found = map(str, (toolchain.executable, *toolchain.places.values(), *toolchain.prefixes))
    required = [os.path.dirname(toolchain.places[place]) for place in toolchain.way.requires]
    recipe = toolchain.recipe
    warm = [str(search.warm / recipe.name)] if search.warm is not None and toolchain.way.warm else []
    whole = {
        f"{path}/": _stat_facts(f"{path}/")
        for path in (*folders, *required, *warm, *_list_installed(search, folders))
    }
    itself = {path: _stat_facts(path) for path in (*candidates, *found) if f"{path}/" not in whole}
    return {**itself, **whole}


def _list_installed(search: Search, looked: Container[str]) -> list[str]:
    """Return the directories that show what Paddock has installed, when the search came to that: it comes last."""
    places = directories.list_search_directories(search.user)
    path = [folder for folder in search.path.split(os.pathsep) if folder.startswith("/")]
    others = [folder for folder in path if not any(Path(folder).is_relative_to(place) for place in places)]
    if not all(folder in looked for folder in others):
        return []
    parts = "", *(pattern.partition("/")[0] for pattern in INSTALLED)
    return [str(place / part) for place in places for part in parts]


def _stat_facts(path: str) -> _Facts:
    """Return what the kernel says of a file or directory; of what is in a directory too when `path` ends in a slash."""
    try:
        facts = os.stat(path)  # some fifty of them for each program that runs
    except OSError:
        return None
    if stat.S_ISDIR(facts.st_mode) and not path.endswith("/"):
        return _ITSELF(facts)
    return _WHOLE(facts)
