"""Texts side by side."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.foundation.side_by_side import MAX_COMPARED_LINES, Half, LinePair, pair_lines


def equal(text):
    return LinePair(Half(text, "", ""), Half(text, "", ""))


def test_lines_are_paired_and_their_difference_is_marked():
    assert pair_lines(["a", "the old text", "c"], ["a", "the new text", "c", "d"]) == [
        equal("a"),
        LinePair(Half("the ", "old", " text"), Half("the ", "new", " text")),
        equal("c"),
        LinePair(None, Half("", "d", "")),
    ]


def test_a_part_that_was_added_is_the_difference():
    assert pair_lines(["aa"], ["aaa"]) == [LinePair(Half("aa", "", ""), Half("aa", "a", ""))]


def test_long_texts_are_paired_by_their_position():
    lines = [str(at) for at in range(MAX_COMPARED_LINES + 1)]
    assert pair_lines(lines, lines[1:])[0] == LinePair(Half("", "0", ""), Half("", "1", ""))


@given(st.lists(st.text(max_size=5), max_size=8), st.lists(st.text(max_size=5), max_size=8))
def test_no_line_is_lost(before, after):
    pairs = pair_lines(before, after)
    assert ["".join(each.before) for each in pairs if each.before is not None] == before
    assert ["".join(each.after) for each in pairs if each.after is not None] == after
