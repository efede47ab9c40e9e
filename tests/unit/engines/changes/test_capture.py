"""Reading upper directories that no kernel would leave, and workspaces that change meanwhile."""

import hashlib
import os
import stat
import tempfile
import time
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.child.protection import BUILT_IN_RULES
from paddock.engines.changes.capture import CaptureLimits, CaptureRules, Overlaid, capture_changes
from paddock.model.change_set import ChangeSet
from paddock.model.limits import MIB
from paddock.record.changes.store import ChangeStore

LIMITS = CaptureLimits(MIB, 100)


class Layers:
    """A workspace, and an upper directory that a test makes by hand."""

    def __init__(self, folder: Path) -> None:
        self.lower, self.upper, self.store = folder / "lower", folder / "upper", ChangeStore(folder / "store")
        self.lower.mkdir()
        self.upper.mkdir()
        self.opened_ns = 2 * time.time_ns()
        self.known: set[bytes] | None = None

    def write(self, **files: str) -> None:
        """Write files of the workspace; `__` stands for a slash."""
        for name, text in files.items():
            path = self.lower / name.replace("__", "/")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def read(
        self, *, limits: CaptureLimits = LIMITS, own: tuple[str, ...] = (), user: int | None = None
    ) -> ChangeSet:
        """Return what the upper directory says."""
        overlaid = Overlaid(self.lower, self.upper, "overlayfs", self.opened_ns, user=user, known=self.known)
        rules = CaptureRules(BUILT_IN_RULES, HidingRules((".env", "secret/")), own)
        with self.store.begin() as new:
            return capture_changes(overlaid, new, "run-1", rules, limits)


@pytest.fixture
def layers(tmp_path: Path) -> Layers:
    return Layers(tmp_path)


def list_kinds(found: ChangeSet) -> list[tuple[str, str]]:
    return [(change.kind, change.path) for change in found.changes]


def white_out(path: Path) -> None:
    os.mknod(path, stat.S_IFCHR, os.makedev(0, 0))


def test_facts_of_a_change_are_those_of_both_files(layers: Layers) -> None:
    layers.write(file="old")
    (layers.upper / "file").write_bytes(b"n\0w")
    (layers.upper / "file").chmod(0o6750)
    (change,) = layers.read().changes
    assert change.before is not None
    assert change.after is not None
    assert (change.kind, change.binary, change.changed_meanwhile) == ("modified", True, False)
    assert (change.before.mode, change.before.size) == (0o644, 3)
    assert (change.after.mode, change.after.sha256) == (0o750, hashlib.sha256(b"n\0w").hexdigest())


def test_a_copied_up_file_without_a_difference_is_no_change(layers: Layers) -> None:
    layers.write(file="same", folder__file="same")
    (layers.upper / "folder").mkdir()
    for name in ("file", "folder/file"):
        (layers.upper / name).write_text("same")
        (layers.upper / name).chmod(0o4644)
    assert layers.read().changes == ()


def test_a_link_in_place_of_a_directory_of_the_workspace_leads_nowhere(
    layers: Layers, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/file").write_text("SECRET")
    (layers.lower / "folder").symlink_to(tmp_path / "outside")
    (layers.upper / "folder").mkdir()
    (layers.upper / "folder/file").write_text("new")
    layers.opened_ns = 0
    found = layers.read()
    assert list_kinds(found) == [("modified", "folder"), ("added", "folder/file")]
    assert [change.changed_meanwhile for change in found.changes] == [True, False]


def test_a_link_of_the_program_is_a_link(layers: Layers, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("SECRET")
    (layers.upper / "link").symlink_to(tmp_path / "outside")
    (layers.upper / "wide").symlink_to("../" * 3)
    changes = layers.read().changes
    assert [(each.path, each.after and each.after.target, each.outward) for each in changes] == [
        ("link", str(tmp_path / "outside"), True),
        ("wide", "../../../", True),
    ]


def test_directories_nested_without_end_are_left_out(layers: Layers) -> None:
    folder = os.open(layers.upper, os.O_RDONLY)
    for _ in range(400):
        os.mkdir("d" * 20, dir_fd=folder)
        inner = os.open("d" * 20, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    found = layers.read(limits=CaptureLimits(MIB, 1000))
    assert len(found.left_out) == 1
    assert len(found.changes) < 260


def test_an_other_type_is_two_facts_of_one_path_and_deletions_below(layers: Layers) -> None:
    layers.write(folder__a="a", folder__b__c="c", file="x")
    (layers.upper / "folder").write_text("now a file")
    (layers.upper / "file").mkdir()
    (layers.upper / "file/in").write_text("y")
    assert list_kinds(layers.read()) == [
        ("modified", "file"),
        ("added", "file/in"),
        ("modified", "folder"),
        ("deleted", "folder/a"),
        ("deleted", "folder/b"),
        ("deleted", "folder/b/c"),
    ]


def test_own_files_of_paddock_are_left_out(layers: Layers) -> None:
    (layers.upper / "state").mkdir()
    (layers.upper / "state/vault").write_text("forged")
    found = layers.read(own=(str(layers.lower / "state"),))
    assert (found.changes, found.left_out) == ((), ("state",))


@pytest.mark.root
def test_a_removed_directory_lists_what_was_in_it_and_what_has_gone_meanwhile_is_no_change(
    layers: Layers,
) -> None:
    layers.write(folder__a="a", folder__b__c="c")
    white_out(layers.upper / "folder")
    white_out(layers.upper / "gone")
    assert list_kinds(layers.read()) == [
        ("deleted", "folder"),
        ("deleted", "folder/a"),
        ("deleted", "folder/b"),
        ("deleted", "folder/b/c"),
    ]


@pytest.mark.usefixtures("as_root")
def test_a_hidden_file_is_no_deletion_and_its_directories_stay(layers: Layers) -> None:
    layers.write(folder__a="a", folder__inner__b="b", folder__inner__secret__key="SECRET")
    (layers.lower / "folder/.env").write_text("SECRET")
    white_out(layers.upper / "folder")
    found = layers.read()
    assert list_kinds(found) == [("deleted", "folder/a"), ("deleted", "folder/inner/b")]
    assert "SECRET" not in found.model_dump_json()
    digest = hashlib.sha256(b"SECRET").hexdigest()
    assert digest not in found.model_dump_json()


@pytest.mark.usefixtures("as_root")
def test_what_a_hidden_link_leads_to_is_hidden_and_so_are_its_other_names(layers: Layers) -> None:
    layers.write(conf__secret="SECRET", plain="old")
    (layers.lower / ".env").symlink_to("conf/secret")
    (layers.lower / "other").hardlink_to(layers.lower / "conf/secret")
    (layers.upper / "conf").mkdir()
    for name in ("conf/secret", "other", "plain"):
        (layers.upper / name).write_text("new")
    found = layers.read()
    assert (list_kinds(found), found.left_out) == ([("modified", "plain")], ("other", "conf/secret"))


def test_a_closed_directory_of_a_session_has_the_same_mode_each_time(layers: Layers) -> None:
    (layers.upper / "closed").mkdir()
    (layers.upper / "closed/file").write_text("new")
    (layers.upper / "closed").chmod(0o2060)
    for _ in range(2):
        closed, inner = layers.read().changes
        assert closed.after is not None
        assert (closed.path, closed.after.mode, inner.path) == ("closed", 0o060, "closed/file")
    assert stat.S_IMODE((layers.upper / "closed").stat().st_mode) == 0o2060


def test_devices_are_left_out(layers: Layers) -> None:
    os.mknod(layers.upper / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    os.mknod(layers.upper / "disk", stat.S_IFBLK | 0o666, os.makedev(1, 3))
    os.mkfifo(layers.upper / "pipe")
    found = layers.read()
    assert (found.changes, sorted(found.left_out)) == ((), ["disk", "null", "pipe"])


def test_an_opaque_directory_deletes_what_it_does_not_show(layers: Layers) -> None:
    layers.write(folder__kept="same", folder__changed="old", folder__gone__in="x")
    (layers.upper / "folder").mkdir()
    (layers.upper / "folder/kept").write_text("same")
    (layers.upper / "folder/changed").write_text("new")
    os.setxattr(layers.upper / "folder", "user.overlay.opaque", b"y")
    (layers.upper / "folder").chmod(0)
    assert list_kinds(layers.read()) == [
        ("mode", "folder"),
        ("modified", "folder/changed"),
        ("deleted", "folder/gone"),
        ("deleted", "folder/gone/in"),
    ]


def test_an_opaque_directory_over_a_protected_one_is_protected(layers: Layers) -> None:
    (layers.lower / ".git/hooks").mkdir(parents=True)
    (layers.lower / ".git/hooks/pre-commit").write_text("x")
    (layers.upper / ".git").mkdir()
    os.setxattr(layers.upper / ".git", "user.overlay.opaque", b"y")
    (layers.upper / ".git/made").write_text("x")
    changes = {change.path: change.protected for change in layers.read().changes}
    assert changes == {".git/hooks": True, ".git/hooks/pre-commit": True, ".git/made": False}


def test_a_file_in_place_of_a_directory_above_a_protected_one_is_protected(layers: Layers) -> None:
    (layers.upper / ".git").write_text("gitdir: elsewhere")
    assert [(change.path, change.protected) for change in layers.read().changes] == [(".git", True)]


def test_hooks_where_the_changed_configuration_says_are_protected(layers: Layers) -> None:
    (layers.lower / ".git").mkdir()
    (layers.upper / ".git").mkdir()
    (layers.upper / ".git/config").write_text("[core]\n\thooksPath = tools\n")
    (layers.upper / "tools").mkdir()
    (layers.upper / "tools/pre-commit").write_text("x")
    changes = {change.path: change.protected for change in layers.read().changes}
    assert changes == {".git/config": True, "tools": True, "tools/pre-commit": True}


def test_what_git_obeys_in_a_repository_at_any_depth_is_protected(layers: Layers) -> None:
    protected = [
        "a/b/c/.git/commondir",
        "a/b/c/.git/config",
        "a/b/c/.git/hooks/pre-commit",
        "a/b/c/.git/modules/x/y/config",
        "linked/.git",
        "pointer/.GIT",
    ]
    for path in (*protected, "a/b/c/.git/HEAD", "a/b/c/.git/refs/heads/config", "a/config", "hooks/x"):
        (layers.upper / path).parent.mkdir(parents=True, exist_ok=True)
        if path == "linked/.git":
            (layers.upper / path).symlink_to("../a")
        else:
            (layers.upper / path).write_text("x")
    changes = layers.read().changes
    found = [
        each.path for each in changes if each.protected and each.after and each.after.type != "directory"
    ]
    assert found == protected


def test_a_million_names_are_not_read(layers: Layers) -> None:
    for number in range(150):
        (layers.upper / f"{number}").touch()
    found = layers.read()
    assert (len(found.changes), found.incomplete) == (100, "it changed more than 100 paths (overlay.changes)")


def test_a_file_with_other_names_is_one_file(layers: Layers) -> None:
    layers.write(before="old")
    (layers.upper / "c").write_text("x")
    os.link(layers.upper / "c", layers.upper / "before")
    os.link(layers.upper / "c", layers.upper / "a")
    assert [(each.path, each.linked_to) for each in layers.read().changes] == [
        ("a", None),
        ("before", "a"),
        ("c", "a"),
    ]


def test_a_moved_file_says_from_where(layers: Layers) -> None:
    layers.write(folder__old="contents", folder__other="other")
    (layers.upper / "folder").mkdir()
    os.setxattr(layers.upper / "folder", "user.overlay.opaque", b"y")
    (layers.upper / "folder/new").write_text("contents")
    assert [(each.kind, each.path, each.renamed_from) for each in layers.read().changes] == [
        ("added", "folder/new", "folder/old"),
        ("deleted", "folder/old", None),
        ("deleted", "folder/other", None),
    ]


def test_a_file_that_was_changed_after_the_opening_is_noted(layers: Layers) -> None:
    layers.write(file="old")
    (layers.upper / "file").write_text("new")
    layers.opened_ns = (layers.lower / "file").stat().st_ctime_ns - 1
    assert [change.changed_meanwhile for change in layers.read().changes] == [True]
    layers.opened_ns += 1
    assert [change.changed_meanwhile for change in layers.read().changes] == [False]


def test_what_a_session_made_itself_is_not_changed_by_others(layers: Layers) -> None:
    """It was accepted, or accepted and undone: the workspace has a file that the session worked from, or made."""

    def has_conflict(upper: str, lower: str) -> bool:
        (layers.upper / "file").write_text(upper)
        layers.write(file=lower)
        (change,) = layers.read().changes
        return change.changed_meanwhile

    layers.write(file="old")
    layers.known = set()
    (layers.upper / "file").write_text("first")
    assert [change.changed_meanwhile for change in layers.read().changes] == [False]
    layers.opened_ns = 0
    assert has_conflict("second", "first") is False
    assert has_conflict("third", "old") is False
    assert has_conflict("fourth", "other") is True
    assert has_conflict("fifth", "other") is True
    (layers.lower / "file").write_text("first")
    (layers.lower / "file").chmod(0o600)
    assert [change.changed_meanwhile for change in layers.read().changes] == [True]


@pytest.mark.usefixtures("as_root")
def test_an_ordinary_user_reads_what_the_program_has_closed() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o777)
        os.seteuid(12345)
        try:
            layers = Layers(folder)
            layers.write(folder__gone__in="x", folder__kept="same")
            (layers.upper / "folder").mkdir()
            os.setxattr(layers.upper / "folder", "user.overlay.opaque", b"y")
            (layers.upper / "folder/inner").mkdir()
            for name in ("folder/kept", "folder/inner/closed"):
                (layers.upper / name).write_text("same")
                (layers.upper / name).chmod(0)
            for name in ("folder/inner", "folder"):
                (layers.upper / name).chmod(0)
            found = layers.read()
        finally:
            os.seteuid(0)
    assert [(each.kind, each.path, each.after and each.after.mode) for each in found.changes] == [
        ("mode", "folder", 0),
        ("deleted", "folder/gone", None),
        ("deleted", "folder/gone/in", None),
        ("added", "folder/inner", 0),
        ("added", "folder/inner/closed", 0),
        ("mode", "folder/kept", 0),
    ]


@pytest.mark.usefixtures("as_root")
def test_what_the_program_could_not_read_is_not_shown_by_its_deletion(layers: Layers) -> None:
    layers.write(closed="SECRET", folder__closed="SECRET", folder__open="x")
    for name in ("closed", "folder/closed"):
        (layers.lower / name).chmod(0o600)
    (layers.upper / "closed").write_text("new")
    white_out(layers.upper / "folder")
    found = layers.read(user=12345)
    assert (list_kinds(found), found.left_out) == ([("deleted", "folder/open")], ("closed",))
