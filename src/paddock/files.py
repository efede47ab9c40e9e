"""Files that several processes keep together: a lock that one holds at a time, content that is replaced in one step."""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar, cast

from paddock.model.errors import ConfigurationError
from paddock.own_files import NotOursError, check_directory, open_own, read_own, read_trusted

T = TypeVar("T")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/run/current-system/sw/bin"
"""Where a machine keeps its programs; the last one is that of NixOS."""
_NEW_SUFFIX = ".new"
MAX_FILE_BYTES = 64 * 1024 * 1024


def make_private(directory: Path) -> None:
    """Make a directory for its owner alone unless it is there. Raises OSError.

    What is missing above it is made, too, so that nobody else can put another one in its place, whatever the umask.
    """
    with contextlib.suppress(FileExistsError):  # also another process's, made meanwhile
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
    """Hold the lock that a file stands for; without `wait` yield False at once when somebody holds it.

    Makes the file and its directory, for their owner alone. Raises OSError, also for a file that is not this user's.
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
    """Write a file so that readers see the old or the new one whole, and a crash leaves one of them. Raises OSError.

    It is on the disk when this returns. What writers that were killed have left beside it is removed.
    """
    _remove_stale(path.parent, f".{path.name}.", _NEW_SUFFIX)
    handle, made = _make_locked(
        lambda: tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=_NEW_SUFFIX)
    )
    try:
        with open(handle, "wb") as file:  # a descriptor
            os.fchmod(handle, mode)
            file.write(data)
            file.flush()
            os.fsync(handle)
            Path(made).replace(path)
    except BaseException:
        Path(made).unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def keep_backup(file: Path, data: bytes, *, mode: int) -> Path:
    """Keep what a file holds as FILE.backup beside it, or FILE.backup.2 and so on; return where. Raises OSError.

    No earlier backup is overwritten. One that holds the same already is used again.
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
def passing_directory(prefix: str) -> Generator[Path]:
    """Give an empty directory among the temporary ones, and remove it; those that the dead have left go, too.

    Raises OSError.
    """
    folder = Path(tempfile.gettempdir()).absolute()  # TMPDIR may be "."
    _remove_stale(folder, prefix, "")
    handle, made = _make_locked(lambda: _open_directory(tempfile.mkdtemp(prefix=prefix, dir=folder)))
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def _open_directory(directory: str) -> tuple[int, str]:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC), directory


def _make_locked(make: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Return what `make` makes, locked as long as it is open: who holds the lock lives."""
    while True:
        handle, made = make()
        fcntl.flock(handle, fcntl.LOCK_EX)
        if Path(made).exists():
            return handle, made
        os.close(handle)  # between making and locking somebody took it for a dead one's


def _remove_stale(directory: Path, prefix: str, suffix: str) -> None:
    """Remove what carries a name that `tempfile` gives, belongs to us, and is locked by nobody any more."""
    name = re.compile(re.escape(prefix) + "[a-z0-9_]{8}" + re.escape(suffix))
    with os.scandir(directory) as entries:
        found = [Path(entry.path) for entry in entries if name.fullmatch(entry.name)]
    for path in found:
        with contextlib.suppress(OSError):  # somebody else's, or gone, or its maker lives
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
    """Return where a program of the system is that Paddock starts for itself, as the user; None where it is not.

    On PATH a directory of a workspace may come first, as that of a virtual environment, where programs may write.
    """
    return shutil.which(name, path=SYSTEM_PATH)


def below(root: Path, path: Path) -> str:
    """Return the path of a file from a directory, links followed; empty when it is not below it, or no file."""
    real, root = path.resolve(), root.resolve()
    return str(real.relative_to(root)) if real.is_file() and real.is_relative_to(root) else ""


def read_bounded(path: Path, most: int, *, within: Path | None = None) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    Raises OSError, also for what is larger or no file: a pipe would never end, and nobody may fill our memory; and for
    what is not, or not below, the path `within`, which goes through no link.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if within is not None and not place_of(handle).is_relative_to(within):
            raise OSError(errno.EXDEV, "it leads elsewhere", str(path))
        with open(handle, "rb", closefd=False) as file:
            data = file.read(most + 1)
    finally:
        os.close(handle)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
    return data


def place_of(handle: int) -> Path:
    """Return where an open file is, which its path need not tell: links on the way may be swapped at any time."""
    return Path(f"/proc/self/fd/{handle}").readlink()


def is_ours(directory: Path) -> bool:
    """Tell whether nobody but this user (and root) can put files into a directory; false for a link to one."""
    try:
        facts = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o022


def strange_home(path: Path, problem: OSError) -> str:
    """Return what to add where `path` cannot be looked at since HOME is somebody else's, as after `sudo -u`, or ""."""
    home = Path(os.path.expanduser("~"))  # `Path.home` raises where there is no home
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


class JsonFile:
    """A file that holds one JSON object. A missing file is an empty object.

    Only Paddock writes it, and it is read as a file of Paddock's own, unless `read` says another way.
    """

    def __init__(
        self,
        path: Path,
        sound: Callable[[dict[str, Any]], bool] | None = None,
        *,
        remedy: str = "remove it to start anew",
        read: Callable[[Path, int], bytes] | None = None,
    ) -> None:
        """Refuse a file whose object is not `sound`, as one that is no JSON; errors end with the `remedy`."""
        self.path = path
        self._bytes = read or _read_beside_others
        self._sound = sound
        self._remedy = remedy
        self._seen: tuple[tuple[int, ...], dict[str, Any]] | None = None

    def look(self) -> dict[str, Any]:
        """Return what the file holds, to be looked at only; parsed again when the file is another."""
        try:
            facts = self.path.lstat()
        except OSError:
            return self.read()
        which = (facts.st_ino, facts.st_mtime_ns, facts.st_size, facts.st_mode, facts.st_uid)
        if self._seen is None or self._seen[0] != which:
            self._seen = (which, self.read())
        return self._seen[1]

    def read(self) -> dict[str, Any]:
        """Return what the file holds. Raises ConfigurationError when it holds something else."""
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
            raise ConfigurationError(f"{self.path}: holds no JSON object; {self._remedy}")
        held = cast("dict[str, Any]", value)
        if self._sound is not None and not self._sound(held):
            raise ConfigurationError(f"{self.path}: was damaged or changed; {self._remedy}")
        return held

    def update(self, change: Callable[[dict[str, Any]], T]) -> T:
        """Let `change` alter what the file holds, and write it. Raises ConfigurationError; then nothing changed."""
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


def _read_beside_others(path: Path, most: int) -> bytes:
    """Return the content of a file of ours, in a directory that others may read. Raises OSError."""
    check_directory(path.parent, private=False)
    return read_own(path, most)
