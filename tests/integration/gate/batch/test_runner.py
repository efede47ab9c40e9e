"""The judge on a session, as servers use it: without the library, with the record of each run."""

from tests.support.session import SessionRunner

from paddock import Case, CaseVerdict, Checker, Program, Settings
from paddock.gate.batch.runner import BatchOrigin, BatchRunner
from paddock.policy.settings.schema import AuditSettings, RuntimeSettings


def test_a_session_judges_and_records_each_test(tmp_path, workspace):
    runtimes = RuntimeSettings(timeout_ms=120_000)
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"), runtimes=runtimes)
    program = Program(
        id="task-1",
        language="python",
        code="print(input())",
        tests=[Case(stdin="1", expect="1"), Case(stdin="2", expect="secret-answer")],
    )
    checked = program.replace(
        id="task-2", tests=program.tests[:1], checker=Checker(language="python", code="")
    )
    with SessionRunner(workspace) as opened:
        session = opened.start(settings)
        runner = BatchRunner(session.gate.execute, BatchOrigin(workspace, "ada", "http"), runtimes)
        first = opened.runner.run(runner.run(program))
        second = opened.runner.run(runner.run(checked))
        records = [dict(record.fields) for record in session.gate.audit.query(event="finished")]
    assert [case.verdict for case in first.tests] == [CaseVerdict.ACCEPTED, CaseVerdict.WRONG_ANSWER]
    assert (first.id, second.id, second.verdict) == ("task-1", "task-2", CaseVerdict.ACCEPTED)
    told = [(each["actor"], each["surface"], each["status"]) for each in records]
    assert told == [("ada", "http", "ok")] * 4
    written = b"".join(path.read_bytes() for path in (tmp_path / "audit").rglob("*") if path.is_file())
    assert b"secret-answer" not in written
    assert {case.outcome.id.encode() in written for case in first.tests} == {True}


def test_a_program_whose_language_is_denied_is_not_judged(tmp_path, workspace):
    runtimes = RuntimeSettings(allowed=("node",))
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"), runtimes=runtimes)
    with SessionRunner(workspace) as opened:
        session = opened.start(settings)
        runner = BatchRunner(session.gate.execute, BatchOrigin(workspace, "ada", "http"), runtimes)
        result = opened.runner.run(
            runner.run(Program(language="python", code="1", tests=[Case(expect="1")] * 2))
        )
    assert [(case.verdict.value, case.message) for case in result.tests] == [
        ("internal", 'Runtime "python" is not in the allowed runtimes list: [node]')
    ] * 2
    assert result.outcome.status.value == "denied"
