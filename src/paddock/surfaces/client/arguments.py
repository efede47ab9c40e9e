"""Convert arguments from Python code; errors name the argument, its fault and what to pass."""

import json
import math
import os
from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, SupportsIndex, TypeVar, cast

from pydantic import ValidationError

from paddock.model.base import Json, Value
from paddock.model.errors import ConfigurationError, RequestError
from paddock.model.json_check import check_json
from paddock.model.limits import LimitOverrides
from paddock.model.numbers import NumberTooLongError, read_finite, read_int
from paddock.model.texts import explain
from paddock.model.work_files import INPUT_BYTES, InputFile
from paddock.policy.settings.loader import load
from paddock.policy.settings.schema import Settings

V = TypeVar("V", bound=Value)

_JSON_TYPES = "None, booleans, finite numbers, texts, lists, and dicts with texts as keys"
_REPLACEMENTS = {
    "bytearray": "a text, such as its base64",
    "bytes": "a text, such as its base64",
    "date": "a text, such as its isoformat()",
    "datetime": "a text, such as its isoformat()",
    "frozenset": "a list",
    "set": "a list",
    "time": "a text, such as its isoformat()",
}
A_PROGRAM = 'a `Program`, such as Program(language="python", code="print(1)")'
"""What each item of a batch is."""
_NAMES = {"runtime": "language", "source": "code", "work": "", "output": ""}
"""Arguments of the library for fields of a request with another name."""
_MESSAGES = {"tuple_type": "must be a list", "dict_type": "must be a dict"}
"""Error texts by pydantic's error type; other errors have their own text."""
_MAX_KEY_CHARS = 60
"""Maximum length of a key in a path."""
_NESTED_TOO_DEEP = "is nested too deeply, or contains itself"


def make_value(kind: type[V], fields: Mapping[str, object]) -> V:
    """Return a part of a request. Raises RequestError with all its faults, without the given values."""
    try:
        return kind.model_validate(dict(fields))
    except ValidationError as problem:
        raise RequestError(
            "; ".join(explain(problem, names=_NAMES, messages=_MESSAGES, limit=None))
        ) from None


def check_type(value: object, kinds: type | tuple[type, ...], name: str, what: str) -> None:
    """Raise RequestError for a value of another type; `what` says which one is right."""
    if not isinstance(value, kinds):
        raise RequestError(f"{name} must be {what}, but is {_describe_type(value)}")


def read_text(value: object, name: str) -> str:
    """Return a text. Raises RequestError for a value of another type."""
    check_type(value, str, name, "a text")
    return cast("str", value)


def read_sequence(value: object, name: str, what: str) -> Sequence[object]:
    """Return a sequence that is not a text. Raises RequestError for a value of another type."""
    check_type(value, () if isinstance(value, str | bytes) else Sequence, name, what)
    return cast("Sequence[object]", value)


def read_texts(value: object, name: str) -> list[str]:
    """Return a sequence of texts. Raises RequestError for a value of another type."""
    return [read_text(each, f"each of {name}") for each in read_sequence(value, name, "a list of texts")]


def check_programs(programs: object) -> None:
    """Raise RequestError for programs of a batch that are not an iterable, or that are a text or one program.

    Python iterates over the characters of a text, and over the fields of a program.
    """
    is_one = isinstance(programs, str | bytes | Value)
    kinds = () if is_one else (Iterable, AsyncIterable)
    check_type(programs, kinds, "programs", f"an iterable, each item {A_PROGRAM}")


def check_listeners(**listeners: object) -> None:
    """Raise RequestError for a listener that cannot be called."""
    for name, listener in listeners.items():
        check_type(listener, (Callable, type(None)), name, "a function")  # pyright: ignore[reportArgumentType] - an ABC


def read_value(value: object, name: str) -> Json:
    """Return a value as JSON; a finite Decimal becomes a number with its digits.

    `name` is the caller's name for it. Raises RequestError, with the path of a value that is not JSON.
    """
    if value is None or isinstance(value, str | bool):
        return value
    with suppress(TypeError, ValueError, RecursionError):
        check_json(value)
        return value
    try:
        return _convert_exactly(value, name)
    except RecursionError:
        raise RequestError(f"{name} {_NESTED_TOO_DEEP}") from None


def encode_text(text: str, name: str, remedy: str = "replace it by U+FFFD, or give bytes") -> bytes:
    """Return a text as UTF-8. Raises RequestError for half of a surrogate pair, which names the argument `name`."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise RequestError(f"{name} has half of a surrogate pair, which is not Unicode; {remedy}") from None


def read_object(value: object, name: str) -> dict[str, Json]:
    """Return a mapping as a JSON object, an empty one for None. Raises RequestError, also for another type."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise RequestError(f"{name} must be a dict, but is {_describe_type(value)}")
    return cast("dict[str, Json]", read_value(dict(cast("Mapping[str, object]", value)), name))


def _convert_exactly(value: object, path: str) -> Json:
    match value:
        case None | str() | bool():
            return value
        case float() if not math.isfinite(value):
            raise RequestError(f"{path} is {value}; give {_JSON_TYPES}")
        case float():
            return value
        case int() | Decimal():
            return _convert_number(value, path)
        case dict():
            members = cast("dict[object, object]", value)
            return {
                _convert_key(key, path): _convert_exactly(each, f"{path}{_render_member(key)}")
                for key, each in members.items()
            }
        case list() | tuple():
            items = cast("list[object]", value)
            return [_convert_exactly(each, f"{path}[{number}]") for number, each in enumerate(items)]
        case _:
            instead = _REPLACEMENTS.get(type(value).__name__, _JSON_TYPES)
            raise RequestError(
                f"{path} is {_describe_type(value)}, which JSON does not support; give {instead}"
            )


def _convert_number(value: int | Decimal, path: str) -> Json:
    if isinstance(value, Decimal) and not value.is_finite():
        raise RequestError(f"{path} is {value}; give {_JSON_TYPES}")
    try:
        digits = str(value)
        return read_int(digits) if digits.lstrip("-").isdecimal() else read_finite(digits)
    except NumberTooLongError as problem:
        raise RequestError(f"{path} is {problem}") from None
    except ValueError:  # too long for Python, or beyond a double
        raise RequestError(f"{path} is a number that JSON parsers reject; give a text") from None


def _convert_key(key: object, path: str) -> str:
    """Return a key like `json` writes it."""
    match key:
        case str():
            return key
        case None | bool() | int() | float():
            return json.dumps(key)
        case _:
            raise RequestError(f"{path} has {_describe_type(key)} as a key; give {_JSON_TYPES}")


def _render_member(key: object) -> str:
    name = str(key)[:_MAX_KEY_CHARS]
    return f".{name}" if isinstance(key, str) and name.isidentifier() else f"[{json.dumps(name)}]"


def _describe_type(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


InputData = bytes | str | Path
"""Content of a file for a program: bytes, text (UTF-8), or a file to copy from."""


def read_input_files(files: object) -> tuple[InputFile, ...]:
    """Return files for a program: a dict of bytes, text or a Path by path, a sequence of `InputFile`, or None.

    Raises RequestError for content of another kind, and OSError for a Path that cannot be read.
    """
    if files is None:
        return ()
    if (given := _list_input_files(files)) is not None:
        return given
    if not isinstance(files, Mapping):
        raise RequestError(f"files must be a dict of contents by path, but is {_describe_type(files)}")
    return tuple(
        make_value(InputFile, {"path": path, "data": _read_content(path, content)})
        for path, content in cast("Mapping[str, object]", files).items()
    )


def _list_input_files(files: object) -> tuple[InputFile, ...] | None:
    """Return the files of a sequence that has nothing else; None for anything else."""
    if not isinstance(files, list | tuple):
        return None
    given = [file for file in cast("Sequence[object]", files) if isinstance(file, InputFile)]
    return tuple(given) if len(given) == len(cast("Sequence[object]", files)) else None


def _read_content(path: str, content: object) -> bytes:
    match content:
        case bytes():
            return content
        case str():
            return encode_text(content, f"files[{path!r}]")
        case Path():
            with content.open("rb") as stream:
                return stream.read(INPUT_BYTES + 1)
        case _:
            raise RequestError(f"files[{path!r}] is {_describe_type(content)}; give bytes, text or a Path")


def read_whole_number(name: str, value: object, minimum: int = 1) -> int | None:
    """Return a whole number, also from `2.0`; None for None.

    Raises RequestError for every other value, and for one below `minimum`.
    """
    if value is None:
        return None
    number = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise RequestError(f"`{name}` must be a whole number, not {value!r:.60}")
    if (whole := number.__index__()) < minimum:
        raise RequestError(f"`{name}` must be at least {minimum}, not {value!r:.60}")
    return whole


def read_limits(**limits: int | None) -> LimitOverrides:
    """Return the limits that a request asks for, by their names there. Raises RequestError as `read_whole_number`."""
    return LimitOverrides(**{name: read_whole_number(name, value) for name, value in limits.items()})


def find_workspace(given: object) -> Path:
    """Return the real path of a workspace. Raises ConfigurationError for one that is not a directory.

    A missing workspace has no settings that could narrow anything.
    """
    check_type(given, (str, Path), "workspace", "a path")
    try:
        workspace = Path(os.path.realpath(Path(str(given)).expanduser()))
        is_there = os.path.isdir(workspace)  # `Path` raises for an unreadable path
    except (ValueError, RuntimeError):  # a character that no path has; a user without a home
        raise ConfigurationError("the workspace is not a path") from None
    if not is_there:
        raise ConfigurationError(f"the workspace {workspace} is not a directory that can be read")
    return workspace


def choose_settings(settings: object, overrides: Mapping[str, Any] | None, workspace: Path) -> Settings:
    """Return the given settings, or those of files and environment. Raises ConfigurationError."""
    check_type(settings, (Settings, type(None)), "settings", "a Settings")
    check_type(overrides, (Mapping, type(None)), "overrides", "a dict")
    return settings if isinstance(settings, Settings) else load(workspace, flags=overrides).settings
