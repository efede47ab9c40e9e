"""What every `ArtifactStore` promises, as checks of a new one."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from io import BytesIO

from paddock.record.output.backends import ArtifactStore
from paddock.testing.require import require_equal, require_true

_NAMES = ("stdout.gz", "stderr.gz")
_LAST = "manifest.json"
_GROUPS = tuple(f"runtime-check-1700000000000-{number:016x}" for number in range(8))


def check_objects_come_back(store: ArtifactStore) -> None:
    """Check that objects of a group come back byte by byte, large and empty ones too."""
    large = bytes(range(256)) * 4096
    _store_group(store, _GROUPS[0], large, b"")
    require_equal(_read_object(store, _GROUPS[0], "stdout.gz", 1000), large, "an object comes back whole")
    pieces = list(store.read(_GROUPS[0], "stderr.gz", 1000))
    require_equal(b"".join(pieces), b"", "an empty object is empty")
    require_true(pieces, "an empty object that is there yields a piece")
    require_equal(_read_object(store, _GROUPS[0], _LAST), b"{}", "the last object comes back")
    require_equal([name for name in store.groups() if name in _GROUPS], [_GROUPS[0]], "the group is listed")
    require_true(store.size() > 0, "`size` counts what is stored")


def check_what_is_not_there(store: ArtifactStore) -> None:
    """Check that reading, listing and deleting what is not there is no error."""
    require_equal(list(store.read(_GROUPS[0], _LAST, 1000)), [], "a missing object yields nothing")
    require_equal(list(store.groups()), [], "a new store has no groups")
    require_equal(store.size(), 0, "a new store is empty")
    store.delete(_GROUPS[0], (_LAST, *_NAMES))
    store.drop(_GROUPS[0])


def check_deleting(store: ArtifactStore) -> None:
    """Check that a deleted group is gone, and another one stays."""
    _store_group(store, _GROUPS[0], b"a", b"b")
    _store_group(store, _GROUPS[1], b"c", b"d")
    store.delete(_GROUPS[0], (_LAST, *_NAMES))
    store.delete(_GROUPS[0], (_LAST, *_NAMES))
    for name in (_LAST, *_NAMES):
        require_equal(list(store.read(_GROUPS[0], name, 1000)), [], "a deleted object is gone")
    require_equal([name for name in store.groups() if name in _GROUPS], [_GROUPS[1]], "its group is gone")
    require_equal(_read_object(store, _GROUPS[1], "stdout.gz"), b"c", "others stay")


def check_dropping(store: ArtifactStore) -> None:
    """Check that a group that was begun and dropped leaves nothing that can be read."""
    store.begin(_GROUPS[0], _NAMES, whole=_LAST)
    store.put(_GROUPS[0], "stdout.gz", BytesIO(b"a"))
    require_equal(list(store.read(_GROUPS[0], _LAST, 1000)), [], "what was not put cannot be read")
    store.drop(_GROUPS[0])
    store.delete(_GROUPS[0], (_LAST, *_NAMES))
    require_equal(list(store.read(_GROUPS[0], "stdout.gz", 1000)), [], "what was dropped is gone")


def check_groups_side_by_side(store: ArtifactStore) -> None:
    """Check that several threads write and read groups at a time."""

    def keep(group: str) -> bytes:
        _store_group(store, group, group.encode() * 1000, b"")
        return _read_object(store, group, "stdout.gz", 100)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(keep, _GROUPS))
    require_equal(found, [group.encode() * 1000 for group in _GROUPS], "groups do not disturb each other")
    require_equal(
        sorted(name for name in store.groups() if name in _GROUPS), sorted(_GROUPS), "all are listed"
    )


def check_sweeps_are_remembered(store: ArtifactStore) -> None:
    """Check that `last_sweep` is the time that `swept` was told, within a second."""
    now = datetime.now(UTC)
    _store_group(store, _GROUPS[0], b"", b"")
    require_true(store.last_sweep.tzinfo, "`last_sweep` has a time zone")
    store.swept(now)
    require_true(abs((store.last_sweep - now).total_seconds()) < 1, "`last_sweep` is what `swept` was told")


ARTIFACT_STORE_CHECKS: tuple[Callable[[ArtifactStore], None], ...] = (
    check_objects_come_back,
    check_what_is_not_there,
    check_deleting,
    check_dropping,
    check_groups_side_by_side,
    check_sweeps_are_remembered,
)
"""What every `ArtifactStore` promises. Each check takes a new, empty store."""


def _store_group(store: ArtifactStore, group: str, stdout: bytes, stderr: bytes) -> None:
    store.begin(group, _NAMES, whole=_LAST)
    store.put(group, "stdout.gz", BytesIO(stdout))
    store.put(group, "stderr.gz", BytesIO(stderr))
    store.put(group, _LAST, BytesIO(b"{}"), whole=True)


def _read_object(store: ArtifactStore, group: str, name: str, chunk: int = 1000) -> bytes:
    return b"".join(store.read(group, name, chunk))
