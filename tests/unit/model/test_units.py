"""Durations and sizes as people write them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.policy.settings.units import read_duration_ms, read_size_bytes

DURATION = "^must be a duration such as 500ms, 2.5s, 5m or 2h, in whole milliseconds$"
SIZE = "^must be a size such as 500kB, 64MiB or 2GiB, in whole bytes$"


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("2.5s", 2500),
        ("0.001 s", 1),
        ("5m", 300_000),
        ("5min", 300_000),
        ("2h", 7_200_000),
        (" 1d ", 86_400_000),
    ],
)
def test_a_duration(text: str, milliseconds: int) -> None:
    assert read_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("1B", 1), ("500kB", 500_000), ("64MiB", 2**26), ("1.5 KiB", 1536), ("2GB", 2 * 10**9), ("2GiB", 2**31)],
)
def test_a_size(text: str, size: int) -> None:
    assert read_size_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        "5",
        "s",
        "-1s",
        "1e3s",
        "0.5ms",
        "1 year",
        "5 M",
        "5S",
        "1s2s",
        "٣s",
        "1.s",
        "1_000s",
        "9" * 18 + "d",
    ],
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=DURATION):
        read_duration_ms(text)


@pytest.mark.parametrize("text", ["", "5", "64M", "64mb", "0.5B", "-1kB", "1TB", "9" * 18 + "GiB"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=SIZE):
        read_size_bytes(text)


@given(st.integers(0, 10**18 - 1))
def test_every_whole_number_of_the_smallest_unit_comes_back(number: int) -> None:

    assert (read_duration_ms(f"{number}ms"), read_size_bytes(f"{number}B")) == (number, number)


@given(st.text(max_size=40))
def test_no_other_exception_is_raised(text: str) -> None:
    for read in (read_duration_ms, read_size_bytes):
        with suppress(ValueError):
            assert 0 <= read(text) < 2**63
