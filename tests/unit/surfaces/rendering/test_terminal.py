"""What reaches a terminal: text, line ends, tabs and colours, whatever was written."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.surfaces.cli.streams import terminal_stream, with_controls, write_escaped
from paddock.surfaces.rendering.terminal import (
    escape_except_colour,
    escape_line,
    escape_name,
    escape_piece,
    escape_text,
)

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
HARMFUL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]"
)
PARTS = st.sampled_from(
    [
        "\x1b[31m",
        "\x1b[2J",
        "\x1b]0;title\x07",
        "\x9b",
        "\r",
        "\n",
        "\t",
        "\u202e",
        "\U000e0041",
        "\ud800",
        "a",
        "é",
    ]
)
TEXTS = st.lists(PARTS | st.text(max_size=4)).map("".join)


def shown(*texts: str) -> str:
    """Return what a terminal's stream passes on of some texts."""
    raw = io.BytesIO()
    stream = terminal_stream(raw)
    for text in texts:
        stream.write(text)
    stream.flush()
    return raw.getvalue().decode()


@given(st.lists(TEXTS, max_size=4))
def test_nothing_that_is_written_acts_on_a_terminal(texts: list[str]) -> None:
    passed = COLOUR.sub("", shown(*texts))
    assert HARMFUL.findall(passed.replace("\r\n", "\n")) == []


@given(TEXTS)
def test_a_stranger_has_no_colours(text: str) -> None:
    assert HARMFUL.findall(escape_text(text).replace("\r\n", "\n")) == []


@pytest.mark.parametrize(
    ("function", "text", "escaped"),
    [
        (escape_text, "a\x1b[31mb\r\nc\td\x07", "a\\x1b[31mb\r\nc\td\\x07"),
        (escape_text, "x\u202ey\U000e0041z", r"x\u{202e}y\u{e0041}z"),
        (escape_line, "\x1b[31mred\r", "\x1b[31mred\\x0d"),
        (escape_except_colour, "\x1b[31mred", "\x1b[31mred\x1b[0m"),
        (escape_except_colour, "\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (escape_piece, "10 %\r20 %\x1b[K", "10 %\r20 %\\x1b[K"),
    ],
)
def test_what_is_escaped(function: object, text: str, escaped: str) -> None:
    assert callable(function)
    assert function(text) == escaped


def test_what_was_escaped_before_and_controls_of_paddock_pass() -> None:
    raw = io.BytesIO()
    stream = terminal_stream(raw)
    write_escaped(stream, "10 %\r")
    with_controls(stream).write("\x1b[?25l")
    stream.flush()
    assert raw.getvalue() == b"10 %\r\x1b[?25l"


def test_a_name_is_a_part_of_one_line():
    name = "a\nb\t\r\x1b[31m\u202e\u2028.txt"
    assert escape_name(name) == "a\\x0ab\\x09\\x0d\\x1b[31m\\u{202e}\\u{2028}.txt"
    assert escape_name("r\u00e9sum\u00e9 \u05d0.txt") == "r\u00e9sum\u00e9 \u05d0.txt"
