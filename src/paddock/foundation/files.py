"""Files that several processes share: locks, and content that is replaced atomically."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from paddock.foundation.own_files import NotOursError, check_directory, open_own, read_own, read_trusted
from paddock.model.errors import ConfigurationError

T = TypeVar("T")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
"""Directories of system programs; the last one is that of NixOS."""
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Directories that every program may read; some are links into /usr, or missing."""
_NEW_SUFFIX = ".new"
_PIECE_BYTES = 1024 * 1024
MAX_FILE_BYTES = 64 * 1024 * 1024
_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def make_private(directory: Path) -> None:
    """Make a directory with mode 0700 unless it exists. Raises OSError.

    Missing parents are made with mode 0755 at most, whatever the umask: no other user can replace the directory.
    """
    with contextlib.suppress(FileExistsError):  # another process may make it at the same time
        try:
            directory.mkdir(mode=0o700)
        except FileNotFoundError:
            for above in reversed(directory.parents):
                if not above.exists():
                    above.mkdir(mode=0o755, exist_ok=True)
            directory.mkdir(mode=0o700)
    if not directory.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(directory))


@contextmanager
def hold_lock(path: Path, *, wait: bool = True) -> Generator[bool]:
    """Hold the lock of a file and yield True. Without `wait`, yield False at once if another process holds it.

    Makes the file and its directory, readable by their owner only. Raises OSError, also for another user's file.
    """
    make_private(path.parent)
    lock = open_own(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        yield False
        return
    except BaseException:
        os.close(lock)
        raise
    try:
        yield True
    finally:
        os.close(lock)


def replace_file(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Replace a file atomically: readers, and a crash, find either the old or the new content. Raises OSError.

    The file is synced to disk when this returns. Also removes temporary files that killed writers left beside it.
    """
    _remove_stale(path.parent, f".{path.name}.", _NEW_SUFFIX)
    handle, made = _make_locked(
        lambda: tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_NEW_SUFFIX)
    )
    try:
        with open(handle, "wb") as file:
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
            Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Write the names in a directory to disk. Raises OSError."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_pieces(file: int) -> Iterator[bytes]:
    """Yield an open file from its start, in pieces of 1 MiB. Raises OSError."""
    offset = 0
    while piece := os.pread(file, _PIECE_BYTES, offset):
        offset += len(piece)
        yield piece


def write_all(file: int, data: bytes) -> None:
    """Write all data to an open file. Raises OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def write_below(folder: Path, path: str, data: bytes, *, for_user: int | None = None) -> None:
    """Write a file below a directory in which programs may do anything, through no link. Raises OSError.

    It is a new file: one that exists is an error. With `for_user`, it belongs to that user alone, as the directories
    that are made for it, and replaces one that exists.
    """
    *parents, name = path.split("/")
    private = for_user is not None
    owner = -1 if for_user is None else for_user
    written = f".{os.urandom(8).hex()}" if private else name
    here = os.open(folder, _DIRECTORY)
    try:
        for parent in parents:
            with contextlib.suppress(FileExistsError):
                os.mkdir(parent, 0o700 if private else 0o777, dir_fd=here)
                os.chown(parent, owner, -1, dir_fd=here, follow_symlinks=False)
            here, above = os.open(parent, _DIRECTORY, dir_fd=here), here
            os.close(above)
        with open(os.open(written, _NEW_FILE, 0o600 if private else 0o666, dir_fd=here), "wb") as stream:
            try:
                stream.write(data)
                stream.flush()
                os.fchown(stream.fileno(), owner, -1)
                if private:
                    os.rename(written, name, src_dir_fd=here, dst_dir_fd=here)
            except OSError:
                os.unlink(written, dir_fd=here)
                raise
    finally:
        os.close(here)


def keep_backup(file: Path, data: bytes, *, mode: int) -> Path:
    """Write a backup of a file's content beside it as FILE.backup, FILE.backup.2 and so on; return its path.

    Never overwrites an earlier backup; returns one that has the same content. Raises OSError.
    """
    for number in count(1):
        backup = file.with_name(f"{file.name}.backup{f'.{number}' if number > 1 else ''}")
        try:
            if not backup.is_symlink() and read_trusted(backup, MAX_FILE_BYTES) == data:
                return backup
        except FileNotFoundError:
            replace_file(backup, data, mode=mode)
            return backup
        except NotOursError:
            continue
    raise AssertionError


@contextmanager
def make_temporary_directory(prefix: str, folder: Path | None = None) -> Generator[Path]:
    """Yield a new directory in `folder`, by default the temporary one, and remove it afterwards. Raises OSError.

    It may be renamed meanwhile; then it stays. Also removes the directories that killed processes left behind.
    """
    folder = folder or Path(tempfile.gettempdir()).absolute()  # TMPDIR may be "."
    _remove_stale(folder, prefix, "")
    handle, made = _make_locked(lambda: _open_new_directory(prefix, folder))
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def _open_new_directory(prefix: str, folder: Path) -> tuple[int, str]:
    while True:
        made = tempfile.mkdtemp(prefix=prefix, dir=folder)
        # Until it is locked, another process may take it for stale and remove it.
        with contextlib.suppress(FileNotFoundError):
            return os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), made


def _make_locked(make: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Return the descriptor and path that `make` returns, locked: the lock shows that their process lives."""
    while True:
        handle, made = make()
        fcntl.flock(handle, fcntl.LOCK_EX)
        if Path(made).exists():
            return handle, made
        os.close(handle)  # another process found it unlocked, took it for stale and removed it


def _remove_stale(directory: Path, prefix: str, suffix: str) -> None:
    """Remove our own stale temporary files: named by `tempfile`, owned by this user, no longer locked."""
    name = re.compile(re.escape(prefix) + "[a-z0-9_]{8}" + re.escape(suffix))
    with os.scandir(directory) as entries:
        found = [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    for path in found:
        with contextlib.suppress(OSError):  # another user's, already removed, or locked by its living process
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                facts = os.fstat(handle)
                if facts.st_uid == os.geteuid():
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if stat.S_ISDIR(facts.st_mode):
                        shutil.rmtree(path, ignore_errors=True)
                    else:
                        path.unlink()
            finally:
                os.close(handle)


def system_program(name: str) -> str | None:
    """Return the path of a system program that Paddock itself starts as the user; None without one.

    PATH is not searched: it may begin with a virtual environment in a workspace, where programs can write.
    """
    return shutil.which(name, path=SYSTEM_PATH)


def below(root: Path, path: Path) -> str:
    """Return the path of a file relative to a directory, links followed; "" if it is outside or not a file."""
    real, root = path.resolve(), root.resolve()
    return str(real.relative_to(root)) if real.is_file() and real.is_relative_to(root) else ""


def read_bounded(path: Path, max_bytes: int, *, within: Path | None = None) -> bytes:
    """Return the content of a regular file.

    Raises OSError, also for a file larger than `max_bytes`, for a pipe or device, which may never end, and for a file
    outside `within`, a path without links.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(path))
        if within is not None and not real_path_of(handle).is_relative_to(within):
            raise OSError(errno.EXDEV, "it leads out of its permitted directory", str(path))
        with open(handle, "rb", closefd=False) as file:
            data = file.read(max_bytes + 1)
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"larger than {max_bytes} bytes", str(path))
    return data


def real_path_of(handle: int) -> Path:
    """Return the real path of an open file. A link on the path that opened it may have been swapped since."""
    return Path(f"/proc/self/fd/{handle}").readlink()


def is_ours(directory: Path) -> bool:
    """Return whether only this user (and root) can put files into a directory; false for a link to one."""
    try:
        facts = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def strange_home(path: Path, problem: OSError) -> str:
    """Return a hint for an error text if `path` is in a HOME of another user, as after `sudo -u`; else ""."""
    home = Path(os.path.expanduser("~"))  # `Path.home` raises without a home
    try:
        if problem.errno != errno.EACCES or not path.is_relative_to(home):
            return ""
        owner = home.stat().st_uid
    except OSError:
        return ""
    return (
        ""
        if owner == os.geteuid()
        else f"; HOME is {home}, which belongs to user {owner}: set HOME to your own"
    )


class Kept(Protocol):
    """One JSON object that several processes share, empty at first.

    It is in a file (`JsonFile`), or in a row of a database that several machines share (`paddock.cluster.json_row`).
    `tests/contract/test_kept.py` holds for both.
    """

    def look(self) -> dict[str, Any]:
        """Return the content, which the caller must not change, as cheaply as possible. Raises ConfigurationError."""
        ...

    def recall(self) -> dict[str, Any]:
        """Return the content, as `look` does, without waiting for another machine: as last seen, empty if never."""
        ...

    def read(self) -> dict[str, Any]:
        """Return the content as it is now. Raises ConfigurationError."""
        ...

    def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let `change` alter the content, and keep it. `change` may be called again, with newer content.

        On ConfigurationError the content is unchanged.
        """
        ...


class JsonFile:
    """A file that holds one JSON object. A missing file counts as an empty object.

    Only Paddock writes it. It is read as one of Paddock's own files, unless `read` is given.
    """

    def __init__(
        self,
        path: Path,
        sound: Callable[[dict[str, Any]], bool] | None = None,
        *,
        remedy: str = "remove it to start afresh",
        read: Callable[[Path, int], bytes] | None = None,
    ) -> None:
        """Reject a file that is not JSON or whose object is not `sound`; errors end with the `remedy`."""
        self.path = path
        self._bytes = read or _read_beside_others
        self._sound = sound
        self._remedy = remedy
        self._seen: tuple[tuple[int, ...], dict[str, Any]] | None = None

    def look(self) -> dict[str, Any]:
        """Return the content, which the caller must not change. It is parsed again only if the file changed."""
        try:
            facts = self.path.lstat()
        except OSError:
            return self.read()
        which = (facts.st_ino, facts.st_mtime_ns, facts.st_size, facts.st_mode, facts.st_uid)
        if self._seen is None or self._seen[0] != which:
            self._seen = (which, self.read())
        return self._seen[1]

    def recall(self) -> dict[str, Any]:
        """Return the content, which is on this machine."""
        return self.look()

    def read(self) -> dict[str, Any]:
        """Return the content. Raises ConfigurationError if it cannot be read or is not a sound JSON object."""
        try:
            value: object = json.loads(self._bytes(self.path, MAX_FILE_BYTES))
        except FileNotFoundError:
            return {}
        except NotOursError as error:
            raise ConfigurationError(f"{error.filename}: cannot be read: {error.strerror}") from None
        except (OSError, ValueError, RecursionError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise ConfigurationError(f"{self.path}: cannot be read: {why}; {self._remedy}") from None
        if not isinstance(value, dict):
            raise ConfigurationError(f"{self.path}: is not a JSON object; {self._remedy}")
        held = cast("dict[str, Any]", value)
        if self._sound is not None and not self._sound(held):
            raise ConfigurationError(f"{self.path}: was damaged or changed; {self._remedy}")
        return held

    def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let `change` alter the content, and write it. On ConfigurationError the file is unchanged."""
        try:
            with hold_lock(self.path.with_suffix(".lock")):
                held = self.read()
                result = change(held)
                replace_file(self.path, json.dumps(held).encode())
        except OSError as error:
            raise ConfigurationError(
                f"{error.filename or self.path}: cannot be written: {error.strerror}"
            ) from None
        return result


def _read_beside_others(path: Path, max_bytes: int) -> bytes:
    """Return the content of one of our files, in a directory that other users may read. Raises OSError."""
    check_directory(path.parent, private=False)
    return read_own(path, max_bytes)
