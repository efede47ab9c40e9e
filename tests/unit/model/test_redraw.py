"""Output that redraws itself: its last frame, whatever the pieces, and nothing lost that a terminal would still show."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.record.output.redraw import (
    SCREEN_ROWS,
    find_unfinished_frame,
    last_frame,
    last_frames,
    later_frames,
)
from paddock.record.output.text import LineSplitter

PROGRESS = "".join(f"\r{number:3}/300 {'#' * (number // 10)}" for number in range(1, 301))
LAST = f"300/300 {'#' * 30}"
BACK = "\b" * 20
BACKWARDS = "".join(f"frame {number}{BACK}" for number in range(300))
SPINNER = "".join(f"\b{sign}" for sign in "/-\\|" * 20 + "/-")
UP, ERASE = "\x1b[1A", "\x1b[2K"


def fold(*pieces: str, terms: Sequence[str] = ()) -> str:
    return "".join(last_frames(pieces, terms))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("plain", "plain"),
        ("from Windows\r", "from Windows"),
        (PROGRESS, LAST),
        (PROGRESS.removeprefix("\r") + "\r", LAST),
        (f"{PROGRESS}\r          \r", LAST),
        (f"{PROGRESS}\r\x1b[K", LAST),
        (f"{PROGRESS}\r\x1b[2Kdone", "done"),
        ("\r\r \r", ""),
        (BACKWARDS, "frame 299"),
        (f"{BACKWARDS}{' ' * 20}", "frame 299"),
        (f"{BACKWARDS}{' ' * 20}{BACK}done", "done"),
        (f"wait |{SPINNER}", "wait -"),
        (f"wait |{SPINNER}\bdone", "wait done"),
        ("\x1b[1mwait\x1b[0m |\b/\b\x1b[32m-\x1b[0m", "wait -"),
        (f"\x1b[32m{BACKWARDS}\x1b[32mdone\x1b[0m", "\x1b[32mdone\x1b[0m"),
        ("N\bNA\bAM\bME\bE", "NAME"),
        ("typod\b \bo", "typoo"),
        ("\b\b", ""),
        ("", ""),
    ],
)
def test_progress_is_its_last_frame(line: str, shown: str) -> None:
    assert last_frame(line) == shown
    assert "".join(last_frames([line])) == shown
    assert "".join(last_frames([*line, "\n", *line, "\nend"])) == f"{shown}\n{shown}\nend"


def test_of_what_is_looked_for_the_last_frame_that_holds_it_is_shown() -> None:
    line = "1 ok\r2 Error: a\r3 error: b\r4 ok"
    assert last_frame(line, ["ERROR"]) == "3 error: b"
    assert last_frame(line, ["absent"]) == "4 ok"
    assert list(LineSplitter(["error"]).feed("".join(last_frames([f"{line}\n"], ["error"])))) == [
        ("3 error: b", True)
    ]


def test_progress_without_an_end_is_not_kept() -> None:
    frames = (f"\rframe {number} {'x' * 1000}" for number in range(10_000))
    assert "".join(last_frames(frames)) == f"frame 9999 {'x' * 1000}"


@given(st.lists(st.text("a\n", max_size=50_000), max_size=5))
def test_what_has_no_frames_passes_as_it_is(pieces: list[str]) -> None:
    assert "".join(last_frames(pieces)) == "".join(pieces)


def test_a_frame_without_an_end_passes_as_it_is() -> None:
    pieces = ["x" * 40_000] * 3 + ["\ry\nz\rend"]
    assert list(map(len, last_frames(pieces))) == [80_000, 40_000, 3, 3]


def redrawn(begin: str) -> str:
    """Return 300 frames of one line, each of which begins like this."""
    return "".join(f"{begin}{number:3}/300" for number in range(1, 301))


@pytest.mark.parametrize(
    "begin",
    [
        "\x1b[2K\x1b[1G",
        "\x1b[2K\r",
        "\r\x1b[2K",
        "\x1b[G",
        "\x1b[0G",
        "\x1b[1G\x1b[K",
        "\r\x1b[K",
        "\r\x1b[0K",
        "\r\x1b[J",
    ],
)
def test_every_way_to_draw_a_line_anew_is_folded(begin: str) -> None:
    assert last_frame(redrawn(begin)) == "300/300"
    assert fold("begin\n", redrawn(begin), "\nend\n") == "begin\n300/300\nend\n"


def frames(first: str, up: str, down: str = "\n") -> str:
    """Return 300 frames of three lines, each but the first begun by `up`."""
    drawn = [
        f"{first if number == 1 else up}{''.join(f'{name} {number}{down}' for name in 'abc')}"
        for number in range(1, 301)
    ]
    return "".join(drawn)


@pytest.mark.parametrize(
    "up",
    [
        "\x1b[3A",  # docker and its like
        "\x1b[3F",
        "\x1b[A" * 3,
        f"{UP}{ERASE}" * 3,
        f"{ERASE}{UP}" * 3 + f"{ERASE}\x1b[G",  # npm and its like
        f"\r{ERASE}{UP}{ERASE}{UP}{ERASE}{UP}{ERASE}",
        "\x1b[3A\x1b[J",
    ],
)
def test_frames_of_several_lines_are_folded(up: str) -> None:
    assert fold("begin\n", frames("", up), "end\n") == "begin\na 300\nb 300\nc 300\nend\n"
    assert fold("begin\n", frames("", up, "\x1b[K\n"), "end\n") == "begin\na 300\nb 300\nc 300\nend\n"


def test_single_rows_are_redrawn_where_they_are() -> None:
    """As when images are pulled: up to a row, and down again."""
    rows = "".join(f"{name}: waiting\n" for name in "abc")
    changes = "".join(
        f"\x1b[{row}A{ERASE}\r{name}: {percent}%\r\x1b[{row}B"
        for percent in (50, 100)
        for row, name in ((3, "a"), (1, "c"))
    )
    assert fold(rows, changes, "done\n") == "a: 100%\nb: waiting\nc: 100%\ndone\n"


def test_rows_that_were_erased_and_left_are_gone() -> None:
    frame = "building\nstep 1\nstep 2\n"
    assert fold(frame, f"{UP}{ERASE}" * 3, "built\n") == "built\n"
    assert fold(frame, "\x1b[3A\x1b[J", "built\n") == "built\n"
    assert fold("head\n", frame, f"{ERASE}{UP}" * 3, f"{ERASE}\x1b[Gbuilt\nlast") == "head\nbuilt\nlast"


def test_what_a_terminal_leaves_visible_stays() -> None:
    assert fold("first\nlast\n\x1b[2A") == "first\nlast"
    assert fold(f"long text\nab{UP}more") == "long textmore\nab"
    assert fold("name\x1b[20Gvalue\n") == "name\x1b[20Gvalue\n"
    assert fold("one\x1b[2Btwo\n") == "one\n\ntwo\n"
    assert fold("a\nb\n\x1b[9Ac\n") == "c\nb"
    assert fold("\x1b[01;31m\x1b[Kfound\x1b[m\x1b[K here\n") == "\x1b[01;31mfound\x1b[m here\n"
    assert fold("\x1b[2J\x1b[Hscreen\n") == "\x1b[2J\x1b[Hscreen\n"
    assert fold("\x1b[1000Aa\n") == "\x1b[1000Aa\n"


def test_what_scrolled_off_the_screen_is_not_redrawn() -> None:
    lines = [f"line {number}" for number in range(1000)]
    text = "".join(f"{line}\n" for line in lines)
    assert fold(text, f"\x1b[{SCREEN_ROWS}Atop") == "\n".join(
        [*lines[: 1001 - SCREEN_ROWS], "top", *lines[1002 - SCREEN_ROWS :]]
    )


def test_of_rows_that_are_looked_for_the_last_frame_that_holds_it_is_shown() -> None:
    text = "a 1\nb Error\n\x1b[2Aa 2\nb fine\n"
    assert fold(text, terms=["ERROR"]) == "a 2\nb Error\n"
    assert fold("Error: x\n", f"{UP}{ERASE}{UP}", "y", terms=["error"]) == "Error: x"


def test_rows_that_are_redrawn_without_end_are_not_kept() -> None:
    pieces = (f"\x1b[2A{ERASE}{'x' * 1000} {number}\n{ERASE}{number}\n" for number in range(10_000))
    assert fold("\n\n", *pieces) == f"{'x' * 1000} 9999\n9999\n"
    assert fold("\x1b[99B" * 10_000, "x") == "\n" * (SCREEN_ROWS - 1) + "x"


def test_backspaces_within_a_long_frame_copy_none_of_it() -> None:
    assert fold("x" * 60_000, "\b\ba" * 50_000, "\n") == f"{'x' * 9_999}a\n"


def test_frames_of_a_line_that_goes_on() -> None:
    assert find_unfinished_frame("a\rb\x1b[Gc") == "c"
    assert find_unfinished_frame(f"a{ERASE}") == ""
    assert find_unfinished_frame("plain") == "plain"
    assert later_frames("plain") is None
    assert later_frames("a\x1b[1Gb\rc") == "b\rc"


PIECES = st.sampled_from(
    [
        *("a", "b ", "\n", "\r", "\r\n", " ", "ß", "x" * 40_000, "\n" * 120),
        *(ERASE, "\x1b[K", "\x1b[1K", "\x1b[G", "\x1b[1G", "\x1b[20G", "\x1b[J", "\x1b[2J"),
        *(
            UP,
            "\x1b[2A",
            "\x1b[F",
            "\x1b[2B",
            "\x1b[E",
            "\x1b[31m",
            "\x1b[0m",
            "\b",
            "\b" * 9,
            "\x1b",
            "\x1b[",
            "\x1b[1234A",
        ),
    ]
)


@given(
    st.lists(PIECES, max_size=40).map("".join),
    st.lists(st.integers(0, 200), max_size=6),
    st.sampled_from([(), ("A",)]),
)
def test_pieces_of_any_size_make_no_difference(text: str, cuts: list[int], terms: Sequence[str]) -> None:
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[start:end] for start, end in pairwise(ends)]
    whole = fold(text, terms=terms)
    assert fold(*pieces, terms=terms) == whole
    if len(text) < 5000:
        assert fold(*text, terms=terms) == whole
    assert len(whole) <= len(text) + SCREEN_ROWS


class Terminal:
    """A terminal as the reference: cells of rows, each a word of two columns."""

    def __init__(self) -> None:
        self.rows: list[dict[int, str]] = [{}]
        self.gone: list[str] = []
        self.row = self.column = 0

    def to_row(self, row: int) -> None:
        self.row = max(0, min(row, SCREEN_ROWS - 1))
        while len(self.rows) <= self.row:
            self.rows.append({})

    def line_end(self) -> None:
        self.column = 0
        if self.row == SCREEN_ROWS - 1:
            self.rows.append({})
            self.gone.append(self.text(self.rows.pop(0)))
        else:
            self.to_row(self.row + 1)

    def write(self, word: str) -> None:
        self.rows[self.row][self.column] = word
        self.column += 1

    @staticmethod
    def text(row: dict[int, str]) -> str:
        return "".join(row[column] for column in sorted(row))

    @property
    def shown(self) -> list[str]:
        return [text for text in (*self.gone, *map(self.text, self.rows)) if text]


STEPS = st.tuples(
    st.sampled_from(["line", "return", "erase", "up", "up and erase", "down", "below"]), st.integers(1, 5)
)


@given(st.lists(STEPS, max_size=300))
def test_all_that_a_terminal_shows_in_the_end_is_shown_in_its_order(steps: list[tuple[str, int]]) -> None:
    """A word follows each step. In the first column it is a frame of its own, so nothing is left beside it."""
    terminal, text = Terminal(), ""
    for number, (step, count) in enumerate(steps):
        match step:
            case "line":
                text += "\n"
                terminal.line_end()
                terminal.rows[terminal.row] = {}
            case "return":
                text += f"\r{ERASE}"
                terminal.column, terminal.rows[terminal.row] = 0, {}
            case "erase":
                text += f"{ERASE}\x1b[1G"
                terminal.column, terminal.rows[terminal.row] = 0, {}
            case "up":
                text += f"\x1b[{count}A"
                terminal.to_row(terminal.row - count)
            case "up and erase":
                text += f"\x1b[{count}F{ERASE}"
                terminal.to_row(terminal.row - count)
                terminal.column, terminal.rows[terminal.row] = 0, {}
            case "down":
                text += f"\x1b[{count}E{ERASE}"
                terminal.to_row(terminal.row + count)
                terminal.column, terminal.rows[terminal.row] = 0, {}
            case _:
                text += f"\x1b[{count}F\x1b[J"
                terminal.to_row(terminal.row - count)
                terminal.column = 0
                terminal.rows[terminal.row :] = [{}]
        word = f"<{number}>"
        text += word
        terminal.write(word)
    rows = iter(fold(text).split("\n"))
    for shown in terminal.shown:
        assert any(set(words(shown)) <= set(words(row)) for row in rows), (shown, fold(text))


def words(row: str) -> list[str]:
    return row.removeprefix("<").removesuffix(">").split("><")
