"""The two ends of a stream are the same however it comes, and the lines between them are counted."""

from hypothesis import given
from hypothesis import strategies as st

from paddock.model.capture import HeadAndTail
from paddock.model.program import CapturedStream


@given(st.lists(st.binary(max_size=12)), st.integers(1, 40))
def test_pieces_make_no_difference(pieces: list[bytes], kept: int) -> None:
    ends, whole = HeadAndTail(kept), HeadAndTail(kept)
    for piece in pieces:
        ends.take(piece)
    whole.take(b"".join(pieces))
    assert ends.make_captured() == whole.make_captured()


@given(st.text("ab\nü€𝄞"), st.integers(1, 40))
def test_every_line_end_is_accounted_for_and_no_character_is_cut(text: str, kept: int) -> None:
    ends = HeadAndTail(kept)
    ends.take(text.encode())
    found = ends.make_captured()
    assert text.startswith(found.head)
    assert text.endswith(found.tail)
    between = text[len(found.head) : len(text) - len(found.tail)]
    assert (len(between.encode()), between.count("\n")) == (found.omitted_bytes, found.omitted_line_ends)
    assert len(found.head.encode()) + len(found.tail.encode()) <= kept or not found.truncated


def test_a_short_stream_is_whole() -> None:
    ends = HeadAndTail(10)
    ends.take(b"one\ntwo\n")
    assert ends.make_captured() == CapturedStream(head="one\ntwo\n", total_bytes=8)
