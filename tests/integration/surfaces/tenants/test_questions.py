"""Questions of a server's users: who sees them, who may answer, and what goes on meanwhile."""

import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result
from tests.support.tenants import TenantsRunner, make_settings

from paddock.gate.question_directory import QuestionDirectory
from paddock.model.approval import Question
from paddock.model.errors import ApprovalError
from paddock.model.request import RuntimeRun
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import RuntimeSettings
from paddock.surfaces.cli.root import command
from paddock.surfaces.tenants import NotPermitted, Tenant

if TYPE_CHECKING:
    import asyncio

ASKS = PolicySettings(rule=(Rule(effect="ask", runtime="*", access="workspace-write", reason="it writes"),))
WRITES = RuntimeRun(
    runtime="python", code="open('made', 'w').write('x'); print('ran')", access="workspace-write"
)
COUNT = RuntimeRun(runtime="python", code="print(6 * 7)")
NOT_OWN = (
    "users cannot answer their own questions; another user with the right `approve` can, or a person at a terminal of "
    "the server: paddock approve {id}"
)
NO_RIGHT = (
    "this token may not answer questions; the owner of the server can make one that may: "
    "paddock serve token new NAME --approve"
)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[TenantsRunner]:
    runtimes = RuntimeSettings(access="workspace-write")
    settings = make_settings(tmp_path, policy=ASKS, runtimes=runtimes, serve={"max_jobs": 1})
    with TenantsRunner(tmp_path, settings) as opened:
        yield opened


def ask(runner: TenantsRunner, tenant: Tenant) -> "tuple[asyncio.Task[Any], Question]":
    """Send a request that a person must allow, and return its question."""
    known = {each.question.id for each in runner.list_questions_of(tenant)}
    request = runner.make_request(WRITES)
    task = runner.begin(tenant.execute(request))

    def list_new_questions() -> list[Question]:
        return [each.question for each in runner.list_questions_of(tenant) if each.question.id not in known]

    runner.wait_until(lambda: task.done() or bool(list_new_questions()))
    return task, list_new_questions()[0]


def test_another_user_with_the_right_allows_it(runner: TenantsRunner) -> None:
    alice, rita = runner.enter("alice"), runner.enter("rita", approve=True)
    task, question = ask(runner, alice)
    assert (question.actor, question.surface, question.reasons) == ("token:alice", "http", ("it writes",))
    assert [each.question for each in runner.run(rita.list_questions())] == [question]
    assert runner.run(rita.answer_question(question.id, "once")) == question
    outcome = runner.run(task)
    assert (outcome.status, outcome.program.stdout.text) == ("ok", "ran\n")
    assert (runner.workspace / "made").read_text() == "x"
    records = runner.tenants._audit.query(event="answered")
    assert [(each.fields["answer"], each.fields["answered_by"]) for each in records] == [
        ("once", "token:rita")
    ]
    assert runner.run(rita.list_questions()) == []


def test_a_refusal_of_another_user_holds(runner: TenantsRunner) -> None:
    task, question = ask(runner, runner.enter("alice"))
    runner.run(runner.enter("rita", approve=True).answer_question(question.id, "denied"))
    outcome = runner.run(task)
    assert (outcome.status, outcome.error.message) == ("denied", "it writes: denied by token:rita")
    assert not (runner.workspace / "made").exists()


def test_nobody_answers_their_own_question(runner: TenantsRunner) -> None:
    """Neither with the same token, nor with another one of the same user, and not past the tenant."""
    rita, second = runner.enter("rita", approve=True), runner.enter("rita-phone", actor="rita", approve=True)
    task, question = ask(runner, rita)
    for own in (rita, second):
        assert runner.run(own.list_questions()) == []
        for verdict in ("once", "run", "denied"):
            with pytest.raises(NotPermitted) as refused:
                runner.run(own.answer_question(question.id, verdict))
            assert str(refused.value) == NOT_OWN.format(id=question.id)
    inbox = QuestionDirectory(rita.settings.approvals.directory)
    with pytest.raises(ApprovalError) as refused_by_inbox:
        inbox.give_answer(inbox.find_question(question.id), "once", rita.actor)
    assert str(refused_by_inbox.value) == (
        f"{question.id} is a question of token:rita, which cannot answer its own questions"
    )
    assert [each.question.id for each in runner.run(rita.list_own_questions())] == [question.id]
    task.cancel()
    runner.wait_until(task.done)
    assert runner.run(rita.list_own_questions()) == []


def test_without_the_right_there_is_nothing_to_see_or_answer(runner: TenantsRunner) -> None:
    alice, bob = runner.enter("alice"), runner.enter("bob")
    task, question = ask(runner, alice)
    for tenant in (alice, bob):
        with pytest.raises(NotPermitted) as unseen:
            runner.run(tenant.list_questions())
        with pytest.raises(NotPermitted) as unanswered:
            runner.run(tenant.answer_question(question.id, "once"))
        assert (str(unseen.value), str(unanswered.value)) == (NO_RIGHT, NO_RIGHT)
    assert runner.run(bob.list_own_questions()) == []
    task.cancel()
    runner.wait_until(task.done)


@pytest.mark.parametrize("id_", ["", "../x", "01JD3W0ZV6N4YQ1R2X5T7B8C9D", "\0", "x" * 5000])
def test_an_id_that_does_not_wait_is_no_question(runner: TenantsRunner, id_: str) -> None:
    task, _ = ask(runner, runner.enter("alice"))
    with pytest.raises(ApprovalError):
        runner.run(runner.enter("rita", approve=True).answer_question(id_, "once"))
    assert not task.done()
    task.cancel()
    runner.wait_until(task.done)


def test_the_first_answer_counts(runner: TenantsRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    task, question = ask(runner, runner.enter("alice"))
    with monkeypatch.context() as unread:
        # A question ends when its answer is read; the second answer comes before.
        unread.setattr(QuestionDirectory, "_take_answer", lambda *_: None)
        runner.run(runner.enter("rita", approve=True).answer_question(question.id, "denied"))
        with pytest.raises(ApprovalError) as late:
            runner.run(runner.enter("rob", approve=True).answer_question(question.id, "once"))
    assert str(late.value) == f"{question.id} already has an answer; the first answer counts"
    assert runner.run(task).status == "denied"


def test_a_request_that_waits_for_a_person_takes_no_slot(runner: TenantsRunner) -> None:
    """The server has one slot; the request that waits gave it back, and takes it again when it continues."""
    alice, bob, rita = runner.enter("alice"), runner.enter("bob"), runner.enter("rita", approve=True)
    task, question = ask(runner, alice)
    assert runner.tenants.running == 0
    assert runner.execute(bob, COUNT).status == "ok"

    holding = AsyncExitStack()
    runner.run(holding.enter_async_context(bob.admit()))
    runner.run(rita.answer_question(question.id, "once"))
    runner.wait_until(lambda: alice.waiting == 1)
    assert (task.done(), runner.tenants.running) == (False, 1)
    runner.run(holding.aclose())
    assert runner.run(task).status == "ok"
    assert runner.tenants.running == 0


def approve(runner: TenantsRunner, monkeypatch: pytest.MonkeyPatch, *args: str) -> Result:
    """Run `paddock approve` on the machine of the server."""
    for name, path in (
        ("SERVE_DIRECTORY", runner.settings.serve.directory),
        ("APPROVALS_DIRECTORY", runner.settings.serve.directory.parent / "approvals"),
    ):
        monkeypatch.setenv(f"PADDOCK_{name}", str(path))
    arguments = ["approve", "--workspace", str(runner.workspace), *args]
    return CliRunner().invoke(command, arguments, prog_name="paddock")


def test_a_person_at_a_terminal_of_the_server_sees_and_answers_them(
    runner: TenantsRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, question = ask(runner, runner.enter("alice"))
    listed = json.loads(approve(runner, monkeypatch, "--json").stdout)
    assert [(each["id"], each["actor"]) for each in listed] == [(question.id, "token:alice")]
    without_terminal = approve(runner, monkeypatch, question.id)
    assert (without_terminal.exit_code, without_terminal.stderr) == (
        1,
        "only a person can approve: run this on a terminal; `--deny` works without one\n",
    )
    assert not task.done()
    denied = approve(runner, monkeypatch, question.id, "--deny")
    assert denied.exit_code == 0, denied.output
    assert runner.run(task).status == "denied"
    gone = approve(runner, monkeypatch, question.id, "--deny")
    assert (gone.exit_code, gone.stderr) == (
        1,
        f"{question.id} does not wait for an answer; `paddock approve` lists the waiting questions\n",
    )


def test_questions_of_clients_on_the_machine_are_not_for_users_of_a_server(
    runner: TenantsRunner, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    task, question = ask(runner, runner.enter("alice"))
    local = QuestionDirectory(tmp_path / "approvals")
    asked = question.model_copy(update={"actor": "claude"})
    with local.keep_question(asked):
        rita = runner.enter("rita", approve=True)
        assert [each.question.actor for each in runner.run(rita.list_questions())] == ["token:alice"]
        listed = json.loads(approve(runner, monkeypatch, "--json").stdout)
        assert sorted(each["actor"] for each in listed) == ["claude", "token:alice"]
    task.cancel()
    runner.wait_until(task.done)
