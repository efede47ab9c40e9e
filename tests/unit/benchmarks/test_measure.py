"""Rounds take turns, ratios stay within a round, and a target knows its side."""

import importlib
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
measure = importlib.import_module("benchmarks.measure")
reference = importlib.import_module("benchmarks.reference")
report = importlib.import_module("benchmarks.report")


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


@pytest.mark.parametrize(
    ("line", "there", "met_there"),
    [
        (measure.Line("time", 3.0, "ms", measure.at_most(2)), 2.0, True),
        (measure.Line("time", 300.0, "us", measure.at_most(150)), 200.0, False),
        (measure.Line("rate", 4.0, "runs/s", measure.at_least(6)), 6.0, True),
        (measure.Line("ratio", 3.0, "x", measure.at_most(2)), 3.0, False),
        (measure.Line("memory", 3.0, "MiB", measure.at_most(4)), 3.0, True),
        (measure.Line("floor", 3.0, "ms"), 2.0, None),
    ],
)
def test_times_and_rates_alone_depend_on_the_machine(line: object, there: float, met_there: object) -> None:
    assert (line.there(1.5), line.met_there(1.5)) == (there, met_there)


def test_a_slow_machine_is_one_on_which_processes_start_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reference, "milliseconds", lambda _: 8.8)
    monkeypatch.setattr(reference.peers, "node", lambda: "node")
    assert reference.slowness() == 1.0  # the median of 9.4, 1 and 0.4


def test_where_there_is_no_node_the_others_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise FileNotFoundError("node is not on the PATH")

    monkeypatch.setattr(reference, "milliseconds", lambda _: 0.94 * 8.8)
    monkeypatch.setattr(reference.peers, "node", none)
    assert reference.slowness() == pytest.approx((8.8 + 0.94) / 2)


def test_what_is_missed_here_and_met_there_is_told_as_both() -> None:
    lines = [
        measure.Line("a", 3.0, "ms", measure.at_most(2.5)),
        measure.Line("b", 1.0, "ms", measure.at_most(2)),
        measure.Line("c", 9.0, "ms", measure.at_most(2), note="n"),
        measure.Line("d", 9.0, "x", measure.at_most(2)),
        measure.Line("floor", 9.0, "ms"),
    ]
    section = report.Section("Title", 2.4, lines, 1.5)
    assert report.table(section).splitlines() == [
        "Title  (2 s, 1.50 x as slow as there)",
        "  a              3 ms        <= 2.5 MISSED, there 2",
        "  b              1 ms        <= 2 met, there 0.667",
        "  c              9 ms        <= 2 MISSED, there 6           n",
        "  d              9 x         <= 2 MISSED",
        "  floor          9 ms",
    ]
    assert report.summary([section]) == (
        "1 of 4 targets met, 2 at the speed of the machine that they were set on"
    )
    assert [report.mark_change(line, 1.5) for line in lines] == [
        "**missed**, met there", "met", "**missed**; n", "**missed**", "",
    ]  # fmt: skip
