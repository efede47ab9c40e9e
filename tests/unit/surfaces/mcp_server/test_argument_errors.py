"""What a value of the model does not take, in the words of who sent it."""

import json
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, ValidationError

from paddock.model.base import PositiveInt, Value
from paddock.surfaces.mcp_server.argument_errors import reject_arguments, reject_compat_arguments


class Limits(Value):
    memory_bytes: PositiveInt = 1


class Wanted(Value):
    retries: PositiveInt = 1
    ratio: Annotated[float, Field(gt=0.5, lt=2)] = 1
    level: Annotated[int, Field(ge=-1, le=3)] = 0
    mode: Literal["run", "plan"] = "run"
    limits: Limits = Limits()
    timeout_ms: PositiveInt = 1


def problem(**given: Any) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        Wanted.model_validate(given)
    return caught.value


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"retries": 0}, "`retries` must be above 0"),
        ({"ratio": 0.5}, "`ratio` must be above 0.5"),
        ({"ratio": 2}, "`ratio` must be below 2.0"),
        ({"level": -2}, "`level` must be at least -1"),
        ({"level": 4}, "`level` must be at most 3"),
        ({"limits": {"memory_bytes": -5}}, "`limits.memory_bytes` must be above 0"),
        ({"timeout_ms": 0}, "`timeout_ms` must be above 0"),
        ({"mode": "x"}, "`mode` must be 'run' or 'plan'"),
    ],
)
def test_a_bound_is_told_of_the_argument_that_breaks_it(given: dict[str, Any], told: str) -> None:
    answer = reject_arguments("tool", problem(**given))
    assert answer.content == [{"type": "text", "text": f"invalid\ntool: {told}"}]
    assert json.dumps(answer.structured).count(told) == 1
    compat = reject_compat_arguments("tool", problem(**given))
    assert compat.content[0]["text"] == f"invalid\ntool: {told.replace('timeout_ms', 'timeoutMs')}"
