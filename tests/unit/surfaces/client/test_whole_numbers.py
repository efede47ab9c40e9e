"""Whole numbers of Python programs: what is read, and what is refused by its name."""

from decimal import Decimal

import pytest

from paddock.surfaces.client.arguments import read_whole_number


@pytest.mark.parametrize(
    ("value", "read"),
    [(None, None), (1, 1), (2.0, 2), (2**70, 2**70), (1e300, int(1e300))],
)
def test_whole_numbers_are_read(value: object, read: int | None) -> None:
    assert repr(read_whole_number("limit", value)) == repr(read)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (2.5, "`limit` must be a whole number, not 2.5"),
        (True, "`limit` must be a whole number, not True"),
        ("2", "`limit` must be a whole number, not '2'"),
        (float("nan"), "`limit` must be a whole number, not nan"),
        (float("inf"), "`limit` must be a whole number, not inf"),
        (Decimal(2), "`limit` must be a whole number, not Decimal('2')"),
        (-1, "`limit` must be at least 1, not -1"),
        (0, "`limit` must be at least 1, not 0"),
    ],
)
def test_everything_else_is_refused(value: object, told: str) -> None:
    with pytest.raises(ValueError, match="`limit`") as caught:
        read_whole_number("limit", value)
    assert str(caught.value) == told
