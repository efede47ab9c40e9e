"""`paddock.changes`: a program accepts what another program changed in an overlay, and a person is asked."""

import pytest

from paddock.model.outcome import Status
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
    def open_it(rules=()):
        overlay = OverlaySettings(directory=desk.place / "changes")
        desk.open(rules=rules, runtimes=RuntimeSettings(access="overlay"), overlay=overlay)
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
            "Change set not found: changes-0123456789abcdef0123456789abcdef; "
            "it was deleted, or is older than overlay.keep_days",
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
