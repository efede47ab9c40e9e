"""Output of a program on its way to a terminal, in pieces."""

import io
import sys
from collections.abc import Callable

import pytest

from paddock.surfaces.cli.stream_output import OutputStreamer


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    def show(*pieces: bytes, more: bool = False) -> str:
        terminal = _Terminal()
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", terminal)
        passing = OutputStreamer()
        for piece in pieces:
            passing.take_output("stdout", piece)
        passing.end(more=more)
        return terminal.getvalue()

    return show


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        ((b"a \x1b[3", b"1mred\x1b[0m"), "a \x1b[31mred\x1b[0m"),
        ((b"a \x1b", b"[31mred"), "a \x1b[31mred\x1b[0m"),
        ((b"a \x1b", b"]0;title\x07"), "a \\x1b]0;title\\x07"),
        ((b"\x1b[31m", b"red\n", b"\x1b[m"), "\x1b[31mred\n\x1b[m"),
        ((b"\x1b[31m", b"red \x1b["), "\x1b[31mred \\x1b[\x1b[0m"),
        ((b"10%\r", b"20%\r\n"), "10%\r20%\r\n"),
        ((b"\xc3", b"\xa9\xff"), "\u00e9\ufffd"),
    ],
)
def test_pieces_are_shown_as_the_whole_would_be(
    shown: Callable[..., str], pieces: tuple[bytes, ...], text: str
) -> None:
    assert shown(*pieces) == text


@pytest.mark.parametrize(("piece", "text"), [(b"a", "a\n"), (b"a\n", "a\n"), (b"", "")])
def test_what_paddock_says_begins_a_line(shown: Callable[..., str], piece: bytes, text: str) -> None:
    assert shown(piece, more=True) == text


@pytest.mark.parametrize(("piece", "end"), [(b"a", b"a\n"), (b"a\n", b"a\n"), (b"", b"")])
def test_what_paddock_says_begins_a_line_of_a_pipe(
    monkeypatch: pytest.MonkeyPatch, piece: bytes, end: bytes
) -> None:
    pipes = {name: io.TextIOWrapper(io.BytesIO()) for name in ("stdout", "stderr")}
    for name, pipe in pipes.items():
        monkeypatch.setattr(sys, name, pipe)
    passing = OutputStreamer()
    for name in ("stderr", "stdout"):
        if piece:
            passing.take_output(name, piece)
    passing.end(more=True)
    pipes["stderr"].flush()
    assert [pipe.buffer.getvalue() for pipe in pipes.values()] == [piece, end]
