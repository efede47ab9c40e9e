"""Variables and input of a script, from files. Variables are strings; only the input has types."""

import json
import re
import sys
from pathlib import Path
from typing import BinaryIO, Never, cast

from paddock.model.base import Json
from paddock.model.json_meter import holds_more
from paddock.model.late_pattern import compile_late
from paddock.model.limits import MIB
from paddock.model.numbers import dumps, read_finite, read_int, read_toml_float
from paddock.model.request import Profile
from paddock.policy.settings.profiles import ProfileLimits
from paddock.surfaces.cli.failure import CommandFailure

_ASSIGNMENT_PATTERN = compile_late(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_.-]*)\s*=\s*(.*?)\s*$")
_QUOTED_PATTERN = compile_late(r"""(?:"((?:[^"\\]|\\.)*+)"|'([^']*)')\s*(?:#.*)?$""")
MAX_FILE_BYTES = 64 * MIB
"""Maximum number of bytes read before a limit is known: an endless file would fill memory."""
_BYTE_ORDER_MARK = "\ufeff"
"""The byte order mark: some editors begin a file with it, and people do not see it."""
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_variables(path: Path) -> dict[str, str]:
    """Return the variables of a JSON, TOML or .env file, by its suffix. Raises `CommandFailure`."""
    try:
        text = _read_text(str(path), path)
        match path.suffix:
            case ".json":
                return _render_scalars(path, _parse_value(text))
            case ".toml":
                import tomllib

                return _render_scalars(path, tomllib.loads(text, parse_float=read_toml_float))
            case _ if path.suffix == ".env" or path.name.startswith(".env"):
                return dict(
                    _parse_assignment(path, n, line)
                    for n, line in enumerate(text.splitlines(), 1)
                    if line.strip() and not line.lstrip().startswith("#")
                )
            case _:
                raise CommandFailure(f"{path}: variables are read from .json, .toml and .env files")
    except (OSError, ValueError) as problem:
        why = problem.strerror if isinstance(problem, OSError) else problem
        raise CommandFailure(f"{path}: cannot read variables: {why}") from None


def read_input(text: str, limits: ProfileLimits, profile: Profile, option: str = "--input") -> Json:
    """Return the value of an option: JSON, `@FILE`, or `-` for standard input.

    Raises `CommandFailure`, also for more values than one message of a program of the profile may contain.
    """
    what = option
    try:
        if text == "-":
            what = "standard input"
            text = decode_utf8(what, read_to_end(what, sys.stdin.buffer)).removeprefix(_BYTE_ORDER_MARK)
        elif text.startswith("@"):
            what = text[1:]
            text = _read_text(what, Path(what))
        if holds_more(text.encode("utf-8", "surrogateescape"), max_values := limits.frame_values):
            how = f"pass less, or raise `limits.{profile}.frame_values`"
            raise CommandFailure(f"{what}: it has more than {max_values} values; {how}")
        return _parse_value(text)
    except OSError as problem:
        raise CommandFailure(f"{what}: cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise CommandFailure(f"{what}: this is not a JSON value: {problem}", exit_code=2) from None


def read_to_end(what: str, file: BinaryIO) -> bytes:
    """Return the contents of a pipe or a file. Raises `CommandFailure` for an endless one, and OSError."""
    raw = file.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise CommandFailure(f"{what}: cannot be read: larger than {MAX_FILE_BYTES} bytes")
    return raw


def decode_utf8(what: str, raw: bytes) -> str:
    """Return the contents of a file as text. Raises `CommandFailure` if it is not UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError as problem:
        message = f"{what}: this is not UTF-8 text (byte {problem.start + 1}); save it as UTF-8"
        raise CommandFailure(message) from None


def _read_text(what: str, path: Path) -> str:
    with path.open("rb") as file:  # it may be a pipe, for example from `<(...)`
        return decode_utf8(what, read_to_end(what, file)).removeprefix(_BYTE_ORDER_MARK)


def _parse_value(text: str) -> Json:
    """Return the value of a JSON text. Raises ValueError, also for constants that Python parses and JSON lacks."""
    try:
        return json.loads(text, parse_constant=_reject_constant, parse_float=read_finite, parse_int=read_int)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _reject_constant(name: str) -> Never:
    raise ValueError(f"{name} is not a JSON number")


def _render_scalars(path: Path, values: object) -> dict[str, str]:
    """Return named scalars as strings: true becomes `true`, 1.5 becomes `1.5`."""
    if not isinstance(values, dict):
        raise CommandFailure(f"{path}: variables must be an object of names and texts")
    variables: dict[str, str] = {}
    for name, value in cast("dict[str, object]", values).items():
        if isinstance(value, str):
            variables[name] = value
        elif isinstance(value, bool | int | float):
            variables[name] = dumps(value)
        else:
            raise CommandFailure(
                f"{path}: {name} must be a text or a number; pass structured values with --input"
            )
    return variables


def _parse_assignment(path: Path, number: int, line: str) -> tuple[str, str]:
    """Return name and value of a line of an .env file; only double quotes allow escapes."""
    found = _ASSIGNMENT_PATTERN.match(line)
    if found is None:
        raise CommandFailure(f"{path}, line {number}: this is not NAME=VALUE")
    name, value = found[1], found[2]
    if quoted := _QUOTED_PATTERN.match(value):
        if quoted[2] is not None:
            return name, quoted[2]
        return name, re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted[1])
    if value.startswith(('"', "'")):
        raise CommandFailure(f"{path}, line {number}: the value of {name} has no closing quote")
    return name, re.sub(r"(^|\s)#.*$", "", value)
