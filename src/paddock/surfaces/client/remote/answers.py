"""The JSON of a server as values of the library: bounded, and checked."""

from typing import TypeVar, cast

from pydantic import ValidationError

from paddock.foundation import large_json
from paddock.model.base import Json, Value
from paddock.model.errors import PaddockError
from paddock.model.json_meter import MAX_VALUES
from paddock.model.limits import MIB
from paddock.model.nesting import MAX_DEPTH
from paddock.model.printable import make_printable
from paddock.model.texts import MAX_LISTED_FAULTS, explain

MAX_JSON_BYTES = 64 * MIB
"""Maximum size of an outcome or another JSON answer, in bytes."""
MAX_FILE_BYTES = 256 * MIB
"""Maximum size of a file or of stored output, in bytes."""
_MAX_LEVELS = MAX_DEPTH + 8
"""Maximum depth of an answer: that of a value, and of the outcome around it."""
_MAX_NAME_CHARS = 100

V = TypeVar("V", bound=Value)


async def read_json(data: bytes) -> Json:
    """Return the value of a JSON text with the digits of all numbers. Raises PaddockError."""
    try:
        return (await large_json.read_json(data, MAX_VALUES, _MAX_LEVELS))[0]
    except large_json.JsonLimitError as fault:
        raise PaddockError(f"The server's JSON {fault}.") from None
    except (ValueError, RecursionError):
        raise PaddockError("The server's answer is not JSON.") from None


def make_answer(kind: type[V], value: Json) -> V:
    """Return a value of the model `kind`. Fields of a later version of the server are left out. Raises PaddockError."""
    try:
        return kind.model_validate(value)
    except ValidationError as problem:
        known = _drop_unknown(value, problem)
        fault = problem
    if known is not None:
        try:
            return kind.model_validate(known)
        except ValidationError as problem:
            fault = problem
    text = make_printable("; ".join(explain(fault, limit=3)), 500)
    raise PaddockError(f"The server's answer is not a valid {kind.__name__}: {text}.")


def make_answers(kind: type[V], value: Json, member: str) -> tuple[V, ...]:
    """Return the values of a list that is a member of an object. Raises PaddockError."""
    items = cast("dict[str, Json]", value).get(member) if isinstance(value, dict) else None
    if not isinstance(items, list):
        raise PaddockError(f"The server's answer has no list `{member}`.")
    return tuple(make_answer(kind, item) for item in cast("list[Json]", items))


def read_names(value: Json, member: str) -> tuple[str, ...]:
    """Return the printable names in a list that is a member of an object; none if an earlier version has no such list.

    Raises PaddockError.
    """
    items: Json = cast("dict[str, Json]", value).get(member) if isinstance(value, dict) else None
    if items is None:
        return ()
    if not isinstance(items, list):
        raise PaddockError(f"The server's answer has no list `{member}`.")
    return tuple(make_printable(str(item), _MAX_NAME_CHARS) for item in cast("list[Json]", items))


def _drop_unknown(value: Json, problem: ValidationError) -> Json:
    """Return a value without the fields that its model does not have; None if something else is wrong with it."""
    if problem.error_count() > MAX_LISTED_FAULTS:
        return None
    for error in problem.errors(include_url=False, include_input=False):
        *path, name = error["loc"] or ("",)
        if error["type"] != "extra_forbidden":
            return None
        holder = value
        for part in path:
            try:
                holder = holder[part]
            except (LookupError, TypeError):  # a path through a union has parts that are no members
                return None
        if not isinstance(holder, dict) or name not in holder:
            return None
        del holder[name]
    return value
