"""Programs in languages: what a person who is asked sees of them, and what the record has."""

from pathlib import Path

from paddock.gate.work.runtime import RuntimePrograms
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.work_files import InputFile

WORK = RuntimeRun(
    runtime="python",
    code="1",
    files=(InputFile(path="a.csv", data=b"x" * 5000), InputFile(path="b.csv", workspace="in/b.csv")),
    outputs=("*.png",),
    env={"SALT": "pepper", "LEVEL": "3"},
)


def test_a_person_sees_files_patterns_and_names_of_variables() -> None:
    request = ExecutionRequest(workspace=Path("/w"), work=WORK)
    assert RuntimePrograms().describe(request, WORK) == (
        "run a python program (workspace read-only, network none)",
        {
            "code": "1",
            "cwd": ".",
            "files": [
                {"path": "a.csv", "bytes": 5000, "begins": "x" * 2048},
                {"path": "b.csv", "from": "in/b.csv"},
            ],
            "outputs": ["*.png"],
            "env": ["LEVEL", "SALT"],
        },
    )


def test_the_record_counts_files_and_has_no_values() -> None:
    facts = RuntimePrograms().list_facts(WORK, Decision(allowed=True))
    assert {name: facts[name] for name in ("bytes_in", "file_count", "variables")} == {
        "bytes_in": 5001,
        "file_count": 2,
        "variables": "SALT LEVEL",
    }
    assert "pepper" not in repr(facts)
