"""The languages that Paddock runs: those of `recipes.toml`, and those that the settings add."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from paddock.model.languages import ALIASES
from paddock.model.program import RUNTIMES, Executables
from paddock.model.texts import find_nearest
from paddock.policy.settings.recipes import Recipe

_HINTS = {"deno": "typescript"}
"""What people may mean by names that are no aliases."""
HELLO_OUTPUT = "hello from paddock"
"""What every hello program prints."""
_HEADER_PATTERN = re.compile(r"^\[([a-z][a-z0-9_-]*)\]$", re.MULTILINE)
"""The header of a recipe's table."""


class _BuiltInRecipes(Mapping[str, Recipe]):
    """The recipes of `recipes.toml`, in its order. A program needs one of them, which is parsed at its first use."""

    def __init__(self) -> None:
        text = Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8")
        # What precedes the first header; then a name and its lines, by turns.
        parts = _HEADER_PATTERN.split(text)
        self._texts = dict(zip(parts[1::2], parts[2::2], strict=True))
        self._recipes: dict[str, Recipe] = {}

    def __getitem__(self, name: str) -> Recipe:
        if name not in self._recipes:
            entry = tomllib.loads(f"[{name}]{self._texts[name]}")[name]
            self._recipes[name] = Recipe.model_validate({"name": name, **entry})
        return self._recipes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


_read_built_in_recipes = cache(_BuiltInRecipes)


def recipes(added: Mapping[str, Recipe] | None = None) -> Mapping[str, Recipe]:
    """Return every recipe by name: the built-in ones in the order of the data, then those that the settings add.

    Raises ValidationError when the data is wrong.
    """
    return MappingProxyType({**_read_built_in_recipes(), **added}) if added else _read_built_in_recipes()


def executables(runtime: str, added: Mapping[str, Recipe] | None = None) -> Executables:
    """Return the executables that can run the programs of a runtime; none for an unknown one."""
    recipe = recipes(added).get(runtime)
    if recipe is None:
        return Executables(candidates=(), compatible=frozenset())
    names = recipe.compatible or recipe.candidates
    return Executables(candidates=recipe.candidates, compatible=frozenset(name.lower() for name in names))


def find_suffix_runtime(file: Path, known: Mapping[str, Recipe]) -> str | None:
    """Return the runtime of a file's suffix, whatever its letter case; None if no runtime has it.

    Built-in runtimes take precedence over added ones.
    """
    suffix = file.suffix.lower()
    return next(
        (name for name, recipe in known.items() if suffix in map(str.lower, recipe.extensions)),
        None,
    )


def find_executable_runtime(executable: str, known: Mapping[str, Recipe]) -> str | None:
    """Return the runtime whose variants start an executable of this name; None if there is none."""
    return next((name for name, recipe in known.items() if executable in recipe.candidates), None)


def is_compiled(runtime: str, added: Mapping[str, Recipe]) -> bool:
    """Return whether programs of a runtime may have a compile step."""
    recipe = recipes(added).get(runtime)
    return recipe is not None and any(variant.compile for variant in recipe.variants)


def no_runtime(name: str, added: Mapping[str, Recipe] | None = None) -> str:
    """Return the error for an unknown runtime, with the most similar name or all known ones."""
    known = recipes(added)
    near = _guess_runtime(name[:200].lower(), known)
    return f"there is no runtime {name}; " + (
        f"did you mean {near}?" if near else f"there are {', '.join((*RUNTIMES, *(added or ())))}"
    )


def _guess_runtime(wanted: str, known: Mapping[str, Recipe]) -> str:
    """Return the runtime whose language, executable or suffix has this name, or whose name is similar; "" if none."""
    for runtime, recipe in known.items():
        suffixes = (extension.removeprefix(".") for extension in recipe.extensions)
        if wanted in {each.lower() for each in (runtime, recipe.title, *recipe.compatible, *suffixes)}:
            return runtime
    others = {**ALIASES, **_HINTS}
    near = find_nearest(wanted, [*known, *others])
    return others.get(near[0], near[0]) if near else ""
