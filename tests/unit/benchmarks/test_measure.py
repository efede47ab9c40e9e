"""Rounds take turns, ratios stay within a round, and a target knows its side."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
measure = importlib.import_module("benchmarks.measure")


def test_whoever_goes_first_changes_with_the_round() -> None:
    order: list[str] = []

    def contender(name: str):
        return lambda: float(len(order)) if order.append(name) is None else 0.0

    figures = measure.interleaved({name: contender(name) for name in "abc"}, 3)
    assert "".join(order) == "abccbabca"
    assert figures == {"a": [1.0, 6.0, 9.0], "b": [2.0, 5.0, 7.0], "c": [3.0, 4.0, 8.0]}


def test_the_more_figures_scatter_the_less_is_known_and_the_more_there_are_the_more() -> None:
    near, far = [10.0, 11.0, 12.0, 13.0] * 4, [0.0, 10.0, 20.0, 30.0] * 4
    assert measure.uncertainty(far) == pytest.approx(10 * measure.uncertainty(near))
    assert measure.uncertainty(far * 4) < measure.uncertainty(far) / 1.9
    assert measure.uncertainty([5.0] * 16) == 0


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    assert measure.ratio([2.0, 9.0, 40.0], [1.0, 3.0, 10.0]) == 3.0


@pytest.mark.parametrize(
    ("target", "value", "met", "text"),
    [
        (measure.at_most(1.5), 1.5, True, "<= 1.5"),
        (measure.at_most(1.5), 1.6, False, "<= 1.5"),
        (measure.at_least(3), 3.0, True, ">= 3"),
        (measure.at_least(3), 2.9, False, ">= 3"),
    ],
)
def test_a_target_knows_its_side(target: object, value: float, met: object, text: str) -> None:
    assert (measure.Line("x", value, "ms", target).met, str(target)) == (met, text)


def test_a_floor_has_no_verdict() -> None:
    assert measure.Line("floor", 1.0, "ms").met is None


def test_descendants_are_found_through_generations() -> None:
    own = int(Path("/proc/self").readlink().name)
    assert measure.descendants({own: 1, 10**7: own, 10**7 + 1: 10**7, 10**7 + 2: 1}) == {
        own,
        10**7,
        10**7 + 1,
    }
