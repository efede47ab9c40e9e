"""What every value has in common."""

import pytest
from pydantic import ValidationError

from paddock.model.base import Value, count


class Point(Value):
    x: int
    y: int = 0


def test_a_value_with_other_fields_is_another_value() -> None:
    point = Point(x=1, y=2)
    assert (point.replace(x=3), point) == (Point(x=3, y=2), Point(x=1, y=2))


@pytest.mark.parametrize("changes", [{"x": "a"}, {"z": 1}])
def test_other_fields_are_validated(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        Point(x=1).replace(**changes)


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 matches, 0 files"), (1, "1 match, 1 file"), (2, "2 matches, 2 files")]
)
def test_a_count_has_its_noun_in_the_right_number(number: int, told: str) -> None:
    assert f"{count(number, 'match', 'matches')}, {count(number, 'file')}" == told
