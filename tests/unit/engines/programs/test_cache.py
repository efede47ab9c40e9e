"""What compilers leave is copied with care, and the cache gives nothing that others could have put there."""

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from paddock.confinement.sandbox.child import scratch
from paddock.engines.programs import cache as caches
from paddock.engines.programs import safe_copy
from paddock.engines.programs.cache import Cache, key
from paddock.engines.programs.engine import RuntimeEngine

FILES = {"code.c": "int main(){}"}


def program(folder: Path, content: bytes = b"binary") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "program"
    path.write_bytes(content)
    path.chmod(0o6755)
    return path


def test_what_is_kept_is_given_as_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it is where a job has Paddock's own user, and where cache and scratch are on two file systems."""

    def link(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", link)
    cache = Cache(tmp_path / "cache", 1000)
    cache.keep("a", program(tmp_path / "made"))
    target = tmp_path / "program"
    assert cache.take("a", target, owner=os.getuid())
    facts = target.stat()
    assert (target.read_bytes(), facts.st_mode & 0o7777, facts.st_uid) == (b"binary", 0o700, os.getuid())
    target.write_bytes(b"changed")
    assert cache.take("a", tmp_path / "again", owner=os.getuid())
    assert (tmp_path / "again").read_bytes() == b"binary"
    assert not cache.take("b", tmp_path / "other", owner=os.getuid())


def test_root_lends_what_belongs_to_nobody_who_runs_programs(tmp_path: Path, as_root: None) -> None:
    cache, made = Cache(tmp_path / "cache", 100_000), tmp_path / "classes"
    (made / "inner").mkdir(parents=True)
    (made / "inner" / "A.class").write_bytes(b"a")
    program(made)
    cache.keep("a", made)
    [kept] = (tmp_path / "cache" / "a").iterdir()
    for number in range(3):  # however many names it has
        target = tmp_path / str(number)
        assert cache.take("a", target, owner=1234)
        folder, inner, facts = (
            target.stat(),
            (target / "inner" / "A.class").stat(),
            (target / "program").stat(),
        )
        assert (folder.st_mode & 0o7777, folder.st_uid) == (0o700, 1234)
        assert (inner.st_mode & 0o7777, inner.st_uid, inner.st_nlink) == (
            0o444,
            safe_copy.KEEPER_UID,
            number + 2,
        )
        assert (facts.st_mode & 0o7777, facts.st_uid) == (0o555, safe_copy.KEEPER_UID)
        assert (target / "program").samefile(kept / "program")
    assert Cache(tmp_path / "cache", 1000).take("a", tmp_path / "own", owner=safe_copy.KEEPER_UID)
    own = (tmp_path / "own" / "program").stat()
    assert (own.st_mode & 0o7777, own.st_uid, own.st_nlink) == (0o700, safe_copy.KEEPER_UID, 1)


@pytest.mark.parametrize("damage", [b"", b"binarz", b"binary and more"])
def test_what_was_damaged_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    """A machine that lost its power may have written a name and no content."""
    made, target = program(tmp_path / "made"), tmp_path / "program"
    Cache(tmp_path / "cache", 1000).keep("a", made)
    [kept] = (tmp_path / "cache" / "a").iterdir()
    kept.write_bytes(damage)
    cache = Cache(tmp_path / "cache", 1000)
    assert not cache.is_quick("a")
    assert not cache.take("a", target, owner=os.getuid())
    assert not target.exists()
    cache.keep("a", made)
    assert cache.take("a", target, owner=os.getuid())
    assert target.read_bytes() == b"binary"


def test_contents_are_read_for_damage_once_and_again_when_the_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[bool] = []
    lend = safe_copy.lend

    def watched(*places: Path, owner: int | None, checked: bool) -> safe_copy.CopyReport:
        looked.append(checked)
        return lend(*places, owner=owner, checked=checked)

    Cache(tmp_path / "cache", 1000).keep("a", program(tmp_path / "made"))
    cache = Cache(tmp_path / "cache", 1000)
    monkeypatch.setattr(safe_copy, "lend", watched)
    for number in range(3):
        assert cache.take("a", tmp_path / f"program{number}", owner=os.getuid())
    assert looked == [True, False, False]
    assert (tmp_path / "program2").read_bytes() == b"binary"
    [kept] = (tmp_path / "cache" / "a").iterdir()
    kept.write_bytes(b"binarz")
    os.utime(kept, (1, 1))
    assert not cache.take("a", tmp_path / "program", owner=os.getuid())
    assert (looked[3:], (tmp_path / "program").exists()) == ([True], False)


@pytest.mark.parametrize(("size", "quick"), [(2 << 20, True), ((2 << 20) + 1, False)])
def test_what_this_process_kept_is_quick_to_take(tmp_path: Path, size: int, quick: object) -> None:
    cache = Cache(tmp_path / "cache", 1 << 30)
    assert not cache.is_quick("a")
    cache.keep("a", program(tmp_path / "made", b"x" * size))
    assert cache.is_quick("a") == quick
    assert cache.take("a", tmp_path / "program", owner=os.getuid())
    assert (tmp_path / "program").stat().st_size == size


def test_a_damaged_tree_is_made_anew(tmp_path: Path) -> None:
    cache, made, target = Cache(tmp_path / "cache", 100_000), tmp_path / "classes", tmp_path / "program"
    (made / "inner").mkdir(parents=True)
    (made / "inner" / "A.class").write_bytes(b"a")
    (made / "B.class").write_bytes(b"b")
    cache.keep("a", made)
    assert cache.take("a", target, owner=os.getuid())
    assert (target / "inner" / "A.class").read_bytes() == b"a"
    [kept] = (tmp_path / "cache" / "a").iterdir()
    (kept / "B.class").rename(kept / "C.class")
    assert not cache.take("a", tmp_path / "other", owner=os.getuid())
    assert not (tmp_path / "other").exists()


def test_the_oldest_goes_when_there_is_no_room(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 20)
    for number, name in enumerate(("a", "b", "c")):
        cache.keep(name, program(tmp_path / name, b"x" * 8))
        os.utime(tmp_path / "cache" / name, (number, number))
    cache.keep("d", program(tmp_path / "d", b"x" * 8))
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["c", "d"]


def test_a_look_at_all_entries_leaves_room_for_more(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 24)
    for number, name in enumerate(("a", "b")):
        cache.keep(name, program(tmp_path / name, b"x" * 8))
        os.utime(tmp_path / "cache" / name, (number, number))
    cache.keep("c", program(tmp_path / "c", b"x" * 8))
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["b", "c"]


@pytest.mark.parametrize(("later", "noted"), [(60, False), (61, True)])
def test_when_a_program_was_used_is_known_to_the_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: int, noted: object
) -> None:
    cache, now = Cache(tmp_path / "cache", 1000), [5.0]
    monkeypatch.setattr(caches, "time", SimpleNamespace(monotonic=lambda: now[0]))
    cache.keep("a", program(tmp_path / "made"))
    os.utime(tmp_path / "cache" / "a", (1, 1))
    now[0] += later
    assert cache.take("a", tmp_path / "program", owner=os.getuid())
    assert ((tmp_path / "cache" / "a").stat().st_mtime > 1) == noted
    assert Cache(tmp_path / "cache", 1000).take("a", tmp_path / "other", owner=os.getuid())
    assert (tmp_path / "cache" / "a").stat().st_mtime > 1


@pytest.mark.parametrize(("chance", "looks"), [(0.5, 0), (0.49, 1)])
def test_the_larger_a_program_the_likelier_is_a_look_at_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chance: float, looks: int
) -> None:
    """A look at thousands of programs takes longer than many a compiler."""
    looked: list[None] = []
    monkeypatch.setattr(caches, "random", lambda: chance)
    cache = Cache(tmp_path / "cache", 128 * 64)
    monkeypatch.setattr(cache, "_make_room", lambda: looked.append(None))
    cache.keep("a", program(tmp_path / "made", b"x" * 64))
    assert len(looked) == looks


def test_what_another_process_made_anew_is_taken(tmp_path: Path) -> None:
    """A compiler may make other bytes of the same program; then the entry's file is called something else."""
    cache, other = Cache(tmp_path / "cache", 1000), Cache(tmp_path / "cache", 1000)
    cache.keep("a", program(tmp_path / "made"))
    shutil.rmtree(tmp_path / "cache" / "a")
    other.keep("a", program(tmp_path / "made", b"newer"))
    assert cache.take("a", tmp_path / "program", owner=os.getuid())
    assert (tmp_path / "program").read_bytes() == b"newer"
    shutil.rmtree(tmp_path / "cache" / "a")
    assert not cache.take("a", tmp_path / "again", owner=os.getuid())


@pytest.mark.parametrize("most", [0, 5])
def test_what_is_too_large_is_not_kept(tmp_path: Path, most: int) -> None:
    cache = Cache(tmp_path / "cache", most)
    cache.keep("a", program(tmp_path / "made"))
    assert not cache.take("a", tmp_path / "program", owner=os.getuid())


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o722])
def test_a_directory_that_others_write_to_gives_and_takes_nothing(tmp_path: Path, mode: int) -> None:
    cache = Cache(tmp_path / "cache", 1000)
    cache.keep("a", program(tmp_path / "made"))
    (tmp_path / "cache").chmod(mode)
    assert not cache.take("a", tmp_path / "program", owner=os.getuid())
    cache.keep("b", program(tmp_path / "made"))
    assert not (tmp_path / "cache" / "b").exists()


def test_a_link_in_the_place_of_the_directory_gives_nothing(tmp_path: Path) -> None:
    Cache(tmp_path / "real", 1000).keep("a", program(tmp_path / "made"))
    (tmp_path / "cache").symlink_to("real")
    assert not Cache(tmp_path / "cache", 1000).take("a", tmp_path / "program", owner=os.getuid())


def test_a_second_writer_changes_nothing(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", 1000)
    cache.keep("a", program(tmp_path / "made"))
    cache.keep("a", program(tmp_path / "evil", b"other"))
    assert cache.take("a", tmp_path / "program", owner=os.getuid())
    assert (tmp_path / "program").read_bytes() == b"binary"
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["a"]


def test_everything_that_makes_a_program_is_in_its_key() -> None:
    base = key("c", "gcc", ("cc", "{source}"), {"A": "1"}, FILES)
    assert len(base) == 64
    others = [
        key("cpp", "gcc", ("cc", "{source}"), {"A": "1"}, FILES),
        key("c", "gcc2", ("cc", "{source}"), {"A": "1"}, FILES),
        key("c", "gcc", ("cc", "-O2", "{source}"), {"A": "1"}, FILES),
        key("c", "gcc", ("cc", "{source}"), {"A": "2"}, FILES),
        key("c", "gcc", ("cc", "{source}"), {"A": "1"}, {"code.c": "int main(){ }"}),
        key("c", "gcc", ("cc", "{source}"), {"A": "1"}, {"code.h": "int main(){}"}),
    ]
    assert len({base, *others}) == 7


def test_a_tree_is_copied_without_special_bits(tmp_path: Path) -> None:
    (tmp_path / "classes" / "deep").mkdir(parents=True)
    (tmp_path / "classes" / "deep" / "A.class").write_bytes(b"abc")
    assert safe_copy.copy(tmp_path / "classes", tmp_path / "copy").size > 0
    assert (tmp_path / "copy" / "deep" / "A.class").read_bytes() == b"abc"


def test_no_link_pipe_or_second_name_is_copied(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    for number, make in enumerate(
        (
            lambda path: path.symlink_to(secret),
            lambda path: path.hardlink_to(secret),
            os.mkfifo,
        )
    ):
        (folder := tmp_path / f"made{number}").mkdir()
        make(folder / "program")
        for source in (folder, folder / "program"):
            with pytest.raises(safe_copy.SafeCopyError, match="program is not a plain file"):
                safe_copy.copy(source, tmp_path / f"copy{number}{source.name}")


def test_too_much_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as file:
        file.truncate(safe_copy.MAX_BYTES + 1)
    with pytest.raises(safe_copy.SafeCopyError, match="it has more than 268435456 bytes or 20000 files"):
        safe_copy.copy(sparse, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    monkeypatch.setattr(safe_copy, "MAX_ENTRIES", 2)
    (tmp_path / "many").mkdir()
    for number in range(2):
        (tmp_path / "many" / str(number)).touch()
    with pytest.raises(safe_copy.SafeCopyError):
        safe_copy.copy(tmp_path / "many", tmp_path / "copies")


def nested(folder: Path, depth: int) -> Path:
    """Make folders in folders."""
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    return folder


def test_folders_in_folders_are_copied_up_to_a_depth(tmp_path: Path) -> None:
    assert safe_copy.copy(nested(tmp_path / "made", 100), tmp_path / "copy").size > 0
    with pytest.raises(safe_copy.SafeCopyError, match=r"^its folders are nested more than 100 levels deep$"):
        safe_copy.copy(nested(tmp_path / "deep", 101), tmp_path / "other")


def test_what_is_deep_in_the_cache_keeps_nobody_from_making_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caches, "random", lambda: 0.0)
    cache = Cache(tmp_path / "cache", 1000)
    cache.keep("a", program(tmp_path / "made"))
    try:
        nested(tmp_path / "cache" / "a" / "deep", 1500)
        with (tmp_path / "cache" / "a" / "large").open("wb") as file:
            file.truncate(5000)
        cache.keep("b", program(tmp_path / "other"))
        assert cache.take("b", tmp_path / "program", owner=None)
        assert not cache.take("a", tmp_path / "damaged", owner=None)
        assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == ["b"]
    finally:
        scratch.remove_directory(
            str(tmp_path / "cache")
        )  # whatever became of it: pytest does not get so deep


@pytest.mark.parametrize("name", [b"a\nb\x1b[31m", b"\xff"])
def test_odd_names_are_told_as_text_that_can_be_shown(tmp_path: Path, name: bytes) -> None:
    os.mkfifo(os.fsencode(tmp_path) + b"/" + name)
    with pytest.raises(safe_copy.SafeCopyError) as caught:
        safe_copy.copy(tmp_path, tmp_path.with_name(f"{tmp_path.name}-copy"))
    assert str(caught.value) == f"{os.fsdecode(name)!a} is not a plain file"


def test_output_of_a_compiler_that_paths_do_not_reach_is_its_fault(tmp_path: Path) -> None:
    made = nested(tmp_path / "made", 50)
    for folder, _, _ in [*os.walk(made)][::-1][:-1]:
        Path(folder).rename(Path(folder).with_name("d" * 200))
    engine = RuntimeEngine(Mock(), {}, Cache(tmp_path / "cache", 1000))
    told = engine.collect_output("a", str(made), str(tmp_path / "target"), os.getuid())
    assert told == "Compile succeeded but its output cannot be copied: File name too long"


def test_as_much_as_is_allowed_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = tmp_path / "made"
    program(made)
    size = made.stat().st_size + len(b"binary")
    monkeypatch.setattr(safe_copy, "MAX_BYTES", size)
    monkeypatch.setattr(safe_copy, "MAX_ENTRIES", 2)
    assert safe_copy.copy(made, tmp_path / "copy").size == size
    assert (tmp_path / "copy" / "program").read_bytes() == b"binary"
