"""Questions between processes: who may answer, what an answer is good for, and what hostile files can do."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paddock.foundation.own_files import take_repairs
from paddock.gate.question_directory import MAX_FILE_BYTES, QuestionDirectory
from paddock.model.approval import Answer, Question
from paddock.model.errors import ApprovalError
from paddock.model.ids import new_id

NOBODY = 65534
SOME_ID = "01JD3W0ZV6N4YQ1R2X5T7B8C9D"
ATTACKER = """
import os, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
directory, question = {directory!r}, {question!r}
def answer(): open(directory + "/" + question + ".answer", "w")
def link(): os.symlink("/etc/passwd", directory + "/" + question + ".answer")
attempts = [lambda: os.listdir(directory), lambda: open(directory + "/" + question + ".question"), answer, link]
attempts += [lambda: os.rename(directory, directory + "2"), lambda: os.chmod(directory, 0o777)]
for attempt in attempts:
    try:
        attempt()
    except PermissionError:
        continue
    sys.exit("it could")
"""


def question(**fields: Any) -> Question:
    given: dict[str, Any] = {
        "id": new_id(),
        "request": "r",
        "run": "r",
        "what": "call odd/echo",
        "details": "{}",
    }
    given |= {"reasons": ("why",), "sha256": "a" * 64, "scopes": ("once", "run"), "wait_ms": 60_000}
    return Question(**given | fields)


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory that any user could reach, were it not its owner's alone."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "approvals"


@pytest.fixture
def inbox(directory: Path) -> QuestionDirectory:
    return QuestionDirectory(directory)


def wait_for_answer(inbox: QuestionDirectory, asked: Question, act: Callable[[], object]) -> Answer:
    """Return the answer to a question that is answered by `act` while it waits."""

    async def main() -> Answer:
        with inbox.keep_question(asked):
            act()
            return await inbox.wait_for_answer(asked)

    return asyncio.run(main())


def test_an_answer_is_that_of_whoever_gave_it(inbox: QuestionDirectory, directory: Path) -> None:
    asked = question()
    answer = wait_for_answer(
        inbox, asked, lambda: inbox.give_answer(inbox.find_question(asked.id), "run", "ada\x1b[2J")
    )
    assert answer == Answer(verdict="run", by="ada\\u001b[2J")
    assert [*directory.iterdir()] == []


def test_it_is_its_owners_alone(inbox: QuestionDirectory, directory: Path) -> None:
    asked = question()
    with inbox.keep_question(asked):
        file = directory / f"{asked.id}.question"
        assert [stat.S_IMODE(path.stat().st_mode) for path in (directory, file)] == [0o700, 0o600]
        if os.geteuid() == 0:
            code = ATTACKER.format(nobody=NOBODY, directory=str(directory), question=asked.id)
            own = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
            subprocess.run([*own, "/usr/bin/env", "python3", "-I", "-c", code], check=True, timeout=60)
        assert [each.question for each in inbox.list_waiting()] == [asked]


def test_a_directory_of_somebody_else_is_not_used(directory: Path) -> None:
    if os.geteuid() == 0:
        directory.mkdir(mode=0o700)
        os.chown(directory, NOBODY, NOBODY)
    else:
        directory = Path("/")
    with (
        pytest.raises(ApprovalError, match="it belongs to user"),
        QuestionDirectory(directory).keep_question(question()),
    ):
        pytest.fail("kept")


@pytest.mark.parametrize("mode", [0o701, 0o740, 0o600])
def test_a_directory_that_others_may_look_into_is_closed_to_them(
    inbox: QuestionDirectory, directory: Path, mode: int
) -> None:
    directory.mkdir()
    directory.chmod(mode)
    assert inbox.list_waiting() == []
    assert directory.stat().st_mode & 0o777 == 0o700
    assert take_repairs() == [(str(directory), mode, 0o700)]


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_directory_that_others_may_write_to_is_not_used(
    inbox: QuestionDirectory, directory: Path, mode: int
) -> None:
    directory.mkdir()
    directory.chmod(mode)
    told = (
        f"{directory}: cannot be opened: it can be written to by others (mode {mode:04o}), who may have put files there; "
        f"check what it contains, then run: chmod 700 {directory} (approvals.directory)"
    )
    uses: list[Callable[[], object]] = [
        inbox.list_waiting,
        inbox.remove_abandoned,
        lambda: inbox.find_question(new_id()),
    ]
    for use in uses:
        with pytest.raises(ApprovalError) as caught:
            use()
        assert str(caught.value) == told


def test_a_link_is_no_directory(inbox: QuestionDirectory, directory: Path) -> None:
    (directory.parent / "other").mkdir(mode=0o700)
    directory.symlink_to(directory.parent / "other")
    with pytest.raises(ApprovalError, match="it is a link, not a directory"), inbox.keep_question(question()):
        pytest.fail("kept")


def good(asked: Question, **changes: Any) -> str:
    fields = {"question": asked.id, "sha256": asked.sha256, "verdict": "once", "by": "eve"}
    return json.dumps({**fields, "expires": time.time() + 60, **changes})


def test_a_whole_answer_is_one(inbox: QuestionDirectory, directory: Path) -> None:
    """What the hostile ones below are made of."""
    asked = question()
    file = directory / f"{asked.id}.answer"
    assert wait_for_answer(inbox, asked, lambda: write(file, good(asked))).verdict == "once"


def write(file: Path, text: str, mode: int = 0o600) -> None:
    file.write_text(text)
    file.chmod(mode)


@pytest.mark.parametrize(
    "changes",
    [
        {"question": SOME_ID},
        {"sha256": "b" * 64},
        {"expires": 1.0},
        {"verdict": "yes"},
        {"more": 1},
        {"by": 1},
    ],
)
def test_an_answer_to_something_else_is_none(
    inbox: QuestionDirectory, directory: Path, changes: dict[str, Any]
) -> None:
    asked = question()
    file = directory / f"{asked.id}.answer"
    with pytest.raises(ApprovalError, match=r"does not (belong to|contain)"):
        wait_for_answer(inbox, asked, lambda: write(file, good(asked, **changes)))
    assert [*directory.iterdir()] == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.one_of(st.binary(max_size=300), st.integers(0, 150)))
def test_a_torn_answer_is_none(inbox: QuestionDirectory, directory: Path, torn_off: bytes | int) -> None:
    asked = question()
    data = torn_off if isinstance(torn_off, bytes) else good(question())[:torn_off].encode()
    file = directory / f"{asked.id}.answer"

    def torn() -> None:
        file.write_bytes(data)
        file.chmod(0o600)

    with pytest.raises(ApprovalError, match="does not contain an answer"):
        wait_for_answer(inbox, asked, torn)


def odd_files(elsewhere: Path, text: str) -> dict[str, Callable[[Path], object]]:
    elsewhere.write_text(text)
    elsewhere.chmod(0o600)
    return {
        "link": lambda file: file.symlink_to(elsewhere),
        "directory": Path.mkdir,
        "fifo": os.mkfifo,
        "large": lambda file: write(file, text + " " * MAX_FILE_BYTES),
        "open to others": lambda file: write(file, text, 0o666),
    }


@pytest.mark.parametrize("kind", ["link", "directory", "fifo", "large", "open to others"])
def test_an_answer_is_a_file_of_ours(inbox: QuestionDirectory, directory: Path, kind: str) -> None:
    asked = question()
    make = odd_files(directory.parent / "elsewhere", good(asked))[kind]
    with pytest.raises(ApprovalError, match=r"is no file of ours|cannot be read"):
        wait_for_answer(inbox, asked, lambda: make(directory / f"{asked.id}.answer"))


@pytest.mark.parametrize("kind", ["link", "directory", "fifo", "large", "open to others"])
def test_so_is_a_question(inbox: QuestionDirectory, directory: Path, kind: str) -> None:
    with inbox.keep_question(question()) as _:
        id_ = new_id()
        text = json.dumps({"question": question(id=id_).model_dump(), "expires": time.time() + 60})
        odd_files(directory.parent / "elsewhere", text)[kind](directory / f"{id_}.question")
        with pytest.raises(ApprovalError, match=r"is no file of ours|cannot be read"):
            inbox.find_question(id_)
        assert len(inbox.list_waiting()) == 1


@pytest.mark.parametrize(
    "id_", ["", "../x", "/etc/passwd", "a\0b", f"../approvals/{SOME_ID}", SOME_ID + "\n", "٣" * 26]
)
def test_a_forged_id_reaches_no_file(inbox: QuestionDirectory, id_: str) -> None:
    with pytest.raises(ApprovalError, match="is not the id of a question"):
        inbox.find_question(id_)


def test_an_answer_is_read_once(inbox: QuestionDirectory, directory: Path) -> None:
    asked = question()
    kept: list[bytes] = []

    def act() -> None:
        inbox.give_answer(inbox.find_question(asked.id), "once", "ada")
        kept.append((directory / f"{asked.id}.answer").read_bytes())

    wait_for_answer(inbox, asked, act)
    again = question(sha256=asked.sha256)
    replayed = directory / f"{again.id}.answer"
    with pytest.raises(ApprovalError, match=f"^the answer does not belong to {again.id}"):
        wait_for_answer(inbox, again, lambda: write(replayed, kept[0].decode()))


def test_of_many_answers_the_first_counts(inbox: QuestionDirectory) -> None:
    asked = question()
    given: list[str] = []
    start = threading.Barrier(8)

    def give(name: str) -> None:
        waiting = inbox.find_question(asked.id)
        start.wait(60)
        try:
            inbox.give_answer(waiting, "denied" if name == "0" else "once", name)
        except ApprovalError as error:
            assert "the first answer counts" in str(error)  # noqa: PT017 - which of them it is, nobody knows
        else:
            given.append(name)

    def all_of_them() -> None:
        threads = [threading.Thread(target=give, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

    answer = wait_for_answer(inbox, asked, all_of_them)
    assert given == [answer.by]


def test_who_answers_too_late_is_told(inbox: QuestionDirectory, directory: Path) -> None:
    asked = question()
    with inbox.keep_question(asked):
        waiting = inbox.find_question(asked.id)
    with pytest.raises(ApprovalError, match="does not wait for an answer"):
        inbox.give_answer(waiting, "once", "ada")
    with inbox.keep_question(expired := question(wait_ms=1)):
        while inbox.list_waiting():
            pass
        with pytest.raises(ApprovalError, match="does not wait for an answer"):
            inbox.find_question(expired.id)
    assert [*directory.iterdir()] == []


def test_what_is_shown_is_spelled_out(inbox: QuestionDirectory) -> None:
    texts = {
        "what": "a\x1b[2J",
        "details": "b\u202e",
        "actor": "c\r\n",
        "workspace": "d\t",
        "reasons": ("e\0",),
    }
    with inbox.keep_question(asked := question(**texts)):
        shown = inbox.find_question(asked.id).question
    assert (shown.what, shown.details, shown.actor) == ("a\\u001b[2J", "b\\u202e", "c\\u000d\\u000a")
    assert (shown.workspace, shown.reasons) == ("d\\u0009", ("e\\u0000",))


def test_a_question_that_is_too_large_is_not_kept(inbox: QuestionDirectory, directory: Path) -> None:
    with (
        pytest.raises(ApprovalError, match="exceeds the limit"),
        inbox.keep_question(question(details="x" * MAX_FILE_BYTES)),
    ):
        pytest.fail("kept")
    assert [*directory.iterdir()] == []


def test_what_a_process_that_ended_left_is_swept(inbox: QuestionDirectory, directory: Path) -> None:
    """A question whose process was killed, its answer, and what was not finished; what waits stays."""
    dead = question()
    source = (
        "import os, signal, sys; from pathlib import Path; from paddock.gate.question_directory import QuestionDirectory; "
        "from paddock.model.approval import Question\n"
        "with QuestionDirectory(Path(sys.argv[1])).keep_question(Question.model_validate_json(sys.argv[2])):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", source, str(directory), dead.model_dump_json()], check=False, timeout=60
    )
    assert ended.returncode == -9
    assert len([*directory.iterdir()]) == 1
    with inbox.keep_question(alive := question()):
        assert [each.question.id for each in inbox.list_waiting()] == [alive.id]
        with pytest.raises(ApprovalError, match="does not wait for an answer"):
            inbox.find_question(dead.id)
        write(directory / f"{new_id()}.answer", good(dead))
        unfinished = directory / f".{new_id()}.question.0"
        write(unfinished, "")
        os.utime(unfinished, (1, 1))
        fresh = directory / f".{new_id()}.answer.0"
        write(fresh, "")
        write(directory / "mine.txt", "")
        inbox.remove_abandoned()
        left = {f"{alive.id}.question", "mine.txt", fresh.name}
        assert {path.name for path in directory.iterdir()} == left


def test_nothing_waits_where_nothing_was_asked(inbox: QuestionDirectory, directory: Path) -> None:
    inbox.remove_abandoned()
    assert (inbox.list_waiting(), directory.exists()) == ([], False)


def test_an_answered_question_is_not_listed_while_the_asker_has_not_read_the_answer(
    inbox: QuestionDirectory,
) -> None:
    first, second = question(), question()
    with inbox.keep_question(first), inbox.keep_question(second):
        inbox.give_answer(inbox.find_question(first.id), "once", "a person")
        assert [each.question.id for each in inbox.list_waiting()] == [second.id]
        assert asyncio.run(inbox.wait_for_answer(first)).verdict == "once"


def test_several_wait_side_by_side(inbox: QuestionDirectory) -> None:
    asked = [question() for _ in range(5)]

    async def main() -> list[Answer]:
        with ExitStack() as stack:
            for each in asked:
                stack.enter_context(inbox.keep_question(each))
            assert [each.question for each in inbox.list_waiting()] == sorted(asked, key=lambda each: each.id)
            for each in reversed(asked):
                inbox.give_answer(inbox.find_question(each.id), "once", each.id)
            return await asyncio.gather(*map(inbox.wait_for_answer, asked))

    assert [answer.by for answer in asyncio.run(main())] == [each.id for each in asked]
