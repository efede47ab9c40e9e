"""`paddock.changes`: a program accepts what another program changed in an overlay, and a person is asked."""

import asyncio
import threading

import pytest

from paddock.gate.change_sets import ChangeSets
from paddock.model.approval import Answer
from paddock.model.outcome import Status
from paddock.model.request import ChangeSetRun, ExecutionRequest, GuestRun, SdkCall
from paddock.policy.settings.flow import FlowLabel, FlowRule, FlowSettings
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import OverlaySettings, RuntimeSettings

CHANGE = """
const run = await paddock.exec("shell", "echo more >> old.txt; echo new > new.txt", {access: "overlay"});
const {id} = run.changes;
"""
ALLOWED = tuple(
    Rule(changes=action, effect="allow", origin="user") for action in ("accept", "undo", "discard")
)


@pytest.fixture
def open_desk(desk):
    def open_it(rules=(), **settings):
        overlay = OverlaySettings(directory=desk.place / "changes")
        desk.open(rules=rules, runtimes=RuntimeSettings(access="overlay"), overlay=overlay, **settings)
        (desk.workspace / "old.txt").write_text("old\n")
        return desk

    return open_it


def test_changes_are_accepted_undone_and_discarded_where_rules_allow_it(open_desk):
    desk = open_desk(ALLOWED)
    outcome = desk.run(
        f"""{CHANGE}
        const done = [
          await paddock.changes.accept(id, {{paths: ["new.txt"]}}),
          await paddock.changes.accept(id),
          await paddock.changes.undo(id, {{paths: ["old.txt"]}}),
        ];
        await paddock.changes.discard(id);
        return done.map(({{paths}}) => paths);
        """
    )
    assert outcome.value == [["new.txt"], ["old.txt"], ["old.txt"]]
    assert (desk.workspace / "new.txt").read_text() == "new\n"
    assert (desk.workspace / "old.txt").read_text() == "old\n"
    ended = [each.fields for each in desk.records() if each.event == "finished" and "action" in each.fields]
    assert [each["action"] for each in ended] == ["accept", "accept", "undo", "discard"]


def test_a_conflict_is_an_error_and_is_merged_if_the_program_wants_that(open_desk):
    desk = open_desk(ALLOWED)
    (desk.workspace / "old.txt").write_text("1\n2\n3\n4\n")
    outcome = desk.run(
        """
        const edit = async (code) => (await paddock.exec("shell", code, {access: "overlay"})).changes.id;
        const [first, second] = [await edit("sed -i s/1/one/ old.txt"), await edit("sed -i s/4/four/ old.txt")];
        await paddock.changes.accept(first);
        const refused = await paddock.changes.accept(second).catch((error) => error.message);
        await paddock.changes.accept(second, {merge: true});
        return refused;
        """
    )
    assert (
        outcome.value == "Nothing was written, because of 1 conflict: old.txt: it was changed since the run"
    )
    assert (desk.workspace / "old.txt").read_text() == "one\n2\n3\nfour\n"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            "accept()",
            "paddock.changes.accept(id, options), for example paddock.changes.accept(run.changes.id)",
        ),
        (
            "discard('x', {})",
            "paddock.changes.discard(id), for example paddock.changes.discard(run.changes.id)",
        ),
        ("undo('x', {merge: true})", "paddock.changes.undo: unknown option 'merge'; there is `paths`"),
        (
            "accept('x', {path: ['a']})",
            "paddock.changes.accept: unknown option 'path'; did you mean `paths`?",
        ),
        (
            "accept('x')",
            "paddock.changes.accept: id: expected the whole ID of a change set, "
            "`changes-` with 32 hexadecimal digits",
        ),
        (
            "accept('')",
            "paddock.changes.accept: id: is empty; a run that changed nothing has no change set",
        ),
        (
            "accept('changes-0123456789abcdef0123456789abcdef')",
            "Change set not found: 'changes-0123456789abcdef0123456789abcdef'; "
            "`paddock changes list` shows those of a workspace",
        ),
    ],
)
def test_misuse_is_explained(open_desk, call, message):
    outcome = open_desk(ALLOWED).run(f"await paddock.changes.{call}")
    assert (outcome.status, outcome.error.message) == (Status.FAILED, message)


def test_programs_of_agents_may_accept_and_not_discard(open_desk):
    outcome = open_desk(ALLOWED).run(
        f"{CHANGE} await paddock.changes.accept(id); await paddock.changes.discard(id)", profile="execute"
    )
    assert outcome.error.message == (
        "paddock.changes.discard is not granted to programs of the profile execute; "
        "name it in `execute` under [sdk] in paddock.toml"
    )


def test_nothing_is_accepted_without_a_person(open_desk):
    desk = open_desk()
    outcome = desk.run(f"{CHANGE} await paddock.changes.accept(id)", profile="execute")
    assert (outcome.status, outcome.error.name) == (Status.FAILED, "ApprovalUnavailable")
    assert not (desk.workspace / "new.txt").exists()


def ask_person(desk, source, read=lambda question: question.details, *, meanwhile=None):
    """Run an agent's program for a person who says yes; return the outcome and what they `read` of the questions.

    `meanwhile` is done while the person reads a question about undoing.
    """
    shown = []

    async def say_yes(question):
        shown.append(read(question))
        if meanwhile is not None and question.what.startswith("undo"):
            await desk.session.gate.execute(ExecutionRequest(workspace=desk.workspace, work=meanwhile))
        return Answer(verdict="once", by="ann")

    work = GuestRun(source=source, profile="execute", check="off")
    return desk.execute(ExecutionRequest(workspace=desk.workspace, work=work), asker=say_yes), shown


def test_what_was_accepted_while_a_person_read_the_question_is_not_undone(open_desk):
    desk = open_desk()
    set_id = desk.run(f"{CHANGE} return id").value
    outcome, [_, shown] = ask_person(
        desk,
        f"""
        await paddock.changes.accept("{set_id}", {{paths: ["new.txt"]}});
        await paddock.changes.undo("{set_id}");
        """,
        meanwhile=ChangeSetRun(action="accept", id=set_id, paths=("old.txt",)),
    )
    assert '"1 of 2 paths: 1 added"' in shown
    assert outcome.error.message == (
        "Nothing was changed: by now this would do something else than the person was shown; call it again"
    )
    assert (desk.workspace / "old.txt").read_text() == "old\nmore\n"


def label_flows(**sink):
    """Return a rule that asks before what programs read leaves by `sink`."""
    labels = FlowLabel(runtime="*", source="private"), FlowLabel(**sink, sink="external")
    return FlowSettings(label=labels, rule=(FlowRule(source=["private"], sink="external", effect="ask"),))


def test_a_flow_rule_that_asks_shows_the_difference(open_desk):
    desk = open_desk(ALLOWED, flow=label_flows(method="changes.accept"))
    outcome, [shown] = ask_person(desk, f"{CHANGE} await paddock.changes.accept(id)")
    assert outcome.ok
    assert '"2 of 2 paths: 1 added, 1 modified"' in shown


def test_a_question_shows_what_a_call_has_from_the_difference_of_changes(open_desk):
    desk = open_desk(ALLOWED, flow=label_flows(method="cir.capture"))
    source = """
    const run = await paddock.exec("shell", "echo account 1234567890 > new.txt", {access: "overlay"});
    paddock.cir.capture(run.changes.diff.match(/account [0-9]+/)[0]);
    """
    outcome, reasons = ask_person(desk, source, lambda question: "; ".join(question.reasons))
    assert outcome.ok, outcome.error
    assert "arguments.arguments[0] has" in reasons[0]


def test_a_program_that_reads_the_paths_of_a_change_set_has_its_labels(open_desk):
    desk = open_desk(ALLOWED, flow=label_flows(method="notify.send"))
    set_id = desk.run(f"{CHANGE} return id").value
    assert desk.run(f"await paddock.changes.accept('{set_id}')").labels == ("private",)
    assert desk.run(f"await paddock.changes.undo('{set_id}')").labels == ("private",)
    assert desk.run(f"await paddock.changes.discard('{set_id}')").labels == ()


def test_the_record_has_what_was_accepted_although_the_caller_was_cancelled(open_desk, monkeypatch):
    desk = open_desk()
    set_id = desk.run(f"{CHANGE} return id").value
    carry_out, may_write = ChangeSets._carry_out, threading.Event()

    async def cancel_while_it_writes():
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def write(*args):
            loop.call_soon_threadsafe(begun.set)
            assert may_write.wait(60)
            return carry_out(*args)

        monkeypatch.setattr(ChangeSets, "_carry_out", write)
        request = ExecutionRequest(workspace=desk.workspace, work=ChangeSetRun(action="accept", id=set_id))
        running = asyncio.create_task(desk.session.gate.execute(request))
        await begun.wait()
        running.cancel()
        loop.call_soon(loop.call_soon, may_write.set)  # after the task has seen it
        await asyncio.wait({running})
        return running.cancelled()

    assert desk.runner.run(cancel_while_it_writes())
    assert (desk.workspace / "new.txt").exists()
    record = desk.records()[-1]
    assert record.event == "finished"
    assert (record.fields["status"], record.fields["paths"]) == ("ok", ("new.txt", "old.txt"))


@pytest.mark.parametrize("action", ["accept", "undo", "discard"])
def test_a_change_set_of_another_workspace_is_unknown_and_its_path_too(open_desk, action):
    desk = open_desk(ALLOWED)
    set_id = desk.run(f"{CHANGE} return id").value
    other = desk.place / "other"
    other.mkdir()
    work = GuestRun(source=f"await paddock.changes.{action}('{set_id}')", profile="script")
    outcome = desk.execute(ExecutionRequest(workspace=other, work=work))
    assert outcome.error.message == (
        f"Change set not found in this workspace: '{set_id}'; `paddock changes list` shows those of a workspace"
    )


def test_a_program_sees_no_path_of_the_store_in_an_error(open_desk):
    desk = open_desk(ALLOWED)
    set_id = desk.run(f"{CHANGE} return id").value
    (desk.place / "changes").chmod(0o777)
    outcome = desk.run(f"await paddock.changes.accept('{set_id}')")
    assert outcome.status is Status.FAILED
    assert str(desk.place) not in outcome.error.message
    lost = desk.run(CHANGE)
    assert "its changes are lost" in lost.error.message
    assert str(desk.place) not in lost.error.message


def test_what_was_stopped_before_it_began_does_nothing(open_desk):
    desk = open_desk()
    set_id = desk.run(f"{CHANGE} return id").value

    async def run(work):
        stop = asyncio.Event()
        stop.set()
        return await desk.session.gate.execute(
            ExecutionRequest(workspace=desk.workspace, work=work), stop=stop
        )

    capture = SdkCall(method="cir.capture", arguments=("a signal",))
    for work in (ChangeSetRun(action="accept", id=set_id), capture, GuestRun(source="return 1")):
        outcome = desk.runner.run(run(work))
        assert (outcome.status, outcome.error.name) == (Status.CANCELLED, "Cancelled")
        assert (desk.records()[-1].event, desk.records()[-1].fields["status"]) == ("decided", "cancelled")
    assert not (desk.workspace / "new.txt").exists()


def test_a_program_accepts_what_a_script_tool_changed(open_desk):
    desk = open_desk(ALLOWED, tools={"access": "overlay"})
    folder = desk.workspace / ".paddock/tools/makes"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text("id: makes\nname: makes\nscript: script.sh\nworkspace: overlay\n")
    (folder / "script.sh").write_text('echo new > "$PADDOCK_WORKSPACE/new.txt"\n')
    (folder / "schema.json").write_text('{"type": "object"}')
    (folder / "description.md").write_text("Makes a file.")
    outcome = desk.run(
        "const {changes} = await paddock.tool('makes', {}); return await paddock.changes.accept(changes.id)"
    )
    assert outcome.error is None
    assert outcome.value["paths"] == ["new.txt"]
    assert (desk.workspace / "new.txt").read_text() == "new\n"
