"""Programs that are typed line by line: where one ends, and which lines the history keeps."""

import builtins
import readline
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.surfaces.cli.line_input import MAX_HISTORY_LINES, LineInput, is_complete


@pytest.mark.parametrize(
    ("language", "text", "complete"),
    [
        ("python", "x = 1", True),
        ("python", "if x:", False),
        ("python", "if x:\n  y", False),
        ("python", "if x:\n  y\n", True),
        ("python", "f(1,", False),
        ("python", "'''", False),
        ("python", "x = \\", False),
        ("python", "x = = 1", True),
        ("python", "async with a as b:", False),
        ("python", "await f()", True),
        ("python", "x = 1\ny = 2", True),
        ("python", "'\\d'", True),
        ("python", "(" * 5000, True),
        ("python", "a\0b", True),
        ("shell", "echo \\", False),
        ("shell", "if true; then", True),
        ("r", "f(1,", True),
        ("node", "x +\\", False),
    ],
)
def test_where_a_program_ends(language: str, text: str, complete: bool) -> None:
    assert is_complete(language, text) is complete


Type = Callable[..., LineInput]


@pytest.fixture
def type_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Return a function that makes an input whose person types lines, and then Ctrl-D, or Ctrl-C where None is."""

    def type_in(*lines: str | None, language: str = "node") -> LineInput:
        rest = iter(lines)

        def read(_prompt: str) -> str:
            for line in rest:
                if line is None:
                    raise KeyboardInterrupt
                return line
            raise EOFError

        monkeypatch.setattr(builtins, "input", read)
        return LineInput(language, tmp_path / "state" / "history", lambda text: "secret" in text)

    return type_in


def test_programs_are_read_one_after_another(type_lines: Type) -> None:
    lines = type_lines("1 +\\", "2", ":paste", "a\\", "", "b", ":end", "3")
    assert [lines.read() for _ in range(4)] == ["1 +\n2", "a\\\n\nb", "3", None]
    assert type_lines("x \\", "y", language="ruby").read() == "x \\\ny"


def test_tab_completes_commands_and_names_of_earlier_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "input", lambda _prompt: "total_price = len(orders)")
    lines = LineInput("python", tmp_path / "history", lambda _: False, commands=(":files", ":save"))
    lines.read()
    completer = readline.get_completer()
    assert completer is not None
    found = {
        text: [completer(text, state) for state in (0, 1)] for text in ("total", "ord", ":s", "isinst", "zz")
    }
    assert found == {
        "total": ["total_price", None],
        "ord": ["orders", None],
        ":s": [":save", None],
        "isinst": ["isinstance", None],
        "zz": [None, None],
    }


def test_the_end_of_the_input_ends_a_program(type_lines: Type) -> None:
    lines = type_lines(":paste", "a")
    assert [lines.read(), lines.read()] == ["a", None]
    lines = type_lines("if x:", "  y", language="python")
    assert [lines.read(), lines.read()] == ["if x:\n  y", None]


def test_an_interrupt_discards_an_unfinished_program(type_lines: Type) -> None:
    lines = type_lines("a\\", None, "b")
    with pytest.raises(KeyboardInterrupt):
        lines.read()
    assert lines.read() == "b"


def test_the_history_has_no_program_with_a_secret(type_lines: Type, tmp_path: Path) -> None:
    lines = type_lines(
        "a", ":paste", "b", "a secret", "c", ":end", "se\\", "cret", "d\\", "a secret", None, "e"
    )
    for _ in range(4):
        lines.read()
    with pytest.raises(KeyboardInterrupt):
        type_lines("a secret\\", None).read()
    lines.close()
    file = tmp_path / "state" / "history"
    assert file.read_text() == "a\nse\\\ncret\n"
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_the_history_is_bounded_and_shared(type_lines: Type, tmp_path: Path) -> None:
    file = tmp_path / "state" / "history"
    file.parent.mkdir()
    file.write_text("".join(f"{number}\n" for number in range(MAX_HISTORY_LINES)))
    first, second = type_lines("x"), type_lines("y", "z")
    second.read()
    first.read()
    first.close()
    second.close()
    assert file.read_text().splitlines()[-3:] == [str(MAX_HISTORY_LINES - 1), "z", "y"]
    assert len(file.read_text().splitlines()) == MAX_HISTORY_LINES


def test_a_history_that_cannot_be_written_is_a_warning(
    type_lines: Type, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").write_text("")
    lines = type_lines("a")
    lines.read()
    lines.close()
    file = tmp_path / "state" / "history"
    assert capsys.readouterr().err == f"warning: the history was not stored in {file}: Not a directory\n"
