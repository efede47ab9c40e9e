"""The file of answers: continued after any end, and never at the cost of somebody else's file."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock import ConfigurationError
from paddock.gate.batch.answer_file import open_answer_file
from paddock.gate.batch.lines import BadLine, write_line

FIRST = write_line({"id": "a", "status": "ok"})
SECOND = write_line({"id": "b", "status": "failed"})
BAD = BadLine(3, None, "the line is not JSON")


def test_answers_are_kept_and_known(tmp_path):
    path = tmp_path / "answers"
    with open_answer_file(path) as answers:
        answers.write(FIRST)
        answers.write(write_line(BAD.render()))
    with open_answer_file(path) as answers:
        assert (answers.kept, answers.has("a"), answers.has("b")) == (2, True, False)
        assert (answers.has_line(BAD), answers.has_line(BAD._replace(number=4))) == (True, False)
        answers.write(SECOND)
    assert path.read_bytes() == FIRST + write_line(BAD.render()) + SECOND


@given(st.integers(0, len(SECOND) - 1))
def test_a_torn_line_is_removed(tmp_path_factory, size):
    path = tmp_path_factory.mktemp("torn") / "answers"
    path.write_bytes(FIRST + SECOND[:size])
    with open_answer_file(path) as answers:
        assert (answers.has("a"), answers.has("b")) == (True, False)
        answers.write(SECOND)
    assert path.read_bytes() == FIRST + SECOND


@pytest.mark.parametrize(
    ("content", "number"),
    [
        (b"notes\n", 1),
        (b"notes", 1),
        (b'{"id": "a", "language": "python", "code": "1"}', 1),
        (FIRST + b"notes", 2),
        (b'{"id": "a", "language": "python", "code": "1"}\n', 1),
        (b'{"id": "a", "verdict": "accepted"}\n', 1),
        (b"[" * 100_000 + b"\n", 1),
        (b"[]\n", 1),
    ],
)
def test_another_file_stays_as_it_is(tmp_path, content, number):
    path = tmp_path / "notes"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused, open_answer_file(path):
        pass
    assert str(refused.value) == (
        f"{path}: line {number} is no answer of `paddock batch`, so nothing was written; name another file with --output"
    )
    assert path.read_bytes() == content


TORN = FIRST[:12] + b"\n"
NULS = b"\0" * 4096


@pytest.mark.parametrize(
    ("content", "lines", "kept", "aside"),
    [
        (FIRST + NULS, (2,), FIRST, NULS),
        (FIRST + TORN + SECOND, (2,), FIRST + SECOND, TORN),
        (
            TORN + FIRST + FIRST[:9] + SECOND + NULS + b"\n",
            (1, 3, 4),
            FIRST,
            TORN + FIRST[:9] + SECOND + NULS + b"\n",
        ),
        (FIRST + NULS + b'us": "ok"}\n' + SECOND, (2,), FIRST + SECOND, NULS + b'us": "ok"}\n'),
        (NULS, (1,), b"", NULS),
        (FIRST + TORN + SECOND[:9], (2,), FIRST, TORN),
    ],
)
def test_damaged_lines_are_moved_and_their_programs_run_again(tmp_path, content, lines, kept, aside):
    path = tmp_path / "answers"
    path.write_bytes(content)
    with open_answer_file(path) as answers:
        assert (answers.damaged, answers.kept) == (lines, kept.count(b"\n"))
        assert [answers.has(name) for name in "ab"] == [FIRST in kept, SECOND in kept]
        answers.write(SECOND)
    assert path.read_bytes() == kept + SECOND
    assert answers.aside.read_bytes() == aside
    with open_answer_file(path) as answers:
        assert answers.damaged == ()


def test_another_file_stays_as_it_is_also_if_it_has_damaged_lines(tmp_path):
    path = tmp_path / "notes"
    content = FIRST + TORN + b"notes\n"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match="line 3 is no answer"), open_answer_file(path):
        pass
    assert (path.read_bytes(), [*tmp_path.iterdir()]) == (content, [path])


def test_two_batches_do_not_share_a_file(tmp_path):
    path = tmp_path / "answers"
    with open_answer_file(path), pytest.raises(ConfigurationError) as refused, open_answer_file(path):
        pass
    assert str(refused.value) == f"{path}: another `paddock batch` writes it; wait for its end"


def test_a_pipe_or_a_directory_is_no_file_of_answers(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("pipe", "is not a regular file; name another one with --output"),
        (".", "cannot be written: Is a directory"),
        ("no/such", "cannot be written: No such file or directory"),
    ):
        with pytest.raises(ConfigurationError) as refused, open_answer_file(tmp_path / name):
            pass
        assert str(refused.value) == f"{tmp_path / name}: {why}"


def test_a_line_is_json_whatever_it_holds():
    assert json.loads(write_line({"id": "\ud800\n"})) == {"id": "\ud800\n"}
