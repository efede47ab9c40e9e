"""What is told of a stream that is known in whole or at its two ends."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.model.capture import HeadAndTail
from paddock.model.program import CapturedStream
from paddock.record.output.text import CUT_MARK, StreamSummary, gist, lines_of


def captured(text: str, kept: int = 1_000_000) -> CapturedStream:
    ends = HeadAndTail(kept)
    ends.take(text.encode())
    return ends.make_captured()


def numbered(count: int) -> str:
    return "".join(f"line {number}\n" for number in range(1, count + 1))


def test_s33_head_and_tail_with_the_number_of_lines_between() -> None:
    found = gist(captured(numbered(300)), "stdout", keep=10).summary(10)
    assert found.split("\n") == [
        *(f"line {number}" for number in range(1, 6)),
        "",
        "... (290 lines omitted) ...",
        "",
        *(f"line {number}" for number in range(296, 301)),
    ]


def test_s33_what_fits_is_shown_whole() -> None:
    assert gist(captured(numbered(10)), "stdout", keep=10).summary(10) == numbered(10)[:-1]
    assert gist(captured(""), "stdout", keep=10).summary(10) == ""


def test_an_odd_number_of_lines_gives_the_tail_one_more() -> None:
    lines = gist(captured(numbered(20)), "stdout", keep=11).summary(11).split("\n")
    assert (lines[4], lines[6], lines[8], lines[-1]) == (
        "line 5",
        "... (9 lines omitted) ...",
        "line 15",
        "line 20",
    )


def test_s33_lines_between_the_ends_are_counted_though_they_are_not_known() -> None:
    whole = captured(numbered(100_000))
    ends = captured(numbered(100_000), kept=1000)
    assert ends.truncated
    assert gist(ends, "stdout", keep=20).summary(20) == gist(whole, "stdout", keep=20).summary(20)


def test_s34_the_last_lines() -> None:
    assert gist(captured(numbered(100)), "stderr", keep=20).last[-5:] == tuple(
        f"line {n}" for n in range(96, 101)
    )


def test_s35_long_lines_are_cut_in_summaries() -> None:
    found = gist(captured("x" * 2000 + "\nshort\n"), "stdout", keep=10).summary(10)
    assert found == "x" * 500 + "[truncated]\nshort"


def test_a_line_without_end_is_one_line() -> None:
    found = gist(captured("x" * 5000, kept=300), "stdout", keep=10)
    assert found == StreamSummary(first=("x" * 150 + CUT_MARK,), last=(), total=1, excerpts=())
    assert found.summary(10) == "x" * 150 + CUT_MARK


def test_s36_excerpts_of_the_tail_have_their_true_numbers() -> None:
    text = numbered(5000) + "TARGET only\n" + numbered(3)
    found = gist(captured(text, kept=400), "stdout", keep=10, terms=["target"], context=0, limit=10)
    [excerpt] = found.excerpts
    assert (excerpt.line_start, excerpt.line_end, excerpt.content) == (5001, 5001, "TARGET only")


def test_excerpts_do_not_reach_over_what_is_unknown() -> None:
    text = "a\nhit\nb\n" + "x\n" * 1000 + "c\nhit\nd\n"
    found = gist(captured(text, kept=18), "stdout", keep=10, terms=["hit"], context=5, limit=10)
    assert [(each.line_start, each.content) for each in found.excerpts] == [
        (1, f"a\nhit\nb\nx{CUT_MARK}"),
        (1004, "c\nhit\nd"),
    ]


TEXTS = st.lists(st.sampled_from(["X", "a", "", "äö", "long" * 5]), max_size=40).map("\n".join)


@given(TEXTS, st.integers(16, 200), st.integers(1, 20), st.integers(0, 3), st.integers(0, 5))
def test_whatever_is_told_is_true(text: str, kept: int, keep: int, context: int, limit: int) -> None:
    lines = lines_of(text)
    found = gist(captured(text, kept), "stdout", keep=keep, terms=["x"], context=context, limit=limit)
    assert found.total == len(lines)
    assert max(len(found.first), len(found.last)) <= keep
    for shown, line in zip(found.first, lines, strict=False):
        assert shown == line or (shown.endswith(CUT_MARK) and line.startswith(shown.removesuffix(CUT_MARK)))
    start = len(lines) - len(found.last)
    for shown, line in zip(found.last, lines[start:], strict=True):
        assert shown == line or (shown.endswith(CUT_MARK) and line.startswith(shown.removesuffix(CUT_MARK)))
    assert len(found.excerpts) <= limit
    for each in found.excerpts:
        told = each.content.split("\n")
        assert len(told) == each.line_end - each.line_start + 1
        for shown, line in zip(told, lines[each.line_start - 1 : each.line_end], strict=True):
            assert shown == line or (
                shown.endswith(CUT_MARK) and line.startswith(shown.removesuffix(CUT_MARK))
            )


@given(TEXTS, st.integers(10, 30))
def test_a_summary_accounts_for_every_line(text: str, most: int) -> None:
    lines = lines_of(text)
    summary = gist(captured(text), "stdout", keep=most).summary(most)
    if len(lines) <= most:
        assert summary == "\n".join(lines)
    else:
        assert summary.count("lines omitted") == 1
        assert f"({len(lines) - most} lines omitted)" in summary


@given(TEXTS, st.integers(1, 30))
def test_lines_from_both_ends_come_once(text: str, keep: int) -> None:
    lines = lines_of(text)
    found = gist(captured(text), "stdout", keep=keep).lines()
    assert found == (lines if len(lines) <= 2 * keep else [*lines[:keep], *lines[-keep:]])
