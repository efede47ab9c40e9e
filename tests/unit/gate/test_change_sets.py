"""What a person is shown before changes are accepted: nothing that the caller chooses may hide what is written."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.change_sets import make_change_set, open_no_sink

from paddock.engines.changes.lock import lock_workspace
from paddock.gate.change_sets import ChangeSets, open_store
from paddock.gate.work import kind_of
from paddock.model.errors import ChangesError
from paddock.model.outcome import RawResult, Status
from paddock.model.request import ChangesAction, ChangeSetRun, ExecutionRequest
from paddock.policy.decisions.question_texts import format_details, hash_request
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import check_fields

HOOK = ".git/hooks/pre-commit"


class Place:
    """A workspace with a change set that has a hook, and many other files."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(overlay=OverlaySettings(directory=folder / "store"))
        self.workspace, changed = folder / "workspace", folder / "changed"
        (self.workspace / ".git/hooks").mkdir(parents=True)
        shutil.copytree(self.workspace, changed)
        (changed / HOOK).write_text("evil\n")
        (changed / "!first").write_text("".join(f'"{number}" \\\n' for number in range(1000)))
        for number in range(40):
            (changed / f"file{number}").write_text("x\n")
            (changed / f"link{number}{'-' * 30}").symlink_to("/etc")
        self.sets = ChangeSets(self.settings, str, open_no_sink)
        self.id = make_change_set(self.sets.store, self.workspace, changed)

    def work(self, action: ChangesAction, *paths: str) -> ChangeSetRun:
        return ChangeSetRun(action=action, id=self.id, paths=paths)

    def show(self, action: ChangesAction, *paths: str) -> tuple[str, ...]:
        return self.sets.preview(self.work(action, *paths), self.workspace)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_a_question_counts_what_is_written_and_lists_what_must_be_named(place: Place) -> None:
    assert place.show("accept")[:2] == ("41 of 82 paths: 41 added", "diff a/!first b/!first")
    assert place.show("accept", "file1", HOOK)[:4] == (
        f"2 of 82 paths: 2 added; named: file1, {HOOK}",
        f"protected: {HOOK}",
        f"diff a/{HOOK} b/{HOOK}",
        "protected: accepted only by name",
    )


def test_a_question_about_undo_says_which_lines_go(place: Place) -> None:
    asyncio.run(place.sets.carry_out(place.work("accept", "file1"), place.workspace))
    assert place.show("undo")[:3] == (
        "1 of 82 paths: 1 added",
        "undo removes the lines with + and restores those with -:",
        "diff a/file1 b/file1",
    )


def test_named_paths_and_a_long_difference_cannot_push_a_protected_path_out(place: Place) -> None:
    names = ("!first", *[f"{'./' * number}file{number % 40}" for number in range(500)])
    work = place.work("accept", *names[:250], HOOK, *names[250:])
    shown = work.model_copy(update={"shown": place.sets.preview(work, place.workspace)})
    request = ExecutionRequest(surface="http", workspace=place.workspace, work=shown)
    _, arguments = kind_of(request).describe(request, shown)
    details = format_details(arguments, OutgoingRedaction(place.settings.redaction, KnownSecrets()))
    lines = json.loads(details)["difference"]  # whole, because nothing was cut
    assert lines[0].startswith("42 of 82 paths: 42 added; named: !first, file0, ./file1, ")
    assert lines[1] == f"protected: {HOOK}"
    assert lines[-1] == f"... (more: paddock changes diff {place.id})"


def test_an_answer_holds_for_what_was_shown(place: Place) -> None:
    def hash_shown(shown: tuple[str, ...]) -> str:
        work = place.work("undo").model_copy(update={"shown": shown})
        request = ExecutionRequest(surface="web", workspace=place.workspace, work=work)
        return hash_request(request, kind_of(request).hash_fields(work))

    assert hash_shown(("1 of 2 paths",)) != hash_shown(("2 of 2 paths",))


def test_more_paths_that_must_be_named_than_a_question_can_show_are_refused(place: Place) -> None:
    names = [each.path for each in place.sets.find(place.id, place.workspace).change_set.changes]
    with pytest.raises(ChangesError) as caught:
        place.show("accept", *names)
    assert str(caught.value) == (
        "A question cannot show all paths that must be named (41); name fewer of them, or use the command line: "
        f"paddock changes accept {place.id}"
    )
    assert place.show("discard")[0] == "82 of 82 paths: 82 added"


def test_a_question_about_undoing_counts_what_was_accepted(place: Place) -> None:
    asyncio.run(place.sets.carry_out(place.work("accept", "file1", HOOK), place.workspace))
    assert place.show("undo")[:2] == ("2 of 82 paths: 2 added", f"protected: {HOOK}")
    assert open_store(place.settings.overlay).read_state(place.id).accepted == (HOOK, "file1")


class Later:
    """A change set, and settings that were changed after it was made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workspace, changed = folder / "workspace", folder / "changed"
        (self.workspace / "state").mkdir(parents=True)
        for name in ("plain.hush", "gone.hush", "Makefile", "state/log"):
            (self.workspace / name).write_text("OLD\n")
        shutil.copytree(self.workspace, changed)
        for name in ("plain.hush", "new.hush", "Makefile", "state/log"):
            (changed / name).write_text("NEW\n")
        (changed / "gone.hush").unlink()
        self.id = make_change_set(open_store(self.settings().overlay), self.workspace, changed)

    def settings(self, **tables: object) -> Settings:
        return Settings.model_validate({"overlay": {"directory": self.folder / "store"}, **tables})

    def accept(self, settings: Settings, *paths: str) -> dict[str, Any]:
        """Accept with these settings; return the report."""
        work = ChangeSetRun(action="accept", id=self.id, paths=paths)
        sets = ChangeSets(settings, str, open_no_sink)
        return cast("dict[str, Any]", asyncio.run(sets.carry_out(work, self.workspace)).describe())

    def render(self, settings: Settings) -> str:
        """Return the difference as it is shown with these settings."""
        sets = ChangeSets(settings, str, open_no_sink)
        return sets.render(sets.find(self.id, self.workspace), 10_000)


@pytest.fixture
def later(tmp_path: Path) -> Later:
    return Later(tmp_path)


def test_a_file_that_is_hidden_now_is_neither_replaced_nor_removed_nor_shown(later: Later) -> None:
    settings = later.settings(workspace={"hide": ["*.hush"]})
    why = "workspace.hide hides a file there, which is never removed, replaced or shown"
    report = later.accept(settings)
    assert (report["paths"], report["conflicts"]) == (
        [],
        [{"path": "gone.hush", "why": why}, {"path": "plain.hush", "why": why}],
    )
    # What the program added is not the file of a person, and must be shown before it is accepted.
    assert later.accept(settings, "new.hush")["paths"] == ["new.hush"]
    assert (later.workspace / "plain.hush").read_text() == "OLD\n"
    shown = later.render(settings).split("diff a/")
    assert [part for part in shown if ".hush" in part] == [
        "gone.hush b/gone.hush\ndeleted file, mode 0644\n"
        "Contents of gone.hush are not shown: workspace.hide hides them\n",
        "new.hush b/new.hush\nnew file, mode 0644\n--- /dev/null\n+++ b/new.hush\n@@ -0,0 +1 @@\n+NEW\n",
        "plain.hush b/plain.hush\nContents of plain.hush are not shown: workspace.hide hides them\n",
    ]


def test_what_a_link_that_is_hidden_now_leads_to_is_not_shown(later: Later) -> None:
    (later.workspace / "link.hush").symlink_to("Makefile")
    shown = later.render(later.settings(workspace={"hide": ["*.hush"]})).split("diff a/")
    assert shown[1] == "Makefile b/Makefile\nContents of Makefile are not shown: workspace.hide hides them\n"


def test_a_path_that_is_protected_now_must_be_named(later: Later) -> None:
    settings = later.settings(sandbox={"protected": ["Makefile"]})
    report = later.accept(settings)
    assert "Makefile" not in report["paths"]
    assert report["left"] == [{"path": "Makefile", "why": "protected; name it to accept it"}]
    assert (later.workspace / "Makefile").read_text() == "OLD\n"
    sets = ChangeSets(settings, str, open_no_sink)
    listed = sets.list_changes(sets.find(later.id, later.workspace), later.workspace)
    assert [each.path for each in listed if each.protected] == ["Makefile"]
    assert later.accept(settings, "Makefile")["paths"] == ["Makefile"]


@pytest.mark.parametrize("moved", ["{workspace}/state", "{workspace}/link", "{workspace}/state/log"])
def test_a_directory_that_is_paddocks_own_now_is_not_written(later: Later, moved: str) -> None:
    (later.workspace / "link").symlink_to("state")
    settings = later.settings(audit={"directory": moved.format(workspace=later.workspace)})
    conflict = [{"path": "state/log", "why": "Paddock keeps its own files there"}]
    assert later.accept(settings)["conflicts"] == conflict
    assert later.accept(settings, "state")["conflicts"] == conflict
    assert (later.workspace / "state/log").read_text() == "OLD\n"


@pytest.mark.parametrize("link", ["cache", "first", "second"])
def test_a_link_on_the_way_to_a_directory_of_paddock_is_not_written(tmp_path: Path, link: str) -> None:
    workspace, changed = tmp_path / "workspace", tmp_path / "changed"
    (workspace / "target").mkdir(parents=True)
    (workspace / "first").symlink_to("second")
    (workspace / "second").symlink_to("target")
    shutil.copytree(workspace, changed, symlinks=True)
    (changed / "x/paddock").mkdir(parents=True)
    (changed / link).unlink(missing_ok=True)
    (changed / link).symlink_to("x")
    settings = Settings.model_validate(
        {
            "overlay": {"directory": tmp_path / "store"},
            "audit": {"directory": workspace / "cache/paddock"},  # nothing is there yet
            "vault": {"directory": workspace / "first/paddock"},
        }
    )
    set_id = make_change_set(open_store(settings.overlay), workspace, changed)
    sets, work = ChangeSets(settings, str, open_no_sink), ChangeSetRun(action="accept", id=set_id, paths=())
    report = asyncio.run(sets.carry_out(work, workspace)).describe()
    assert (report["paths"], report["conflicts"]) == (
        [],
        [{"path": link, "why": "Paddock keeps its own files there"}],
    )


def test_a_workspace_that_is_paddocks_own_now_is_not_written(later: Later) -> None:
    settings = later.settings(vault={"directory": later.folder})
    with pytest.raises(ChangesError) as caught:
        later.accept(settings)
    assert str(caught.value) == (f"{later.workspace} is in {later.folder}, where Paddock keeps its own files")


def test_a_program_that_holds_the_lock_of_the_workspace_does_not_keep_a_set_from_being_discarded(
    later: Later,
) -> None:
    work = ChangeSetRun(action="discard", id=later.id, paths=())
    with lock_workspace(later.workspace):
        sets = ChangeSets(later.settings(), str, open_no_sink)
        assert asyncio.run(sets.carry_out(work, later.workspace)).describe() == {
            "id": later.id,
            "action": "discard",
        }


def test_long_paths_are_shortened_for_the_record(tmp_path: Path) -> None:
    settings = Settings(overlay=OverlaySettings(directory=tmp_path / "store"))
    workspace, changed = tmp_path / "workspace", tmp_path / "changed"
    workspace.mkdir()
    folder = "é" * 60
    (changed / folder / folder).mkdir(parents=True)
    (changed / folder / folder / "a-file-at-the-end.txt").write_text("x\n")
    sets = ChangeSets(settings, str, open_no_sink)
    work = ChangeSetRun(action="accept", id=make_change_set(sets.store, workspace, changed))
    done = asyncio.run(sets.carry_out(work, workspace))
    result = RawResult(status=Status.OK, value=done.describe(), has_value=True)
    facts = kind_of(
        ExecutionRequest(actor="a", surface="cli", workspace=workspace, work=work)
    ).list_end_facts(work, result)
    check_fields(facts)
    paths = cast("list[str]", facts["paths"])
    assert (facts["path_count"], paths[-1].split("...")[1][-22:]) == (3, "/a-file-at-the-end.txt")


def test_a_mark_of_a_secret_does_not_make_a_path_too_long_for_the_record() -> None:
    secrets = KnownSecrets()
    secrets.learn("tiny-key")
    facts = OutgoingRedaction(Settings().redaction, secrets).facts({"paths": ["tiny-key/" * 14]})
    check_fields(facts)
    assert "tiny-key" not in facts["paths"][0]
