"""What Paddock knows about a language: one entry of `engines/programs/recipes.toml`, or of `[runtimes.recipes]`.

A recipe has *variants*: an executable on PATH and the command lines that go with it, the best first. Words of a variant
may name placeholders in braces: those of `OF_JOBS` and `OF_TOOLCHAINS` below, tools, and required files.

Only the user's and the system's files may add languages. Nothing imports this module before one does, or before a
program in a language runs: its models take some milliseconds to make.
"""

import json
import re
import signal
import warnings
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from paddock.model.base import Json, Value
from paddock.model.languages import ALIASES
from paddock.model.program import RUNTIMES

_NAME_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"
"""A word in commands, a part of paths below the cache, and a glob's match in rules."""
PLACEHOLDER_PATTERN = re.compile(r"\{([a-z_.]+)\}")
"""How a word names a placeholder."""

OF_JOBS = frozenset({"source", "output", "scratch", "heap_mib", "heap_hex", "main"})
"""Placeholders that only the job has: source file, compiled program, scratch, maximum heap (MiB, or bytes in
hexadecimal), the entry point."""
OF_TOOLCHAINS = frozenset({"executable", "bin", "prefix", "home", "warm", "cold"})
"""Placeholders of every toolchain, either `warm` or `cold`; its tools and the files that it requires come to them."""


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
Files = Mapping[Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")], str]
"""Texts by the names of their files, which lead to no other directory."""
ExecutableName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*$")]
Names = Annotated[tuple[ExecutableName, ...], Field(min_length=1)]
Extension = Annotated[str, Field(pattern=r"^\.[A-Za-z0-9]+$")]


class Version(Value):
    """How an executable tells its version."""

    argv: Annotated[Words, Field(min_length=1)]
    pattern: Annotated[str, AfterValidator(_check_pattern)]
    """Regular expression whose first group that matched is the version."""
    stream: Literal["stdout", "stderr"] = "stdout"


class ToolchainShim(Value):
    """How to ask a version manager's stand-in (pyenv, rustup, nodenv...) for the program behind it.

    It has nothing to do with the shim of a sandbox (`paddock.confinement.sandbox.child.shim`).
    """

    argv: Annotated[Words, Field(min_length=1)]
    path: str = "{printed}"
    """The program, where `{printed}` is what the command printed."""


class WarmCache(Value):
    """What can be made once, so that every later start is faster: a directory, which jobs read as `{warm}`."""

    program: str = Field(min_length=1)
    """A program like those to come; it is `{source}`."""
    commands: Annotated[tuple[Annotated[Words, Field(min_length=1)], ...], Field(min_length=1)]
    """What makes it, one after another."""
    files: Files = Field(default_factory=dict)
    """Further files beside the program: names and texts."""


class OutOfMemory(Value):
    """How a runtime ends that gets no more memory. Neither its exit nor its words alone are evidence."""

    exit_code: int | None = None
    signal: Annotated[str, AfterValidator(_check_signal)] | None = None
    said: Annotated[str, AfterValidator(_check_regular)]
    """Regular expression for the last lines of standard error, from the beginning of a line to the end."""


class RecipeVariant(Value):
    """One executable that runs a language, and what goes with it."""

    executables: Names
    """Names of the executable, searched on PATH in this order."""
    tools: Mapping[str, Names] = Field(default_factory=dict)
    """Other programs that the variant needs: the name of a placeholder, and the names to search on PATH."""
    requires: Mapping[str, Annotated[Words, Field(min_length=1)]] = Field(default_factory=dict)
    """Files that the variant needs: the name of a placeholder, and globs. The match with the highest version counts."""
    prefixes: Words = ()
    """Globs of what a program must read. System directories, which every program can read, need not be named."""
    environment: Mapping[str, str] = Field(default_factory=dict)
    """Environment variables of the program."""
    live_environment: Mapping[str, str] = Field(default_factory=dict)
    """Further environment variables of a program whose output is streamed. Its language must not buffer the output."""
    files: Files = Field(default_factory=dict)
    """Further files in scratch, by name. With arguments alone, only those that the environment names."""
    shows: bool = False
    """Whether it runs Python, whose programs can show values: figures, images, pages."""
    compile: Words = ()
    """Command that makes `{output}`, a file or a directory, from `{source}`. A word with a `*` stands for every file
    that it matches."""
    output: str = Field(default="program", pattern=r"^[a-z]+(\.[a-z]+)?$")
    """Name of what `compile` makes."""
    run: Annotated[Words, Field(min_length=1)]
    """Command that runs the program. The caller's arguments follow."""
    arguments: Words = ()
    """Command that takes the caller's arguments without a program. Without it, a program is required."""
    arguments_environment: Mapping[str, str] = Field(default_factory=dict)
    """Further environment variables of that command."""
    subcommands: Words = ()
    """First arguments that replace the last word of `arguments`: `go test`, not `go run test`."""
    hello: str = ""
    """Program that prints `hello from paddock`, where the one of the language needs more than this variant has."""
    out_of_memory: tuple[OutOfMemory, ...] = ()
    """Signs that the executable ended because it got no more memory: `exit_code` or `signal`, together with `said`, a
    regular expression for its last lines of standard error."""
    version: Version
    """Command that prints the version, `argv`, and a regular expression whose first group is the version, `pattern`."""
    warm: WarmCache | None = None
    """What `paddock runtimes warm` prepares: a `program`, the `commands`, and further `files`."""
    shim: ToolchainShim | None = None
    """Command that asks a version manager's shim for the program behind it, `argv`."""
    note: str = ""
    """What this variant cannot do."""

    @property
    def compiles_by_itself(self) -> bool:
        """Whether the toolchain uses the warm start whenever it runs, also with arguments alone."""
        return any("{warm}" in value for value in self.environment.values())


class Install(Value):
    """Packages that make a variant work, by package manager; all of them are needed."""

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
    """One language: an entry of `recipes.toml`, or of the settings."""

    name: str = Field(pattern=_NAME_PATTERN)
    """Name in commands and rules."""
    title: str = Field(min_length=1)
    """Name for people."""
    extensions: Annotated[tuple[Extension, ...], Field(min_length=1)]
    """Suffixes of programs. A program without a file gets the first one."""
    stem: str = Field(default="code", pattern=r"^[a-z]+$")
    """Name of the file of a program without one, before the suffix. No module of the language's library has it: the
    language may look for modules beside the program."""
    compatible: tuple[ExecutableName, ...] = ()
    """Executables that a request may name, by default those of the variants. Letter case is ignored."""
    style: Style = "plain"
    """Change to a program before it runs, for languages whose main function is often left out."""
    inherits: Words = ()
    """Environment variables of Paddock that the toolchain depends on."""
    hello: str = Field(min_length=1)
    """Program that prints `hello from paddock`."""
    output_flushed: str = Field(default="", validation_alias=AliasChoices("output_flushed", "output"))
    """When the output of a program leaves it if standard output is a pipe; for the documentation. `output` is its
    deprecated name."""
    output_buffered: str = ""
    """How a program buffers its output, which is faster; for the documentation."""
    install: tuple[Install, ...] = ()
    """Packages by package manager (`apt`, `npm`, `pypi`, `brew`), in order of preference."""
    elsewhere: str = ""
    """Where to get it if no package manager has it."""
    variants: Annotated[tuple[RecipeVariant, ...], Field(alias="variant", min_length=1)]
    """Executables that run it, each with its commands, in order of preference."""

    @property
    def compiles(self) -> bool:
        """Whether its best variant compiles."""
        return bool(self.variants[0].compile)

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every executable that is looked for, the best first."""
        return tuple(name for variant in self.variants for name in variant.executables)

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        for variant in self.variants:
            parts = ("", ".bin", ".prefix", ".home")
            own = OF_TOOLCHAINS | {
                *variant.requires,
                *(tool + part for tool in variant.tools for part in parts),
            }
            for words, placeholders in (
                (
                    (
                        *variant.compile,
                        *variant.run,
                        *variant.arguments,
                        *variant.environment.values(),
                        *variant.arguments_environment.values(),
                    ),
                    own | OF_JOBS,
                ),
                (tuple(chain(*variant.warm.commands)) if variant.warm else (), own | OF_JOBS),
                ((*variant.prefixes, *chain(*variant.requires.values()), *variant.version.argv), own),
            ):
                unknown = {
                    name for word in words for name in PLACEHOLDER_PATTERN.findall(word)
                } - placeholders
                if unknown:
                    raise ValueError(
                        f"{variant.executables[0]}: no placeholder is called {', '.join(sorted(unknown))}"
                    )
            if bool(variant.compile) != any("{output}" in word for word in variant.run):
                raise ValueError(f"{variant.executables[0]}: what is compiled must be run, and nothing else")
        return self


_TAKEN_NAMES = frozenset({*RUNTIMES, *ALIASES, "auto"})
"""Names that mean something already: the built-in languages, and what script tools call the choice by suffix."""


def read_recipe(name: str, entry: Json) -> Recipe:
    """Return the language that `[runtimes.recipes.NAME]` adds. Raises ValueError, or pydantic's ValidationError."""
    if name in _TAKEN_NAMES:
        raise ValueError(f"the name {name} is built in, and would mean two things; choose another name")
    if not re.fullmatch(_NAME_PATTERN, name):
        raise ValueError("a name begins with a letter and has up to 32 of a-z, 0-9, _ and -")
    if not isinstance(entry, dict):
        raise ValueError("it must be a table, with the keys of engines/programs/recipes.toml")  # noqa: TRY004 - as for the others
    if "name" in entry:
        raise ValueError("remove `name`: it is the last word of the table's own name")
    fields = cast("dict[str, Json]", entry)
    if "way" in fields:
        fields = _replace_old_variant(name, fields)
    # JSON mode is the strict mode that still takes a list for a tuple.
    return Recipe.model_validate_json(json.dumps({**fields, "name": name}, default=str), strict=True)


def _replace_old_variant(name: str, entry: dict[str, Json]) -> dict[str, Json]:
    """Return an entry with the key `variant` instead of its deprecated name. Raises ValueError if it has both."""
    if "variant" in entry:
        raise ValueError("`way` is the deprecated name of `variant`, which is also set; remove `way`")
    key = f"runtimes.recipes.{name}"
    warnings.warn(f"`{key}.way` is deprecated; write `{key}.variant`", FutureWarning, stacklevel=2)
    return {"variant" if each == "way" else each: value for each, value in entry.items()}


def list_fields(path: Sequence[str]) -> list[str]:
    """Return the keys that a table of a recipe may have; `path` leads from the recipe to the table."""
    nested: dict[str, type[Value]] = {
        "variant": RecipeVariant,
        "version": Version,
        "shim": ToolchainShim,
        "warm": WarmCache,
        "install": Install,
        "out_of_memory": OutOfMemory,
    }
    fields = (nested[path[-1]] if path else Recipe).model_fields
    return [field.alias or name for name, field in fields.items() if name != "name"]
