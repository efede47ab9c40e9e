"""What a person is shown before changes are accepted: nothing that the caller chooses may hide what is written."""

import asyncio
import json
import shutil
from pathlib import Path

import pytest
from tests.support.change_sets import make_change_set

from paddock.gate.change_sets import ChangeSets, open_store
from paddock.gate.work import kind_of
from paddock.model.errors import ChangesError
from paddock.model.request import ChangesAction, ChangeSetRun, ExecutionRequest
from paddock.policy.decisions.question_texts import format_details
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import Settings

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
        self.sets = ChangeSets(self.settings, str)
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
