"""Turn a program or arguments into the one or two commands that run it.

    code mode   write the program to a file, compile it if the recipe says so, run it with the arguments
    args mode   run the toolchain itself with the arguments

Commands have placeholders in braces. `ProgramStep.fill_in` replaces them, but never in the caller's arguments.
"""

import glob
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath

from paddock.engines.programs.styles import prepare_program
from paddock.engines.programs.toolchain import Toolchain, fill_placeholders
from paddock.model.limits import MIB
from paddock.policy.settings.recipes import PLACEHOLDER_PATTERN

_HEAP_SHARE = 3, 4
"""Share of a program's memory for a heap; stacks, code and the runtime itself need the rest."""
_MIN_HEAP_MIB = 16
_PLAIN_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class StepPaths:
    """Paths of a program inside the sandbox."""

    source: str
    """The program's file; relative if it is compiled, because compilers write its path into their output."""
    output: str
    """File or directory that the compiler makes."""
    scratch: str
    """Directory that the program may write to."""
    memory_bytes: int

    def placeholders(self) -> dict[str, str]:
        """Return the values of placeholders for this program."""
        share, of = _HEAP_SHARE
        heap = max(_MIN_HEAP_MIB, self.memory_bytes * share // of // MIB)
        return {
            "source": self.source,
            "output": self.output,
            "scratch": self.scratch,
            "heap_mib": str(heap),
            "heap_hex": f"{heap * MIB:x}",
        }


@dataclass(frozen=True, slots=True)
class ProgramStep:
    """One command."""

    words: tuple[str, ...]
    """The recipe's words, with placeholders in braces."""
    variables: Mapping[str, str]
    known: Mapping[str, str]
    """Values of placeholders that are the same for every program."""
    arguments: tuple[str, ...] = ()
    """The caller's arguments, which follow unchanged."""

    def fill_in(self, paths: StepPaths) -> tuple[list[str], dict[str, str]]:
        """Return the argument vector and the environment variables for a program."""
        placeholders = {**self.known, **paths.placeholders()}
        command = [*(fill_placeholders(word, placeholders) for word in self.words), *self.arguments]
        return command, {
            name: fill_placeholders(value, placeholders) for name, value in self.variables.items()
        }


@dataclass(frozen=True, slots=True)
class StepRunner:
    """The steps of a program: write the files, compile, run."""

    run: ProgramStep
    file_name: str = ""
    """Name of the program's file; empty in args mode."""
    source: str = ""
    """The content of that file: the program, possibly with a prefix on its first line."""
    compile: ProgramStep | None = None
    output_name: str = "program"
    """Required name of the compiled file or directory."""
    files: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further files in scratch."""

    @property
    def program(self) -> dict[str, str]:
        """Name and content of the program's file; empty in args mode, and for a program that runs in place."""
        return {self.file_name: self.source} if self.file_name else {}

    @property
    def written(self) -> dict[str, str]:
        """Names and contents of all files that are written to scratch."""
        return {**self.program, **self.files}


class NoProgramError(ValueError):
    """The runtime has no args mode: it needs a program."""


def steps(
    toolchain: Toolchain,
    code: str | None,
    arguments: Sequence[str] = (),
    *,
    file: str = "",
    live: bool = False,
) -> StepRunner:
    """Return the steps of a program (`code`); if it is None, those of the toolchain with only the arguments.

    `file` is the file of the program, whose name messages then have. Output of a `live` program is not buffered.
    Raises NoProgramError if the recipe needs a program.
    """
    recipe, variant = toolchain.recipe, toolchain.variant
    unbuffered: Mapping[str, str] = variant.live_environment if live else {}
    if code is None:
        if not variant.arguments:
            raise NoProgramError(
                f"{recipe.title} needs the code parameter: it has no mode with arguments alone"
            )
        itself = bool(arguments) and arguments[0] in variant.subcommands
        alone = _make_step(toolchain, variant.arguments[:-1] if itself else variant.arguments, {}, arguments)
        alone = replace(alone, variables={**alone.variables, **variant.arguments_environment, **unbuffered})
        named = " ".join(alone.variables.values())
        return StepRunner(
            run=alone, files={name: text for name, text in variant.files.items() if f"/{name}" in named}
        )
    stem = PurePath(file).stem
    if not _PLAIN_NAME_PATTERN.fullmatch(stem) or any(PurePath(name).stem == stem for name in variant.files):
        stem = recipe.stem  # without a file, and if a tool gives its stem a meaning
    program = prepare_program(recipe.style, code, recipe.extensions[0], stem)
    placeholders = {"main": program.main}
    run = _make_step(toolchain, variant.run, placeholders, arguments)
    return StepRunner(
        file_name=program.file_name,
        source=program.source,
        files=variant.files,
        output_name=variant.output,
        compile=_make_step(toolchain, variant.compile, placeholders) if variant.compile else None,
        run=replace(run, variables={**run.variables, **unbuffered}),
    )


def compile_first(planned: StepRunner, toolchain: Toolchain, words: Sequence[str]) -> StepRunner:
    """Return the steps of a program with a step that compiles it, which its recipe does not have."""
    return replace(planned, compile=_make_step(toolchain, words, {}))


def hello(toolchain: Toolchain) -> str:
    """Return the program that shows that a toolchain works."""
    return toolchain.variant.hello or toolchain.recipe.hello


def _make_step(
    toolchain: Toolchain, words: Sequence[str], placeholders: Mapping[str, str], arguments: Sequence[str] = ()
) -> ProgramStep:
    known = {
        **toolchain.placeholders,
        **placeholders,
        **({} if "warm" in toolchain.placeholders else {"cold": ""}),
    }
    kept = _select_words(tuple(words), "cold" if "cold" in known else "warm")
    spread: list[str] = []
    for word in kept:
        if "*" not in word:
            spread.append(word)
            continue
        # `-r:/x/*.dll` becomes one word for each file.
        option, colon, pattern = fill_placeholders(word, known).rpartition(":")
        spread += [f"{option}{colon}{match}" for match in sorted(glob.glob(pattern))]
    return ProgramStep(
        words=tuple(spread), variables=toolchain.environment, known=known, arguments=tuple(arguments)
    )


@lru_cache
def _select_words(words: tuple[str, ...], state: str) -> tuple[str, ...]:
    """Return the words without those for a toolchain in the other state, `warm` or `cold`."""
    return tuple(
        word for word in words if {"warm", "cold"}.intersection(PLACEHOLDER_PATTERN.findall(word)) <= {state}
    )
