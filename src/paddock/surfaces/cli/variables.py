"""Variables and input of a script, from files. Variables are texts; only the input has types."""

import json
import re
import sys
from pathlib import Path
from typing import cast

from paddock.model.base import Json
from paddock.surfaces.cli.failure import Failure

_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*$")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*+)"|'([^']*)')\s*(?:#.*)?$""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_variables(path: Path) -> dict[str, str]:
    """Return the variables of a JSON, TOML or .env file, told apart by its suffix. Raises `Failure`."""
    try:
        text = path.read_text(encoding="utf-8")
        match path.suffix:
            case ".json":
                return _texts(path, json.loads(text))
            case ".toml":
                import tomllib  # noqa: PLC0415 - only such a file pays for it

                return _texts(path, tomllib.loads(text))
            case _ if path.suffix == ".env" or path.name.startswith(".env"):
                return dict(
                    _assignment(path, n, line) for n, line in enumerate(text.splitlines(), 1) if _says(line)
                )
            case _:
                raise Failure(f"{path}: variables are read from .json, .toml and .env files")
    except (OSError, ValueError) as problem:
        raise Failure(f"{path}: cannot read variables: {problem}") from None


def read_input(text: str) -> Json:
    """Return the value of `--input`: JSON, `@FILE`, or `-` for standard input. Raises `Failure`."""
    what = "--input"
    try:
        if text == "-":
            what = "standard input"
            text = sys.stdin.read()
        elif text.startswith("@"):
            what = text[1:]
            text = Path(what).read_text(encoding="utf-8")
        return json.loads(text)
    except OSError as problem:
        raise Failure(f"{what}: cannot be read: {problem.strerror}") from None
    except (ValueError, RecursionError) as problem:
        raise Failure(f"{what}: this is not a JSON value: {problem}") from None


def _texts(path: Path, values: object) -> dict[str, str]:
    """Return named scalars as texts: true is `true`, 1.5 is `1.5`."""
    if not isinstance(values, dict):
        raise Failure(f"{path}: variables are an object of names and texts")
    variables: dict[str, str] = {}
    for name, value in cast("dict[str, object]", values).items():
        if isinstance(value, str):
            variables[name] = value
        elif isinstance(value, bool | int | float):
            variables[name] = json.dumps(value)
        else:
            raise Failure(f"{path}: {name} must be a text or a number; pass structured values with --input")
    return variables


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _assignment(path: Path, number: int, line: str) -> tuple[str, str]:
    """Return name and value of a line of an .env file; only double quotes know escapes."""
    found = _ASSIGNMENT.match(line)
    if found is None:
        raise Failure(f"{path}, line {number}: this is not NAME=VALUE")
    name, value = found[1], found[2]
    if quoted := _QUOTED.match(value):
        if quoted[2] is not None:
            return name, quoted[2]
        return name, re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[1])
    if value.startswith(('"', "'")):
        raise Failure(f"{path}, line {number}: the value of {name} has no closing quote")
    return name, re.sub(r"(^|\s)#.*$", "", value)
