"""Lines and excerpts: the numbers are right, nothing grows without bound, and pieces make no difference."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddock.model.artifact import Excerpt
from paddock.model.capture import HeadAndTail
from paddock.record.output.text import (
    CUT_MARK,
    ExcerptCollector,
    LineSplitter,
    blocks,
    clip_line,
    gist,
    holding,
    is_cut,
    lines_of,
)


def split(terms: list[str], pieces: list[str]) -> list[tuple[str, bool]]:
    lines = LineSplitter(terms)
    found = [line for piece in pieces for line in lines.feed(piece)]
    return [*found, *lines.end()]


def windows(lines: list[str], term: str, *, context: int, limit: int = 10) -> ExcerptCollector:
    found = ExcerptCollector("stdout", context=context, limit=limit)
    number = 0
    for number, line in enumerate(lines, 1):
        found.feed(number, line, hit=term in line)
    found.end(number)
    return found


def test_s35_a_line_is_cut_after_500_characters() -> None:
    assert clip_line("x" * 500) == "x" * 500
    assert clip_line("x" * 2000) == "x" * 500 + "[truncated]"


def test_a_line_ends_at_the_newline_and_nowhere_else() -> None:
    assert lines_of("a\r\nb\u2028c\n\nd\n") == ["a\r", "b\u2028c", "", "d"]
    assert (lines_of(""), lines_of("\n"), lines_of("a")) == ([], [""], ["a"])


@given(st.lists(st.text("ab\nß", max_size=8)), st.lists(st.text("abß", min_size=1, max_size=3), max_size=3))
def test_pieces_make_no_difference(pieces: list[str], terms: list[str]) -> None:
    whole = "".join(pieces)
    lines = lines_of(whole)
    expected = [(line, any(term.lower() in line.lower() for term in terms)) for line in lines]
    assert split(terms, pieces) == expected


@given(
    st.text("ab\nß\u03a3İ", max_size=30), st.lists(st.text("abß\u03c3\n", min_size=1, max_size=3), max_size=3)
)
def test_lines_that_hold_a_term_are_those_that_are_found_one_by_one(text: str, terms: list[str]) -> None:
    assert holding(text, terms) == [number for number, (_, hit) in enumerate(split(terms, [text])) if hit]


@given(st.lists(st.text("ab\n", max_size=8)))
def test_whole_lines_are_told_from_parts_of_lines(pieces: list[str]) -> None:
    found = [*blocks(pieces)]
    assert "".join(piece for piece, _ in found) == "".join(pieces)
    before = "\n"
    for piece, whole in found:
        assert whole == (before == "\n" and piece[-1] == "\n")
        before = piece[-1]


@settings(deadline=None)
@given(st.integers(0, 200_000), st.integers(500, 50_000))
def test_a_term_anywhere_in_a_very_long_line_is_found(place: int, size: int) -> None:
    text = "." * place + "Needle" + "." * (200_000 - place)
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    [(shown, hit)] = split(["nEEDLE"], pieces)
    around = shown.removeprefix(CUT_MARK).removesuffix(CUT_MARK)
    assert (hit, "Needle" in around, len(around) <= 500, around in text) == (True, True, True, True)
    assert is_cut(shown)
    assert split(["nEEDLES"], pieces) == [(text[:500] + CUT_MARK, False)]


def test_a_term_that_the_beginning_of_its_line_does_not_show_is_shown() -> None:
    inside = "." * 494 + "needle" + "." * 900
    assert split(["needle"], [inside]) == [(inside[:500] + CUT_MARK, True)]
    beyond = "." * 495 + "needle" + "." * 900
    assert split(["needle"], [beyond + "\nnext"]) == [
        (CUT_MARK + beyond[395:895] + CUT_MARK, True),
        ("next", False),
    ]
    last = "." * 1990 + "needle"
    assert split(["needle", "never"], [last]) == [(CUT_MARK + "." * 100 + "needle", True)]


def test_whether_a_line_is_shown_in_part() -> None:
    whole = ["", "x" * 500, CUT_MARK, "x" + CUT_MARK]
    parts = ["x" * 500 + CUT_MARK, CUT_MARK + "." * 100 + "needle"]
    assert [*map(is_cut, whole + parts)] == [False] * 4 + [True] * 2


def test_a_line_that_never_ends_is_not_kept() -> None:
    lines = LineSplitter(["needle"])
    for _ in range(1000):
        assert list(lines.feed("." * 4096)) == []
    assert lines.kept_chars < 150_000


def test_s36_one_line_without_context() -> None:
    found = windows(["a", "TARGET only", "b"], "TARGET", context=0)
    assert found.excerpts == [Excerpt(line_start=2, line_end=2, content="TARGET only", source="stdout")]


def test_the_context_before_may_have_been_shown_the_match_may_not() -> None:
    lines = ["0", "X1", "2", "X3", "X4", "5", "6"]
    found = windows(lines, "X", context=1)
    assert [(each.line_start, each.line_end, each.content) for each in found.excerpts] == [
        (1, 3, "0\nX1\n2"),
        (3, 5, "2\nX3\nX4"),
    ]
    assert (found.matches, found.more) == (3, False)


LINES = st.lists(st.sampled_from(["X", "a", ""]), max_size=60)


@given(LINES, st.integers(0, 5), st.integers(0, 6))
def test_excerpts_keep_their_promises(lines: list[str], context: int, limit: int) -> None:
    found = windows(lines, "X", context=context, limit=limit)
    assert len(found.excerpts) <= limit
    assert found.matches == lines.count("X")
    shown: set[int] = set()
    for each in found.excerpts:
        assert each.content == "\n".join(lines[each.line_start - 1 : each.line_end])
        numbers = set(range(each.line_start, each.line_end + 1))
        matches = {number for number in numbers if lines[number - 1] == "X"}
        assert matches - shown
        first = min(matches - shown)
        assert each.line_end == min(first + context, len(lines))
        assert each.line_start == max(first - context, 1)
        shown |= numbers
    hidden = {number for number, line in enumerate(lines, 1) if line == "X"} - shown
    assert found.more == bool(hidden)
    assert not hidden or len(found.excerpts) == limit


PROGRESS = "".join(f"\r{number:3}/300 {'#' * (number // 10)}" for number in range(1, 301))
LAST = f"300/300 {'#' * 30}"


@pytest.mark.parametrize("kept", [2**20, 1000])
def test_the_gist_of_progress_is_its_last_frame_though_the_middle_is_gone(kept: int) -> None:
    ends = HeadAndTail(kept)
    ends.take(f"begin\n{PROGRESS}\nend\n".encode())
    captured = ends.make_captured()
    assert captured.truncated == (kept == 1000)
    found = gist(captured, "stdout", keep=100)
    assert found.lines() == ["begin", LAST, "end"]
    assert found.summary(100) == f"begin\n{LAST}\nend"


def test_the_gist_of_progress_in_two_lines_whose_ends_are_gone() -> None:
    ends = HeadAndTail(1000)
    ends.take(f"begin\n{PROGRESS}\nbetween\n{PROGRESS}\nend\n".encode())
    found = gist(ends.make_captured(), "stdout", keep=100)
    assert (found.total, found.first[0], found.last) == (5, "begin", (LAST, "end"))
    assert found.first[1].endswith(CUT_MARK)


@pytest.mark.parametrize("kept", [2**20, 1000])
def test_the_gist_of_frames_of_several_lines_is_the_last_one(kept: int) -> None:
    frames = "".join(f"\x1b[2A\x1b[2Ka {number}\n\x1b[2Kb {number}\n" for number in range(1, 301))
    ends = HeadAndTail(kept)
    ends.take(f"begin\n\n\n{frames}end\n".encode())
    captured = ends.make_captured()
    assert captured.truncated == (kept == 1000)
    found = gist(captured, "stdout", keep=100, terms=["b 300"], context=1, limit=1)
    assert found.last[-3:] == ("a 300", "b 300", "end")
    assert found.excerpts[0].content == "a 300\nb 300\nend"
    if not captured.truncated:
        assert (found.total, found.lines()) == (4, ["begin", "a 300", "b 300", "end"])
        assert (found.excerpts[0].line_start, found.summary(100)) == (2, "begin\na 300\nb 300\nend")
