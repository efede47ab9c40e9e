"""The format of a sequence file: `.paddock/sequences/NAME.toml`, of the workspace or of the home directory."""

import os
import re
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationError, field_validator, model_validator

from paddock.foundation.files import read_bounded
from paddock.gate.sequences.references import condition, references
from paddock.model.base import Json, PositiveInt, Value
from paddock.model.errors import SdkError
from paddock.model.fields import list_fields
from paddock.model.json_check import check_json
from paddock.model.network import NetworkRequest
from paddock.model.numbers import read_toml_float
from paddock.model.program import Access
from paddock.model.texts import explain, find_nearest
from paddock.model.work_files import GivenFiles

MAX_STEPS = 100
"""Maximum number of steps of a sequence."""
FILE_BYTES = 256 * 1024

Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")]
Model = TypeVar("Model", bound=Value)
Kind = Literal["script", "runtime", "tool", "server", "accept"]

_NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_FIELDS_BY_KIND: dict[Kind, frozenset[str]] = {
    "script": frozenset({"script", "vars", "input"}),
    "runtime": frozenset({"runtime", "code", "hosts", *list_fields("sequence")}),
    "tool": frozenset({"tool", "inputs"}),
    "server": frozenset({"server", "arguments"}),
    "accept": frozenset({"accept", "paths", "merge"}),
}
_COMMON_FIELDS = frozenset({"name", "when", "on_failure", "timeout_ms"})


class FailureSequence(Value):
    """`on_failure = {run = "NAME"}`."""

    run: Name


class Step(NetworkRequest):
    """One step: a script, a program, a script tool, a call of a server's tool, or the acceptance of changes."""

    name: Name
    when: str | tuple[str, ...] = ()
    """Conditions that must all hold; otherwise the step is skipped."""
    on_failure: Literal["stop", "continue"] | FailureSequence = "stop"
    """What follows if the step fails: the sequence stops, the next step runs, or one step that exists only for this."""
    timeout_ms: PositiveInt | None = None

    script: str | None = None
    """Name of a saved script."""
    vars: dict[str, str] = Field(default_factory=dict)
    input: Json = None

    runtime: str | None = None
    """Language of a program."""
    code: str | None = None
    """The source, used unchanged: a value that was filled into code could become code."""
    args: tuple[str, ...] = ()
    stdin: str | None = None
    cwd: str = "."
    executable: str | None = None
    access: Access | None = None
    """Access to the workspace; by default reading, if that is granted."""
    files: GivenFiles = Field(default_factory=list)
    """Files for a separate working directory."""
    outputs: tuple[str, ...] | None = None
    """Patterns of files to store, by default images."""
    env: dict[str, str] = Field(default_factory=dict)
    packages: tuple[str, ...] = ()
    """Packages to run it with, used unchanged: a value that was filled in could become code."""
    combined: bool | None = None
    keep: bool | None = None
    compile_timeout_ms: PositiveInt | None = None
    cpu_ms: PositiveInt | None = None
    memory_bytes: PositiveInt | None = None
    output_bytes: PositiveInt | None = None

    tool: str | None = None
    """Id of a script tool."""
    inputs: dict[str, Json] = Field(default_factory=dict)

    server: str | None = None
    """`server/tool`."""
    arguments: dict[str, Json] = Field(default_factory=dict)

    accept: str | None = None
    """Name of an earlier step with the access `overlay`, whose changes are accepted."""
    paths: tuple[str, ...] = ()
    """Paths to accept; by default all that need no naming."""
    merge: bool = False

    @field_validator("input", "inputs", "arguments")
    @classmethod
    def _is_json(cls, value: Json) -> Json:
        try:
            check_json(value)
        except (TypeError, ValueError) as problem:  # TOML has dates and non-finite numbers
            raise ValueError(f"this is not a JSON value: {problem}; write it as a text") from None
        return value

    @property
    def kind(self) -> Kind:
        """The kind of work that the step runs."""
        return next(kind for kind in _FIELDS_BY_KIND if getattr(self, kind) is not None)

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions as a tuple."""
        return (self.when,) if isinstance(self.when, str) else self.when

    @property
    def filled(self) -> tuple[Json, ...]:
        """The values in which references are filled in."""
        files = [(file.text, file.artifact) for file in self.files]
        return (self.vars, self.input, self.args, self.stdin, files, self.env, self.inputs, self.arguments)

    @model_validator(mode="after")
    def _is_one_thing(self) -> Self:
        kinds: list[Kind] = [kind for kind in _FIELDS_BY_KIND if getattr(self, kind) is not None]
        if len(kinds) != 1:
            named = " and ".join(f"`{kind}`" for kind in kinds) or "none"
            raise ValueError(
                f"a step has one of `script`, `runtime`, `tool`, `server` and `accept`; step {self.name} has {named}"
            )
        if foreign := self.model_fields_set - _FIELDS_BY_KIND[kinds[0]] - _COMMON_FIELDS:
            raise ValueError(f"step {self.name}: `{min(foreign)}` cannot be combined with `{kinds[0]}`")
        if self.server is not None and not all(self.server.rpartition("/")):
            raise ValueError(f'step {self.name}: server = "SERVER/TOOL", not {self.server!r}')
        return self


class Sequence(Value):
    """A named list of steps."""

    description: str = ""
    vars: dict[Name, str] = Field(default_factory=dict)
    """Variables and their defaults."""
    required: tuple[Name, ...] = ()
    """Required variables."""
    step: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS)]

    @property
    def rescues(self) -> frozenset[str]:
        """The steps that run only when another one fails."""
        return frozenset(
            step.on_failure.run for step in self.step if isinstance(step.on_failure, FailureSequence)
        )

    @model_validator(mode="after")
    def _refers_to_what_is_there(self) -> Self:
        names = [step.name for step in self.step]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ValueError(f"two steps are called {min(twice)}")
        variables = {*self.vars, *self.required}
        if "steps" in variables:
            raise ValueError("a variable cannot be called `steps`: that name refers to the results of steps")
        rescues = self.rescues
        if unknown := rescues - {*names}:
            raise ValueError(f"on_failure runs {min(unknown)}, but there is no such step")
        done: set[str] = set()
        ordinary = {*names} - rescues
        for step in self.step:
            if step.name in rescues and isinstance(step.on_failure, FailureSequence):
                raise ValueError(
                    f"step {step.name} runs when another step fails; it cannot have on_failure itself"
                )
            known = ordinary if step.name in rescues else done
            if step.accept is not None and step.accept not in known:
                raise ValueError(
                    f"step {step.name} accepts the changes of {step.accept}, which is no earlier step"
                )
            conditions = (condition(text).path for text in step.conditions)
            for path in chain(conditions, chain.from_iterable(map(references, step.filled))):
                _check_reference(step.name, path, variables, known)
            if step.name not in rescues:
                done.add(step.name)
        if not ordinary:
            raise ValueError("every step runs only when another one fails")
        return self


def folders(workspace: Path, what: str) -> list[Path]:
    """Return the directories of files of `sequences` or `temporals`; the first match wins."""
    return list(dict.fromkeys(home / ".paddock" / what for home in (workspace, Path.home())))


def list_files(workspace: Path, what: str) -> Iterator[tuple[str, Path]]:
    """Yield the files with valid names, each name once, in search order."""
    seen: set[str] = set()
    for folder in folders(workspace, what):
        try:
            # An unreadable entry, such as a link to a name that is too long, must not hide others: `Path.is_file` would
            # raise.
            files = sorted(path for path in folder.glob("*.toml") if os.path.isfile(path))
        except OSError:
            continue
        for path in files:
            if path.stem not in seen and _NAME_PATTERN.fullmatch(path.stem):
                seen.add(path.stem)
                yield path.stem, path


def find(name: str, workspace: Path, what: str) -> Path:
    """Return the file of a name. Raises SdkError, which lists where Paddock searched."""
    known = dict(list_files(workspace, what))
    if name in known:
        return known[name]
    searched = "\n    ".join(str(folder / "*.toml") for folder in folders(workspace, what))
    nearest = find_nearest(name, known)
    hint = f"\n  did you mean: {nearest[0]}?" if nearest else ""
    raise SdkError(f"there is no {what[:-1]} called {name}\n  searched:\n    {searched}{hint}")


def read(path: Path, model: type[Model]) -> Model:
    """Return the contents of a file. Raises SdkError, whose text names file, key and remedy."""
    try:
        return model.model_validate(
            tomllib.loads(read_bounded(path, FILE_BYTES).decode(), parse_float=read_toml_float)
        )
    except OSError as problem:
        raise SdkError(f"{path}: cannot be read: {problem.strerror}") from None
    except ValidationError as problem:
        [line] = explain(problem, messages={"extra_forbidden": "there is no such key"}, model=model)
        raise SdkError(f"{path}: {line}") from None
    except (ValueError, RecursionError) as problem:
        raise SdkError(f"{path}: this is not TOML: {problem}") from None


def _check_reference(step: str, path: str, variables: set[str], known: set[str]) -> None:
    root, _, rest = path.partition(".")
    if root == "steps":
        before = rest.partition(".")[0]
        if before not in known:
            raise ValueError(f"step {step}: ${{{path}}} is not the result of an earlier step")
    elif root not in variables:
        names = f"has {', '.join(sorted(variables))}" if variables else "has none"
        raise ValueError(
            f"step {step} uses ${{{root}}}, but the sequence has no variable with that name (it {names}); "
            "name it in `required`, or under [vars] with a default"
        )
