"""What every value of the model has in common."""

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

Json = Any
"""A JSON value. Deep validation of guest data is the frame decoder's work, not pydantic's."""


class Value(BaseModel):
    """Base of every model value: frozen, closed (unknown fields are errors), hashable by content where possible.

    What validates a value is made at its first use: a command defines all values and uses some. What was wrong with
    one is told without the value itself, which may hold a secret.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True, hide_input_in_errors=True)

    def replace(self, **changes: object) -> Self:
        """Return this value with other fields, which are validated as those of a new one."""
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
    """Return what a JSON value is, in the words of who writes JSON: `a string`, `null`."""
    return next(_KINDS[each] for each in type(value).__mro__ if each in _KINDS)


def count(number: int, noun: str, several: str = "") -> str:
    """Return how many there are of something: `1 file`, `2 files`; `several` is a plural that takes more than an s."""
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def _refuse_boolean(value: object) -> object:
    """Return a value that may be a whole number. Raises for true and false, which pydantic takes for 1 and 0."""
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


WholeNumber = Annotated[int, BeforeValidator(_refuse_boolean)]
PositiveInt = Annotated[WholeNumber, Field(gt=0)]
