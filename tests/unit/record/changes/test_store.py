"""Change sets are stored whole or not at all, and what was edited in the store is found out by the ID."""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from paddock.model.change_set import Change, ChangeSet, FileFacts
from paddock.model.errors import ChangesCorrupted, ChangesNotFound, ChangesTooLarge
from paddock.record.changes.state import ChangesState
from paddock.record.changes.store import ChangeStore, encode_json, make_id

_NONE = "0" * 32


@contextmanager
def open_content(folder: Path, data: bytes) -> Iterator[int]:
    path = folder / "source"
    path.write_bytes(data)
    file = os.open(path, os.O_RDONLY)
    try:
        yield file
    finally:
        os.close(file)


def make_set(
    path: str = "a", sha256: str | None = None, *, ended: int = 2, workspace: str = "/w"
) -> ChangeSet:
    after = FileFacts(type="file", mode=0o644, size=3, sha256=sha256)
    change = Change(path=path, kind="added", after=after)
    return ChangeSet(
        request="run-1", workspace=workspace, opened_ns=1, ended_ns=ended, method="copy", changes=(change,)
    )


def store_set(store: ChangeStore, folder: Path, data: bytes = b"new") -> str:
    with store.begin() as new, open_content(folder, data) as source:
        return new.finish(make_set(sha256=new.add_content(source, len(data))))


def test_a_set_is_read_as_it_was_stored(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    with store.begin() as new, open_content(tmp_path, b"old") as before:
        kept = new.add_before(before, 3)
        with open_content(tmp_path, b"new") as after:
            sha256 = new.add_content(after, 3)
        made = make_set("odd\udcff\nname", sha256)
        set_id = new.finish(made)
    assert set_id == make_id(encode_json(made.model_dump()))
    assert store.read(set_id) == made
    assert store.read_content(set_id, sha256, 10) == b"new"
    assert store.read_content(set_id, sha256, 2) is None
    assert kept == hashlib.sha256(b"old").hexdigest()
    assert store.read_content(set_id, kept, 10, before=True) == b"old"
    assert sorted(each.name for each in store.directory.iterdir()) == [set_id]
    modes = {each.stat().st_mode & 0o777 for each in store.directory.rglob("*")}
    assert modes == {0o700, 0o600}


def test_what_is_not_finished_leaves_nothing(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    with store.begin() as new, open_content(tmp_path, b"new") as source:
        new.add_content(source, 3)
    assert list(store.directory.iterdir()) == []
    assert store.list_sets() == []


def test_what_a_killed_process_began_is_removed(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    stale = store.directory / ".new-01234567"
    stale.mkdir(parents=True, mode=0o700)
    store.directory.chmod(0o700)
    with store.begin():
        assert not stale.exists()
        with store.begin():
            assert len(list(store.directory.iterdir())) == 2


def test_the_same_set_is_stored_once(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    assert store_set(store, tmp_path) == store_set(store, tmp_path)
    assert len(store.list_sets()) == 1


def test_a_set_has_limits(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes", max_bytes=4, undo_bytes=3)
    with store.begin() as new, open_content(tmp_path, b"new") as source:
        new.add_content(source, 3)
        assert new.add_before(source, 3) == hashlib.sha256(b"new").hexdigest()
        assert new.add_before(source, 1) is None
        with pytest.raises(ChangesTooLarge) as caught:
            new.add_content(source, 3)
        assert str(caught.value) == "the new contents have more than overlay.bytes = 4 bytes"
        with pytest.raises(ChangesTooLarge):
            new.add_content(source, 1)  # it has grown


def test_an_edited_manifest_is_rejected(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    set_id = store_set(store, tmp_path)
    manifest = store.directory / set_id / "manifest.json"
    fields = json.loads(manifest.read_bytes())
    fields["changes"][0]["path"] = ".git/hooks/pre-commit"
    manifest.write_bytes(encode_json(fields))
    with pytest.raises(ChangesCorrupted) as caught:
        store.read(set_id)
    assert str(caught.value) == (
        f"The change set {set_id} cannot be used: its manifest was changed; remove it: "
        f"paddock changes discard {set_id}"
    )
    assert store.list_sets() == []


def test_edited_contents_are_rejected(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    set_id = store_set(store, tmp_path)
    sha256 = hashlib.sha256(b"new").hexdigest()
    content = store.directory / set_id / "contents" / sha256
    content.write_bytes(b"bad")
    with pytest.raises(ChangesCorrupted):
        store.read_content(set_id, sha256, 10)
    content.unlink()
    os.mkfifo(content)
    with pytest.raises(Exception, match="not a regular file"):
        store.read_content(set_id, sha256, 10)
    content.unlink()
    with pytest.raises(ChangesCorrupted):
        store.read_content(set_id, sha256, 10)
    with pytest.raises(ChangesCorrupted):
        store.open_content(set_id, "../../manifest.json")


def test_an_edited_state_is_rejected(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    set_id = store_set(store, tmp_path)
    store.write_state(set_id, ChangesState(accepted=("a",), accepted_at=datetime(2026, 1, 2, tzinfo=UTC)))
    assert store.read_state(set_id).describe(1) == "accepted"
    (store.directory / set_id / "state.json").write_text('{"accepted": 3}')
    with pytest.raises(ChangesCorrupted):
        store.read_state(set_id)


def test_sets_are_listed_newest_first_and_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    ids: list[str] = []
    for ended, workspace in ((5, "/w"), (7, "/w"), (6, "/other")):
        with store.begin() as new:
            ids.append(new.finish(make_set(ended=ended, workspace=workspace)))
    assert [each.id for each in store.list_sets(Path("/w"))] == [ids[1], ids[0]]
    assert [each.id for each in store.list_sets()] == [ids[1], ids[2], ids[0]]
    short = ids[0].removeprefix("changes-")[:8]
    assert store.find(short, Path("/w")).id == store.find(ids[0]).id == ids[0]
    with pytest.raises(ChangesNotFound) as caught:
        store.find(ids[2], Path("/w"))
    assert str(caught.value) == (
        f"Change set not found in this workspace: {ids[2]!r}; `paddock changes list` shows those of a workspace"
    )
    with pytest.raises(ChangesNotFound, match="begins several IDs"):
        store.find("changes-")
    for wrong in ("", "../x", _NONE):
        with pytest.raises(ChangesNotFound):
            store.find(wrong)
    with pytest.raises(ChangesNotFound):
        store.read(f"changes-{_NONE}")


def test_a_discarded_set_has_no_contents(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    set_id = store_set(store, tmp_path)
    store.discard(set_id)
    assert sorted(each.name for each in (store.directory / set_id).iterdir()) == [
        "manifest.json",
        "state.json",
    ]
    assert store.load(set_id).state.describe(1) == "discarded"


def test_old_and_large_sets_are_deleted(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes")
    old = store_set(store, tmp_path, b"old")
    os.utime(store.directory / old / "manifest.json", (1, 1))
    new = store_set(store, tmp_path, b"new")
    journal = store.find_journal(Path("/w"))
    journal.write_text(f'{{"set_id":"{old}"}}')
    assert store.purge(1, 10**6) == []
    journal.unlink()
    assert store.purge(1, 10**6) == [old]
    assert store.purge(1, 10) == [new]
    assert store.list_sets() == []


def test_contents_before_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    store = ChangeStore(tmp_path / "changes", undo_bytes=5)
    set_id = store_set(store, tmp_path)
    with open_content(tmp_path, b"old") as source:
        assert store.measure_undo_room(set_id) == 5
        assert store.keep_before(set_id, source, 5) == 3
        assert store.measure_undo_room(set_id) == 2
        assert store.keep_before(set_id, source, 2) is None
    sha256 = hashlib.sha256(b"old").hexdigest()
    assert store.read_content(set_id, sha256, 10, before=True) == b"old"
    assert store.read_content(set_id, "0" * 64, 10, before=True) is None
