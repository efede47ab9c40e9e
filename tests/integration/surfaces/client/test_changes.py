"""What a session changed in its overlay is accepted and discarded from Python, with and without an event loop."""

import asyncio
from pathlib import Path

import pytest

from paddock import (
    BlockingPaddock,
    BlockingSession,
    ChangesNotFound,
    ChangesSummary,
    InterpreterSession,
    OutcomeError,
    Paddock,
    RequestError,
    Settings,
    Status,
)
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import AuditSettings, RuntimeSettings

UNKNOWN = f"changes-{'0' * 32}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "list.txt").write_text("one\n")
    return folder


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        audit=AuditSettings(directory=tmp_path / "audit"),
        overlay=OverlaySettings(directory=tmp_path / "changes"),
        runtimes=RuntimeSettings(access="overlay"),
    )


def write_code(folder: Path) -> str:
    """Return a program that adds a file to the workspace and changes another one."""
    return (
        f"import os; os.chdir(os.environ.get('PADDOCK_WORKSPACE', {str(folder)!r}))\n"
        "open('new.txt', 'w').write('new\\n'); open('list.txt', 'a').write('two\\n'); None"
    )


def read_tree(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def count(summary: ChangesSummary | None) -> tuple[bool, int, int, int] | None:
    """Return whether there is a change set, and how many paths are added, modified and deleted."""
    if summary is None:
        return None
    return summary.id != "", summary.added, summary.modified, summary.deleted


def test_changes_of_a_session_are_accepted_by_path_and_discarded(folder: Path, settings: Settings) -> None:
    async def use(p: Paddock, s: InterpreterSession) -> None:
        assert count(await s.changes()) == (False, 0, 0, 0)
        with pytest.raises(ChangesNotFound, match=r"^The session has changed nothing in the workspace$"):
            await s.accept()
        ran = (await s.run(write_code(folder))).check()
        changed = await s.changes()
        assert changed is not None
        assert (changed, count(changed)) == (ran.changes, (True, 1, 1, 0))
        assert read_tree(folder) == {"list.txt": "one\n"}

        accepted = (await s.accept("new.txt")).check()
        assert accepted.value == {
            "id": changed.id,
            "action": "accept",
            "paths": ["new.txt"],
            "unchanged": [],
            "merged": [],
            "left": [],
            "conflicts": [],
        }
        assert read_tree(folder) == {"list.txt": "one\n", "new.txt": "new\n"}

        await s.run("")  # what was accepted is no change any more
        again = await s.changes()
        assert again is not None
        assert count(again) == (True, 0, 1, 0)
        attached = await p.session(id=s.id)
        assert count(await attached.changes()) == (True, 0, 1, 0)

        assert (await s.discard()).check().value == {"id": again.id, "action": "discard"}
        refused = await s.accept()
        assert (refused.status, refused.error and refused.error.message) == (
            Status.FAILED,
            f"The change set {again.id} was discarded, and its contents are gone; run it again",
        )
        with pytest.raises(OutcomeError, match="ChangesError: The change set changes-"):
            refused.check()
        assert read_tree(folder) == {"list.txt": "one\n", "new.txt": "new\n"}

    async def main() -> None:
        async with Paddock(folder, settings=settings) as p, p.session("python", access="overlay") as s:
            await use(p, s)

    asyncio.run(main())


def test_the_blocking_twins_accept_merge_and_undo(folder: Path, settings: Settings) -> None:
    with BlockingPaddock(folder, settings=settings) as p:
        with p.session("python", access="overlay") as s:
            s.run(write_code(folder)).check()
            (folder / "list.txt").write_text("zero\none\n")
            conflict = s.accept()
            assert (conflict.status, conflict.error and conflict.error.name) == (
                Status.FAILED,
                "ChangesConflict",
            )
            changed = s.changes()
            assert changed is not None
        assert s.changes() == changed  # also after its end
        p.accept_changes(changed.id, "new.txt").check()
        assert read_tree(folder) == {"list.txt": "zero\none\n", "new.txt": "new\n"}
        p.undo_changes(changed.id).check()
        assert read_tree(folder) == {"list.txt": "zero\none\n"}
        p.discard_changes(changed.id).check()


def test_a_file_that_a_session_changes_again_is_accepted_again(folder: Path, settings: Settings) -> None:
    def write(text: str) -> str:
        return f"import os\nos.chdir({str(folder)!r})\nopen('list.txt', 'w').write({text!r})\nopen('new.txt', 'w').write({text!r})"

    with BlockingPaddock(folder, settings=settings) as p, p.session("python", access="overlay") as s:
        s.run(write("first")).check()
        s.accept().check()
        s.run(write("second")).check()
        s.accept().check()
        assert read_tree(folder) == {"list.txt": "second", "new.txt": "second"}
        changed = s.changes()
        assert changed is not None
        p.undo_changes(changed.id).check()
        assert read_tree(folder) == {"list.txt": "first", "new.txt": "first"}
        s.run(write("third")).check()
        s.accept().check()
        s.run("os.remove('new.txt')").check()
        s.accept().check()
        assert read_tree(folder) == {"list.txt": "third"}
        s.run(write("fourth")).check()
        (folder / "list.txt").write_text("mine")
        conflict = s.accept()
        assert conflict.error is not None
        assert conflict.error.message == (
            "Nothing was written, because of 1 conflict: list.txt: it was changed since the run"
        )
        s.run("").check()
        conflict = s.accept()
        assert conflict.error is not None
        assert conflict.error.message == (
            "Nothing was written, because of 1 conflict: list.txt: the workspace's own file was changed during the run"
        )


def test_a_merge_keeps_the_lines_of_both(folder: Path, settings: Settings) -> None:
    (folder / "list.txt").write_text("1\n2\n3\n4\n5\n")
    with BlockingPaddock(folder, settings=settings) as p, p.session("python", access="overlay") as s:
        s.run(write_code(folder)).check()
        (folder / "list.txt").write_text("mine\n2\n3\n4\n5\n")
        merged = s.accept(merge=True).check().value
    assert isinstance(merged, dict)
    assert (merged["paths"], merged["merged"]) == (["list.txt", "new.txt"], ["list.txt"])
    assert read_tree(folder) == {"list.txt": "mine\n2\n3\n4\n5\ntwo\n", "new.txt": "new\n"}


def test_a_session_without_an_overlay_has_no_changes(folder: Path, settings: Settings) -> None:
    def refuse(s: BlockingSession) -> str:
        with pytest.raises(ChangesNotFound) as raised:
            s.accept()
        return str(raised.value)

    with BlockingPaddock(folder, settings=settings) as p:
        with p.session("python", access="read-only") as s:
            assert s.changes() is None
            assert (
                refuse(s)
                == 'The session has no overlay, and thus no changes; open it with `access="overlay"`'
            )
        with pytest.raises(OutcomeError, match="lost: SessionLost: "):
            s.changes()


def test_a_change_set_that_does_not_exist_is_an_error(folder: Path, settings: Settings) -> None:
    with BlockingPaddock(folder, settings=settings) as p:
        for settle in (p.accept_changes, p.undo_changes, p.discard_changes):
            with pytest.raises(ChangesNotFound) as raised:
                settle(UNKNOWN)
            assert str(raised.value) == (
                f"Change set not found: '{UNKNOWN}'; `paddock changes list` shows those of a workspace"
            )
        with pytest.raises(RequestError, match=r"^id: expected the whole ID of a change set"):
            p.accept_changes("3f2a")
