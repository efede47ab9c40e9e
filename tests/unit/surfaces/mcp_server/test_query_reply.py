"""What was found, under the cap of an answer: nothing is lost, every part says where the next begins."""

import json

from hypothesis import given
from hypothesis import strategies as st

from paddock.model.artifact import Cursor, Excerpt, OutputFound
from paddock.record.output.text import CUT_MARK, excerpt
from paddock.surfaces.mcp_server.tools.programs import fit_found_output, render_found_output


def found(*excerpts: Excerpt, **more: object) -> OutputFound:
    facts = {"artifact_handle": "h", "total_lines": 9, "total_bytes": 9, "match_count": 0}
    facts |= {"searched_streams": ("stdout",), "match_status": "lineRange"}
    return OutputFound.model_validate({**facts, "excerpts": excerpts, **more})


def size(shown: OutputFound) -> int:
    return len(json.dumps(shown.to_wire(), ensure_ascii=False, separators=(",", ":")))


def test_what_fits_stays_as_it_is() -> None:
    whole = found(excerpt("stdout", 1, ["a", "b"]))
    assert fit_found_output(whole, size(whole)) is whole


def test_a_cursor_goes_on_after_the_last_line_that_fits() -> None:
    lines = ["x" * 98] * 50
    shown = fit_found_output(found(excerpt("stdout", 11, lines), excerpt("stderr", 1, ["last"])), 2000)
    [part] = shown.excerpts
    assert (part.line_start, part.line_end) == (11, 24)
    assert shown.next_cursor == Cursor(stream="stdout", after_line=24)


def test_a_line_that_is_too_long_by_itself_is_read_in_parts() -> None:
    line = "é\x01" * 10_000
    shown = fit_found_output(found(excerpt("stdout", 3, [line])), 3000, within=70)
    [part] = shown.excerpts
    assert line.startswith(part.content)
    assert shown.next_cursor == Cursor(stream="stdout", after_line=2, after_char=70 + len(part.content))
    around = fit_found_output(found(excerpt("stdout", 3, [CUT_MARK + line])), 3000)
    assert around.next_cursor == Cursor(stream="stdout", after_line=2, after_char=0)


@given(
    st.lists(st.lists(st.text(max_size=600), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(1000, 5000),
)
def test_no_answer_is_larger_than_its_cap(parts: list[list[str]], cap: int) -> None:
    whole = found(*(excerpt("stdout", 1 + 100 * place, lines) for place, lines in enumerate(parts)))
    shown = fit_found_output(whole, cap)
    assert size(shown) <= cap
    assert shown.excerpts
    assert shown is whole or shown.next_cursor is not None


def test_the_text_says_how_to_read_on() -> None:
    cursors = {
        "next_cursor": Cursor(stream="stdout", after_line=2),
        "line_cursor": Cursor(stream="stdout", after_line=1, after_char=500),
    }
    assert render_found_output(found(excerpt("stdout", 1, ["a", "b"]), **cursors)).split("\n") == [
        "ok · lineRange · 0 matches · 9 lines",
        "--- stdout 1-2",
        "a",
        "b",
        'more: cursor {"stream":"stdout","afterLine":2}',
        'the rest of a cut line: cursor {"stream":"stdout","afterLine":1,"afterChar":500}',
    ]
