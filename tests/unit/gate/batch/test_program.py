"""Programs of a batch: valid by construction, and judged only where they cannot find the answers."""

import pytest
from pydantic import ValidationError

from paddock import Case, CaseVerdict, Checker, Program
from paddock.model.texts import explain


def faults(**fields):
    with pytest.raises(ValidationError) as problem:
        Program(**{"language": "python", "code": "1", **fields})
    return explain(problem.value, limit=None)


def test_a_program_has_an_id_of_its_own():
    one, two = Program(language="python", code="1"), Program(language="python", code="1")
    assert one.id != two.id
    assert Program(language="python", code="1", id=7).id == "7"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ""}, "id: String should have at least 1 character"),
        ({"id": True}, "id: Input should be a valid string"),
        ({"timeout_ms": 1}, "timeout_ms: Input should be greater than or equal to 100"),
        ({"files": {"../a": b""}}, "path: '../a' leads out of the working directory"),
        ({"stdin": {"base64": "?"}}, "stdin: `base64` is not valid base64 (RFC 4648)"),
        ({"network": "hosts"}, "`network` is none, loopback or full; a batch has no lists of hosts"),
        (
            {"checker": Checker(language="python", code="1")},
            "a `checker` judges tests: give `tests`",
        ),
        (
            {"tests": [Case(stdin="1")]},
            "each test needs `expect`, the output to compare with, unless there is a `checker`",
        ),
        (
            {
                "tests": [Case(expect="1")],
                "checker": Checker(language="python", code=""),
                "output_bytes": 32 * 1024 * 1024 + 1,
            },
            "a checker takes at most 33554432 bytes of output; give a lower `output_bytes`",
        ),
        (
            {"tests": [Case(expect="1")], "stdin": "2"},
            "a program with tests gets their `stdin`; leave its own out",
        ),
    ],
)
def test_what_cannot_run_is_refused(fields, message):
    assert faults(**fields) == [message]


@pytest.mark.parametrize("fields", [{"access": "read-only"}, {"network": "loopback"}, {"network": "full"}])
def test_a_judged_program_reaches_neither_workspace_nor_network(fields):
    assert faults(tests=[Case(expect="1")], **fields) == [
        "a program with tests has neither access to the workspace nor to the network, because the expected output may "
        "be there; leave `access` and `network` out"
    ]


def test_a_program_becomes_a_request_without_access():
    program = Program(
        language="python",
        code="1",
        stdin="é",
        files={"a": {"base64": "aGk="}},
        timeout_ms=500,
        output_bytes=10,
    )
    work = program.make_work(program.stdin)
    assert (work.stdin, work.access, work.network) == ("é".encode(), "none", "none")
    assert [(file.path, file.data) for file in work.files] == [("a", b"hi")]
    limits = program.make_limits().model_dump(exclude_none=True)
    assert limits == {"timeout_ms": 500, "output_bytes": 10}


def test_outputs_are_for_programs_that_are_not_judged():
    program = Program(language="python", code="1", outputs=["*.csv"])
    assert program.make_work(None).output.persist
    assert not Program(language="python", code="1").make_work(None).output.persist
    assert faults(outputs=["*.csv"], tests=[Case(expect="1")]) == [
        "a program with tests is judged by its standard output; leave `outputs` out"
    ]


def test_three_verdicts_say_nothing_about_the_program():
    unknown = [verdict.value for verdict in CaseVerdict if not verdict.is_known]
    assert unknown == ["internal", "lost", "unavailable"]
