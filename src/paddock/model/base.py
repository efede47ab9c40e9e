"""What every value of the model has in common."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Json = Any
"""A JSON value. Deep validation of guest data is the frame decoder's work, not pydantic's."""


class Value(BaseModel):
    """Base of every model value: frozen, closed (unknown fields are errors), hashable by content where possible."""

    model_config = ConfigDict(frozen=True, extra="forbid")


PositiveInt = Annotated[int, Field(gt=0)]
