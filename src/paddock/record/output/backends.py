"""Backends of artifacts: files in a directory of this machine, or objects in a bucket through `obstore`.

An object has a name in a group, which is a directory or the first part of a key. Errors of the file system or the
client are raised unchanged.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from errno import ENOTDIR
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from paddock.foundation.files import make_private
from paddock.foundation.own_files import NotOursError, check_directory, open_own
from paddock.model.limits import KIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from obstore import ObjectMeta
    from obstore.store import ObjectStore, RetryConfig

_RETRY_AFTER = timedelta(seconds=15)
"""Time after which a request to a bucket is not retried, because a caller waits. One request takes up to 30 s, or less
with `AWS_TIMEOUT` in the environment."""
_PIECE_BYTES = 256 * KIB
_MARKER = ".swept"
_STAGED_SUFFIX = ".new"
"""Suffix of a file that is renamed when it is complete."""


class ArtifactStore(Protocol):
    """Keeps objects in groups: each artifact is a group of `stdout.gz`, `stderr.gz` and `manifest.json`.

    What is stored has no secrets any more. Paddock decides who may read an artifact, and when it expires. Methods may
    be called from any thread, also for several groups at a time. Whatever they raise is told as an `ArtifactError`.
    """

    @property
    def is_near(self) -> bool:
        """Whether a small object is written within a millisecond; then Paddock writes it on the event loop."""
        ...

    @property
    def last_sweep(self) -> datetime:
        """When expired artifacts were deleted last, by anybody who shares the store; with a time zone."""
        ...

    def begin(self, group: str, names: Iterable[str], *, whole: str) -> None:
        """Prepare a group whose objects `names` follow, and `whole` as the last. May do nothing."""
        ...

    def put(self, group: str, name: str, data: IO[bytes], *, whole: bool = False) -> None:
        """Write an object, replacing one of that name. With `whole` no reader ever sees a part of it."""
        ...

    def read(self, group: str, name: str, chunk: int) -> Iterator[bytes]:
        """Yield an object in pieces of about `chunk` bytes, at least one; nothing when there is no such object."""
        ...

    def delete(self, group: str, names: Iterable[str]) -> None:
        """Delete objects of a group, in this order, and then the group. Missing ones are no error."""
        ...

    def drop(self, group: str) -> None:
        """Remove what `begin` has prepared for a group that is not needed. Raises nothing."""
        ...

    def groups(self) -> Iterable[str]:
        """Return the names of all groups. Names that are no groups are passed over."""
        ...

    def size(self) -> int:
        """Return the size of all objects, in bytes."""
        ...

    def swept(self, at: datetime) -> None:
        """Remember when expired artifacts were deleted."""
        ...


class LocalBackend:
    """Objects in a directory, with a directory for each group. It needs no thread."""

    is_near = True

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def begin(self, group: str, names: Iterable[str], *, whole: str) -> None:
        folder = f"{self._directory}/{group}"
        try:
            os.mkdir(folder, 0o700)
        except FileNotFoundError:
            make_private(self._directory)
            os.mkdir(folder, 0o700)
        check_directory(self._directory)
        for name in (*names, f"{whole}{_STAGED_SUFFIX}"):
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    def put(self, group: str, name: str, data: IO[bytes], *, whole: bool = False) -> None:
        path = f"{self._directory}/{group}/{name}"
        # Called three times for each program: a file object would make four more system calls.
        file = open_own(f"{path}{_STAGED_SUFFIX}" if whole else path, os.O_WRONLY)
        try:
            while piece := data.read(_PIECE_BYTES):
                while piece:
                    piece = piece[os.write(file, piece) :]
        finally:
            os.close(file)
        if whole:
            os.rename(f"{path}{_STAGED_SUFFIX}", path)

    def read(self, group: str, name: str, chunk: int) -> Iterator[bytes]:
        try:
            check_directory(self._directory)
            descriptor = open_own(self._directory / group / name)
        except (FileNotFoundError, NotADirectoryError):
            return
        except NotOursError as error:
            if error.errno == ENOTDIR:
                return
            raise
        with open(descriptor, "rb", buffering=0) as file:
            yield file.read(chunk)
            while piece := file.read(chunk):
                yield piece

    def delete(self, group: str, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(IsADirectoryError):  # `drop` removes it
                (self._directory / group / name).unlink(missing_ok=True)
        self.drop(group)

    def drop(self, group: str) -> None:
        shutil.rmtree(self._directory / group, ignore_errors=True)

    def groups(self) -> Iterable[str]:
        try:
            with os.scandir(self._directory) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def size(self) -> int:
        total = 0
        for folder, _, names in os.walk(self._directory):
            for name in names:
                try:
                    total += os.lstat(os.path.join(folder, name)).st_size
                except FileNotFoundError:  # swept by another process
                    continue
        return total

    @property
    def last_sweep(self) -> datetime:
        """Return the time of the last sweep by any process that shares the directory."""
        try:
            return datetime.fromtimestamp((self._directory / _MARKER).stat().st_mtime, UTC)
        except FileNotFoundError:
            return datetime.fromtimestamp(0, UTC)

    def swept(self, at: datetime) -> None:
        marker = self._directory / _MARKER
        marker.touch(mode=0o600)
        os.utime(marker, (at.timestamp(), at.timestamp()))


class ObjectStoreBackend:
    """Objects behind a URL: S3 and compatible stores, or memory. Each process sweeps on its own schedule."""

    is_near = False

    def __init__(self, url: str, now: datetime) -> None:
        self._url = url
        self.last_sweep = now

    def begin(self, group: str, names: Iterable[str], *, whole: str) -> None:
        """Do nothing."""

    def put(self, group: str, name: str, data: IO[bytes], *, whole: bool = False) -> None:
        import obstore

        obstore.put(self.client, f"{group}/{name}", data, max_concurrency=1)

    def read(self, group: str, name: str, chunk: int) -> Iterator[bytes]:
        import obstore

        try:
            found = obstore.get(self.client, f"{group}/{name}")
        except FileNotFoundError:
            return
        if not found.meta["size"]:
            yield b""
        for piece in found.stream(min_chunk_size=chunk):
            yield bytes(piece)

    def delete(self, group: str, names: Iterable[str]) -> None:
        import obstore

        for name in names:
            try:
                obstore.delete(self.client, f"{group}/{name}")
            except FileNotFoundError:
                continue

    def drop(self, group: str) -> None:
        """Do nothing: no upload was started."""

    def groups(self) -> Iterable[str]:
        import obstore

        return obstore.list_with_delimiter(self.client)["common_prefixes"]  # pyright: ignore[reportUnknownMemberType]

    def size(self) -> int:
        import obstore

        parts: Iterator[Sequence[ObjectMeta]] = obstore.list(self.client)  # pyright: ignore[reportUnknownMemberType]
        return sum(entry["size"] for part in parts for entry in part)

    def swept(self, at: datetime) -> None:
        self.last_sweep = at

    @cached_property
    def client(self) -> "ObjectStore":
        from obstore.store import from_url

        retries: RetryConfig = {"max_retries": 3, "retry_timeout": _RETRY_AFTER}
        return from_url(self._url, retry_config=retries)
