"""What Paddock knows about a language: one entry of `recipes.toml`, checked when it is read.

A recipe has *ways*: an executable on PATH and the command lines that go with it, the best first. Words of a way may
name places in braces; `paddock.runtimes.toolchain` and `paddock.runtimes.steps` say which there are.
"""

import re
import signal
import tomllib
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from paddock.model.base import Value
from paddock.model.program import RUNTIMES, Executables, Runtime
from paddock.texts import find_nearest

PLACEHOLDER_PATTERN = re.compile(r"\{([a-z_.]+)\}")
"""How a word names a place."""

OF_JOBS = frozenset({"source", "output", "scratch", "heap_mib", "heap_hex", "main"})
"""Places that only the job has: its source file, what compiling makes, scratch, room for a heap (MiB, or bytes in
hexadecimal), the entry point."""
OF_TOOLCHAINS = frozenset({"executable", "bin", "prefix", "home", "warm", "cold"})
"""Places of every toolchain, either `warm` or `cold`; its tools and the files that it requires come to them."""


_ALIASES = {"javascript": "node", "golang": "go", "rustlang": "rust", "deno": "typescript"}
"""What people call runtimes besides."""


def _check_regular(text: str) -> str:
    re.compile(text)
    return text


def _check_pattern(text: str) -> str:
    if re.compile(text).groups < 1:
        raise ValueError("the pattern of a version needs a group")
    return text


def _check_signal(name: str) -> str:
    return signal.Signals[name].name


Style = Literal["plain", "csharp", "java", "kotlin", "php"]
Words = tuple[str, ...]
Names = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*$")], ...], Field(min_length=1)
]
Extension = Annotated[str, Field(pattern=r"^\.[A-Za-z0-9]+$")]


class Version(Value):
    """How a toolchain tells its version."""

    argv: Annotated[Words, Field(min_length=1)]
    pattern: Annotated[str, AfterValidator(_check_pattern)]
    """Regular expression whose first group that matched is the version."""
    stream: Literal["stdout", "stderr"] = "stdout"


class Shim(Value):
    """How to ask a version manager's stand-in (pyenv, rustup, nodenv...) for the program behind it."""

    argv: Annotated[Words, Field(min_length=1)]
    path: str = "{printed}"
    """The program, where `{printed}` is what the command printed."""


class WarmCache(Value):
    """What can be made once, so that every later start is faster: a directory, which jobs read as `{warm}`."""

    program: str = Field(min_length=1)
    """A program like those to come; it is `{source}`."""
    commands: Annotated[tuple[Annotated[Words, Field(min_length=1)], ...], Field(min_length=1)]
    """What makes it, one after another."""
    files: Mapping[str, str] = Field(default_factory=dict)
    """Further files beside the program: names and texts."""


class OutOfMemory(Value):
    """How a runtime ends that gets no more memory. Neither its exit nor its words alone are evidence."""

    exit_code: int | None = None
    signal: Annotated[str, AfterValidator(_check_signal)] | None = None
    said: Annotated[str, AfterValidator(_check_regular)]
    """Regular expression for the last lines of standard error, from the beginning of a line to the end."""


class RecipeVariant(Value):
    """One way to run a language: an executable and what goes with it."""

    executables: Names
    """Names to look for on PATH, in this order."""
    tools: Mapping[str, Names] = Field(default_factory=dict)
    """Other programs it needs: a place's name, and the names to look for on PATH."""
    requires: Mapping[str, Annotated[Words, Field(min_length=1)]] = Field(default_factory=dict)
    """Files it needs: a place's name, and globs of whose matches the highest version counts."""
    prefixes: Words = ()
    """What a job must read, as globs; what every job can read need not be named."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    files: Mapping[str, str] = Field(default_factory=dict)
    """Further files that stand beside the program's; with arguments alone, those that `environment` names."""
    compile: Words = ()
    """Makes `{output}`, a file or a directory, from `{source}`; empty when nothing is compiled. A word with a `*`
    stands for every file that it matches."""
    output: str = Field(default="program", pattern=r"^[a-z]+(\.[a-z]+)?$")
    """Name of what compiling makes, for runtimes that look at it."""
    run: Annotated[Words, Field(min_length=1)]
    """Runs the program; the caller's arguments follow."""
    arguments: Words = ()
    """Runs the toolchain with the caller's arguments alone; empty where a program is needed."""
    arguments_environment: Mapping[str, str] = Field(default_factory=dict)
    """Variables for that alone, besides those of `environment`."""
    subcommands: Words = ()
    """First arguments that take the place of the last of these words: it is `go test`, not `go run test`."""
    hello: str = ""
    """A program that prints HELLO_OUTPUT, where that of the recipe asks too much of this way."""
    out_of_memory: tuple[OutOfMemory, ...] = ()
    version: Version
    warm: WarmCache | None = None
    shim: Shim | None = None
    note: str = ""
    """What this way cannot do, for who chooses."""

    @property
    def compiles_by_itself(self) -> bool:
        """Whether the toolchain uses the warm start whenever it runs, also with arguments alone."""
        return any("{warm}" in value for value in self.environment.values())


class Install(Value):
    """Packages that make a way work, by package manager; all of them are needed."""

    apt: Words = ()
    npm: Words = ()
    pypi: Words = ()
    brew: Words = ()

    @property
    def packages(self) -> Mapping[str, Words]:
        """The package managers that are needed, each with its packages."""
        found = {"apt": self.apt, "npm": self.npm, "pypi": self.pypi, "brew": self.brew}
        return {manager: packages for manager, packages in found.items() if packages}


class Recipe(Value):
    """One language. Adding one is an entry of `recipes.toml`."""

    name: str = Field(pattern=r"^[a-z]+$")
    title: str = Field(min_length=1)
    extensions: Annotated[tuple[Extension, ...], Field(min_length=1)]
    """The first is that of the file a program is written to."""
    compatible: Names
    """Executables that a request may name, without case."""
    style: Style = "plain"
    """What is done to a program before it is run: `paddock.runtimes.styles`."""
    inherits: Words = ()
    """Variables of Paddock's own environment that the toolchain goes by."""
    hello: str = Field(min_length=1)
    """A program that prints HELLO_OUTPUT."""
    output: str = Field(min_length=1)
    """When what a program prints leaves it, if its standard output is a pipe; for the documentation."""
    output_buffered: str = ""
    """What a program does to buffer its output, which is faster."""
    install: tuple[Install, ...]
    """What to install, the best first."""
    elsewhere: str = ""
    """Where it is to be had, when no package manager has it."""
    ways: Annotated[tuple[RecipeVariant, ...], Field(alias="way", min_length=1)]

    @property
    def compiles(self) -> bool:
        """Whether its best way compiles."""
        return bool(self.ways[0].compile)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every executable that is looked for, the best first."""
        return tuple(name for way in self.ways for name in way.executables)

    @model_validator(mode="after")
    def _names_places_that_exist(self) -> Self:
        for way in self.ways:
            own = OF_TOOLCHAINS | _of_way(way)
            for words, places in (
                (
                    (
                        *way.compile,
                        *way.run,
                        *way.arguments,
                        *way.environment.values(),
                        *way.arguments_environment.values(),
                    ),
                    own | OF_JOBS,
                ),
                (tuple(chain(*way.warm.commands)) if way.warm else (), own | OF_JOBS),
                ((*way.prefixes, *chain(*way.requires.values()), *way.version.argv), own),
            ):
                unknown = {name for word in words for name in PLACEHOLDER_PATTERN.findall(word)} - places
                if unknown:
                    raise ValueError(f"{way.executables[0]}: no place is called {', '.join(sorted(unknown))}")
            if bool(way.compile) != any("{output}" in word for word in way.run):
                raise ValueError(f"{way.executables[0]}: what is compiled must be run, and nothing else")
        return self


def _of_way(way: RecipeVariant) -> frozenset[str]:
    names = [*way.requires]
    for tool in way.tools:
        names += [tool, *(f"{tool}.{part}" for part in ("bin", "prefix", "home"))]
    return frozenset(names)


HELLO_OUTPUT = "hello from paddock"
"""What every hello program prints."""


@cache
def recipes() -> Mapping[str, Recipe]:
    """Return every recipe by name, in the order of the data. Raises ValidationError when the data is wrong."""
    text = Path(__file__).with_name("recipes.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)
    found = {name: Recipe.model_validate({"name": name, **entry}) for name, entry in entries.items()}
    return MappingProxyType(found)


@cache
def executables(runtime: Runtime) -> Executables:
    """Return what can run the programs of a runtime."""
    recipe = recipes()[runtime]
    compatible = frozenset(name.lower() for name in recipe.compatible)
    return Executables(candidates=recipe.candidates, compatible=compatible)


def no_runtime(name: str) -> str:
    """Return that there is no runtime of this name, and which is meant, or which there are."""
    near = _guess_runtime(name[:200].lower())
    return f"there is no runtime {name}; " + (
        f"did you mean {near}?" if near else f"there are {', '.join(RUNTIMES)}"
    )


def _guess_runtime(wanted: str) -> str:
    """Return the runtime whose language, executable or suffix is so called, or whose own name is like it, or ""."""
    for runtime, recipe in recipes().items():
        suffixes = (extension.removeprefix(".") for extension in recipe.extensions)
        if wanted in {each.lower() for each in (recipe.title, *recipe.compatible, *suffixes)}:
            return runtime
    near = find_nearest(wanted, [*RUNTIMES, *_ALIASES])
    return _ALIASES.get(near[0], near[0]) if near else ""
