"""`paddock approve` lists the newest questions, and says how many older ones wait."""

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paddock.gate.question_directory import QuestionDirectory
from paddock.model.approval import Question
from paddock.model.ids import new_id
from paddock.surfaces.cli.root import command


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QuestionDirectory:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("PADDOCK_APPROVALS_DIRECTORY", str(tmp_path / "approvals"))
    return QuestionDirectory(tmp_path / "approvals")


def approve(*args: str) -> Result:
    return CliRunner().invoke(command, ["approve", *args], prog_name="paddock")


def question(number: int) -> Question:
    return Question(
        id=new_id(1_800_000_000 + number),
        request=new_id(),
        run=new_id(),
        what=f"call {number}",
        details="{}",
        actor="claude",
        surface="mcp",
        workspace="/w",
        rule="",
        reasons=("it writes",),
        sha256="a" * 64,
        wait_ms=600_000,
        scopes=("once",),
    )


def test_the_newest_are_listed(inbox: QuestionDirectory) -> None:
    asked = [question(number) for number in range(53)]
    with ExitStack() as stack:
        for each in asked:
            stack.enter_context(inbox.keep_question(each))
        for options, count in (((), 50), (("--limit", "2"), 2), (("--all",), 53)):
            listed = approve(*options)
            assert [line.split("\t")[0] for line in listed.stdout.splitlines()] == [
                each.id for each in asked[-count:]
            ]
            assert listed.stderr == (
                f"{53 - count} older entries not shown; --limit 53 shows them\n" if count < 53 else ""
            )
        as_json = approve("--json", "--limit", "1")
    assert [each["id"] for each in json.loads(as_json.stdout)] == [asked[-1].id]


@pytest.mark.parametrize("options", [("--all",), ("--limit", "3")])
def test_a_limit_goes_with_the_list_alone(inbox: QuestionDirectory, options: tuple[str, ...]) -> None:
    wrong = approve(new_id(), *options)
    assert wrong.exit_code == 2
    assert "--all and --limit apply to the list, not to an ID." in wrong.stderr
