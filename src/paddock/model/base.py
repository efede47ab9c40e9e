"""The base of all values."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Json = Any
"""A JSON value. The frame decoder, not pydantic, checks deep data of guests."""
Texts = list[str] | tuple[str, ...]
"""Several texts, in signatures. A `Sequence[str]` would accept a single text, too."""


class Value(BaseModel):
    """Base of every model value: frozen, closed (unknown fields are errors), hashable by content where possible.

    Validators are built at their first use, because a command defines all values and uses some. A validation error does
    not contain the value, which may be a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    def replace(self, **changes: object) -> Self:
        """Return a copy with changed fields, which are validated."""
        return type(self)(**{**vars(self), **changes})


_KINDS: dict[object, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a fraction",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


def kind(value: Json) -> str:
    """Return the type of a JSON value in JSON's terms: `a string`, `null`."""
    return next(_KINDS[each] for each in type(value).__mro__ if each in _KINDS)


def count(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun: `1 file`, `2 files`; `several` is an irregular plural."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def _refuse_boolean(value: object) -> object:
    """Reject true and false as whole numbers: pydantic accepts them as 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


WholeNumber = Annotated[int, BeforeValidator(_refuse_boolean)]
PositiveInt = Annotated[WholeNumber, Field(gt=0)]
