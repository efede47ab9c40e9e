"""Content-addressed environments in a directory of this user. Jobs read them and cannot change them.

    KEY/manifest.json      what it is, and what its directories looked like when it was made
    KEY/environment/       what a job is granted
    requests/DIGEST        the key that equal requirements had last time
    locks/                 KEY: shared while in use. KEY.make, DIGEST: held by a process that makes it

An entry appears complete by one rename and is never changed. Each use compares the times of its directories; files are
compared after a start of the machine, and once a day. An entry that differs is damaged: it is removed and made again.
A process that dies leaves a staging directory that nobody locks; the next sweep removes it.
"""

import contextlib
import errno
import fcntl
import hashlib
import os
import stat
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import orjson

from paddock.confinement.sandbox.child import scratch
from paddock.engines.packages.interface import PackagesError
from paddock.foundation.files import is_ours, read_bounded, replace_file
from paddock.foundation.own_files import open_own
from paddock.model.limits import MIB
from paddock.model.requirements import PackageEnvironment

FORMAT_VERSION = 1
"""Part of every key; another layout or another way of installing needs another number."""
ENVIRONMENT = "environment"
_MANIFEST, _CHECKED = "manifest.json", "checked"
_STAGING = ".new-"
_MAX_MANIFEST_BYTES = 64 * MIB
_CHECK_AGAIN_S = 24 * 3600
_MAX_ENTRIES, _MAX_DEPTH = 300_000, 100
_KEY_CHARS = 64
_FILE_MODE, _RUNNABLE_MODE = 0o644, 0o755
"""Modes of installed files; jobs may run as another user."""


class EnvironmentManifest(NamedTuple):
    """What an entry says of itself."""

    language: str
    requirements: list[str]
    packages: list[str]
    """Every package: `name==version`."""
    lock_sha256: str
    registries: list[str]
    """Addresses without credentials."""
    builds: bool
    interpreter: str
    size_bytes: int
    file_count: int
    made_at: int
    """Seconds since 1970."""
    directories: dict[str, int]
    """Time of the last change of each directory, in nanoseconds."""
    files_sha256: str
    """SHA-256 (hex) over path, size and time of each file."""


class StoreEntry(NamedTuple):
    """An entry of the store, for people."""

    key: str
    manifest: EnvironmentManifest
    used_at: float
    """When it was last used, in seconds since 1970."""


class Staging(NamedTuple):
    """A directory in which an entry is made."""

    path: Path
    handle: int

    @property
    def environment(self) -> Path:
        """Where the environment belongs. It does not exist at first."""
        return self.path / ENVIRONMENT

    @property
    def cache(self) -> Path:
        """Where downloads wait between two steps. They are not part of the entry."""
        return self.path / "downloads"


class TreeError(ValueError):
    """An installed tree contains something that no package needs; the text says what."""


class Store:
    """The environments in a directory, of at most `max_bytes` together."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes

    def prepare(self) -> None:
        """Make the directories. Raises PackagesError if other users could put something there."""
        mode = 0o711 if os.geteuid() == 0 else 0o700  # jobs of root run as another user, which passes through
        try:
            for folder in (*reversed(self._directory.parents), self._directory):
                if not folder.exists():
                    with contextlib.suppress(FileExistsError):
                        folder.mkdir(mode=0o755)
                        folder.chmod(mode if folder == self._directory else 0o755)
            for name in ("requests", "locks"):
                with contextlib.suppress(FileExistsError):
                    (self._directory / name).mkdir(mode=0o700)
        except OSError as error:
            raise PackagesError(
                f"{error.filename}: cannot be made: {error.strerror}", "set packages.directory to another one"
            ) from None
        if not all(map(is_ours, (self._directory, self._directory / "requests", self._directory / "locks"))):
            raise PackagesError(
                f"{self._directory} is not used for packages, because other users could write there",
                f"remove it, or make it yours alone: chmod -R go-w {self._directory}",
            )

    @contextmanager
    def try_lock(self, name: str, *, shared: bool = False) -> Generator[bool]:
        """Hold a lock, or yield False at once if another process holds it. Raises OSError."""
        lock = open_own(self._directory / "locks" / name, os.O_RDWR | os.O_CREAT)
        try:
            try:
                fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(lock)

    def recall(self, digest: str) -> str:
        """Return the key that equal requirements had last time, or ""."""
        if not is_ours(self._directory):
            return ""
        try:
            text = read_bounded(self._directory / "requests" / digest, _KEY_CHARS).decode("ascii", "replace")
        except OSError:
            return ""
        return text if _is_key(text) else ""

    def remember(self, digest: str, key: str) -> None:
        """Note the key of requirements. Raises OSError."""
        replace_file(self._directory / "requests" / digest, key.encode())

    def forget(self, language: str, requirements: Iterable[str]) -> None:
        """Forget the resolutions of requirements, so that they are resolved again. Their entries stay."""
        wanted = sorted(set(requirements))
        keys = {
            entry.key
            for entry in self.list_entries()
            if entry.manifest.language == language and entry.manifest.requirements == wanted
        }
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory / "requests"):
                if self.recall(name) in keys:
                    (self._directory / "requests" / name).unlink(missing_ok=True)

    def find(self, key: str) -> EnvironmentManifest | None:
        """Return an undamaged entry, whose lock the caller holds; None if there is none. Removes a damaged one."""
        entry = self._directory / key
        if not entry.exists():
            return None
        try:
            manifest = _read_manifest(entry)
            if self._is_sound(entry, manifest):
                os.utime(entry / _CHECKED, (time.time(), (entry / _CHECKED).stat().st_mtime))
                return manifest
        except (OSError, ValueError, TypeError, TreeError):
            pass
        self._remove(entry)
        return None

    def _is_sound(self, entry: Path, manifest: EnvironmentManifest) -> bool:
        folder = os.fspath(entry / ENVIRONMENT)
        for name, changed in manifest.directories.items():
            facts = os.lstat(f"{folder}/{name}")
            if facts.st_mtime_ns != changed or not stat.S_ISDIR(facts.st_mode):
                return False
        checked = (entry / _CHECKED).stat().st_mtime
        now = time.time()
        started = now - time.clock_gettime(time.CLOCK_BOOTTIME)
        if started < checked <= now and now - checked < _CHECK_AGAIN_S:
            return True
        if measure(Path(folder)).files_sha256 != manifest.files_sha256:
            return False
        os.utime(entry / _CHECKED)
        return True

    def locate(self, key: str) -> Path:
        """Return the environment of an entry."""
        return self._directory / key / ENVIRONMENT

    @contextmanager
    def stage(self) -> Generator[Staging]:
        """Yield a new directory beside the entries, and remove what is left of it afterwards. Raises OSError."""
        path = self._directory / f"{_STAGING}{os.urandom(8).hex()}"
        path.mkdir(mode=0o700)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield Staging(path, handle)
        finally:
            os.close(handle)
            self._remove(path)

    def publish(self, staging: Staging, key: str, manifest: EnvironmentManifest) -> None:
        """Make a staged environment an entry, and make room for it. Raises OSError.

        The caller holds the lock for making this key.
        """
        with contextlib.suppress(FileNotFoundError):
            scratch.remove_directory(os.fspath(staging.cache))
        data = orjson.dumps({"format": FORMAT_VERSION, **manifest._asdict()})
        (staging.path / _MANIFEST).write_bytes(data)
        (staging.path / _CHECKED).touch(mode=0o600)
        staging.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
        target = self._directory / key
        try:
            staging.path.rename(target)
        except OSError as error:
            if error.errno not in {errno.EEXIST, errno.ENOTEMPTY}:
                raise  # otherwise another process was faster, and equal keys have equal content
        self.collect(keep=key)

    def list_entries(self) -> list[StoreEntry]:
        """Return all entries, the most recently used first. Skips those that cannot be read."""
        found: list[StoreEntry] = []
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory):
                with contextlib.suppress(OSError, ValueError, TypeError):
                    if _is_key(name):
                        entry = self._directory / name
                        found.append(
                            StoreEntry(name, _read_manifest(entry), (entry / _CHECKED).stat().st_atime)
                        )
        return sorted(found, key=lambda entry: entry.used_at, reverse=True)

    def collect(self, *, keep: str = "", all_entries: bool = False) -> list[StoreEntry]:
        """Remove the least recently used entries until the rest fits, and stale staging. Return what was removed.

        Leaves entries in use, and `keep`. With `all_entries` nothing else is left.
        """
        total, removed = 0, list[StoreEntry]()
        for entry in self.list_entries():
            total += entry.manifest.size_bytes
            if entry.key == keep or (total <= self._max_bytes and not all_entries):
                continue
            with contextlib.suppress(OSError), self.try_lock(entry.key) as free:
                if free:
                    self._remove(self._directory / entry.key)
                    total -= entry.manifest.size_bytes
                    removed.append(entry)
        self._remove_stale()
        self._remove_requests()
        return removed

    def _remove_requests(self) -> None:
        """Remove the resolutions whose entries are gone."""
        with contextlib.suppress(OSError):
            for name in os.listdir(self._directory / "requests"):
                if not (self._directory / (self.recall(name) or "none")).exists():
                    (self._directory / "requests" / name).unlink(missing_ok=True)

    def _remove_stale(self) -> None:
        """Remove the staging directories of dead processes, and entries without a manifest."""
        for name in os.listdir(self._directory):
            if not name.startswith(_STAGING):
                continue
            with contextlib.suppress(OSError):
                handle = os.open(self._directory / name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._remove(self._directory / name)
                finally:
                    os.close(handle)

    def _remove(self, path: Path) -> None:
        with contextlib.suppress(OSError):
            if path.exists() and not path.name.startswith(_STAGING):
                # Renamed first: an entry is whole or absent, also if this process dies now.
                moved = path.with_name(f"{_STAGING}{os.urandom(8).hex()}")
                path.rename(moved)
                path = moved
            scratch.remove_directory(os.fspath(path))


def _is_key(text: str) -> bool:
    return len(text) == _KEY_CHARS and set(text) <= set("0123456789abcdef")


def _read_manifest(entry: Path) -> EnvironmentManifest:
    """Return the manifest of an entry. Raises OSError, ValueError and TypeError."""
    data = cast("dict[str, Any]", orjson.loads(read_bounded(entry / _MANIFEST, _MAX_MANIFEST_BYTES)))
    if data.pop("format", None) != FORMAT_VERSION:
        raise ValueError("of another version")
    return EnvironmentManifest(**data)


def name_environment(key: str, manifest: EnvironmentManifest) -> PackageEnvironment:
    """Return an entry as the record names it."""
    return PackageEnvironment(key, manifest.lock_sha256, tuple(manifest.packages))


class Measured(NamedTuple):
    """The content of a tree."""

    size_bytes: int
    file_count: int
    directories: dict[str, int]
    files_sha256: str


def measure(folder: Path) -> Measured:
    """Return what a tree contains. Raises OSError."""
    total, count, directories, digest = 0, 0, dict[str, int](), hashlib.sha256()
    for name, facts in walk(folder):
        if stat.S_ISDIR(facts.st_mode):
            directories[name] = facts.st_mtime_ns
            continue
        total += facts.st_size
        count += 1
        digest.update(b"%b\0%d\0%d\n" % (os.fsencode(name), facts.st_size, facts.st_mtime_ns))
    return Measured(total, count, directories, digest.hexdigest())


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the relative paths of a tree in a fixed order, each directory before its content, through no link.

    Raises TreeError for a tree of too many entries or levels.
    """
    pending, seen = ["."], 0
    while pending:
        name = pending.pop()
        facts = os.lstat(folder / name)
        yield name, facts
        seen += 1
        if seen > _MAX_ENTRIES or name.count("/") > _MAX_DEPTH:
            raise TreeError(f"it has more than {_MAX_ENTRIES} files, or more than {_MAX_DEPTH} levels")
        if stat.S_ISDIR(facts.st_mode):
            below = "" if name == "." else f"{name}/"
            pending += sorted((f"{below}{entry}" for entry in os.listdir(folder / name)), reverse=True)


def take_tree(source: Path, target: Path, max_bytes: int) -> None:
    """Move a tree that an installation made to `target`, as files of this user that jobs can read and not change.

    All processes of the installation have ended. Raises TreeError for anything except files, directories and links
    within the tree, for a file with several names, and for more than `max_bytes`; OSError if moving fails.
    """
    total = 0
    for name, facts in walk(source):
        path = source / name
        if stat.S_ISREG(facts.st_mode):
            total += facts.st_size
        if total > max_bytes:
            raise TreeError(f"it has more than {max_bytes} bytes (packages.max_bytes)")
        if stat.S_ISLNK(facts.st_mode):
            where = os.path.normpath(os.path.join(os.path.dirname(name), os.readlink(path)))
            if os.path.isabs(where) or f"{where}/".startswith("../"):
                raise TreeError(f"the link {name!a} leads out of the environment")
        elif stat.S_ISREG(facts.st_mode):
            if facts.st_nlink != 1:
                raise TreeError(f"{name!a} has several names")
        elif not stat.S_ISDIR(facts.st_mode):
            raise TreeError(f"{name!a} is not a file")
        if not stat.S_ISLNK(facts.st_mode):
            is_runnable = stat.S_ISDIR(facts.st_mode) or facts.st_mode & stat.S_IXUSR
            os.chmod(path, _RUNNABLE_MODE if is_runnable else _FILE_MODE)
        if os.geteuid() == 0:
            os.lchown(path, 0, 0)
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        import shutil

        shutil.copytree(
            source, target, symlinks=True
        )  # of files that are checked, and that no job can change now
