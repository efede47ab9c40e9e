"""Files that a program leaves in its working directory: listed, judged by their content, kept as artifacts.

The program is dead when they are read, and everything that it left may be meant to mislead: nothing leads through a
link, into a device or a pipe, or to a file that has another name elsewhere.
"""

import hashlib
import mimetypes
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from paddock.model.artifact import RunFacts
from paddock.model.limits import KIB, MIB
from paddock.model.work_files import OutputFile
from paddock.output.artifacts import Artifacts

if TYPE_CHECKING:
    from paddock.output.recorder import Recording

MAX_LISTED_FILES = 1000
"""Maximum number of files that are listed."""
MAX_STORED_FILES = 100
"""Maximum number of files that are kept."""
_MAX_ENTRIES, _MAX_DEPTH = 20_000, 100
_MAX_READ_BYTES = 256 * MIB
"""Maximum size of all files that are read; further ones are listed without their hash."""
_MAX_STORED_BYTES = 64 * MIB
_PIECE_BYTES = 256 * KIB
_SAMPLE_BYTES = 8 * KIB
_IGNORED_FOLDERS = frozenset({"__pycache__"})
"""Directories that a language writes by itself."""

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_BYTES = "application/octet-stream"
_TEXT_APPLICATIONS = frozenset({"application/json", "application/xml", "image/svg+xml"})


class _Left(NamedTuple):
    """A regular file in the working directory, open for reading."""

    path: str
    facts: os.stat_result
    stream: IO[bytes]


class FileCollector:
    """Takes stock of a working directory once the program has ended; `read` runs in a thread, then `keep`."""

    def __init__(
        self,
        artifacts: Callable[[], Artifacts],
        patterns: tuple[str, ...] | None,
        *,
        persist: bool,
    ) -> None:
        """Keep what matches `patterns`, by default images."""
        self._artifacts = artifacts
        self._before: Mapping[str, str] = {}
        self._patterns = patterns
        self._persist = persist
        self._found: list[tuple[OutputFile, Recording | None]] = []
        self._read_bytes = self._kept_bytes = self._kept = 0

    def read(self, folder: Path, before: Mapping[str, str]) -> None:
        """Read what is new or changed in a directory. `before` has the SHA-256 (hex) of each file that was there."""
        self._before = before
        for left in _walk_directory(folder):
            with closing(left.stream):
                if len(self._found) < MAX_LISTED_FILES:
                    self._take_file(left)

    def _take_file(self, left: _Left) -> None:
        size = left.facts.st_size
        if left.facts.st_nlink > 1:
            return self._list_unread(left, "it has another name elsewhere")
        if self._read_bytes + size > _MAX_READ_BYTES:
            return self._list_unread(left, f"the files are larger than {_MAX_READ_BYTES} bytes together")
        self._read_bytes += size
        sample = left.stream.read(min(size, _SAMPLE_BYTES))
        media_type = judge_media_type(left.path, sample)
        refusal = self._refuse(left.path, media_type, size)
        recording = None if refusal else self._artifacts().record_file(is_text=b"\0" not in sample)
        digest, rest = hashlib.sha256(), size
        for piece in _read_pieces(left.stream, sample):
            piece = piece[:rest]  # noqa: PLW2901 - what is written behind its back does not count
            rest -= len(piece)
            digest.update(piece)
            if recording is not None and piece:
                recording.stdout(piece)
            if not rest:
                break
        if self._before.get(left.path) == digest.hexdigest():
            return None
        if recording is not None:
            self._kept += 1
            self._kept_bytes += size
        file = OutputFile(
            path=left.path, size=size, media_type=media_type, sha256=digest.hexdigest(), not_kept=refusal
        )
        self._found.append((file, recording))
        return None

    def _list_unread(self, left: _Left, why: str) -> None:
        file = OutputFile(
            path=left.path,
            size=left.facts.st_size,
            media_type=_BYTES,
            sha256="",
            not_kept=why,
        )
        self._found.append((file, None))

    def _refuse(self, path: str, media_type: str, size: int) -> str:
        """Return why a file is not kept, or ""."""
        most = self._artifacts().settings.max_bytes
        if self._patterns is None and not media_type.startswith("image/"):
            return "only images are kept unless `outputs` has a pattern for it"
        if self._patterns is not None and not any(_matches(path, each) for each in self._patterns):
            return "no pattern of `outputs` matches it"
        if not self._persist:
            return "output is not kept"
        if size > most:
            return f"it is larger than artifacts.max_bytes = {most}"
        if self._kept >= MAX_STORED_FILES or self._kept_bytes + size > _MAX_STORED_BYTES:
            return f"at most {MAX_STORED_FILES} files and {_MAX_STORED_BYTES} bytes are kept"
        return ""

    async def keep(self, facts: RunFacts) -> tuple[OutputFile, ...]:
        """Store what is to be kept, and return all files by their paths. `facts` are those of the run."""
        files: list[OutputFile] = []
        for file, recording in self._found:
            if recording is None:
                files.append(file)
                continue
            own = facts.replace(file_path=file.path, media_type=file.media_type)
            handle = await recording.finish(own)
            files.append(file.replace(handle=handle, not_kept="" if handle else recording.refusal))
        self._found.clear()
        return tuple(sorted(files, key=lambda file: file.path))

    async def discard(self) -> None:
        """Keep nothing; harmless when it is finished."""
        for _, recording in self._found:
            if recording is not None:
                await recording.discard()


def judge_media_type(path: str, sample: bytes) -> str:
    """Return the media type (RFC 6838) of a file by how it begins; only for text its name counts."""
    for signature, media_type in _SIGNATURES:
        if sample.startswith(signature):
            return media_type
    if sample[:4] == b"RIFF" and sample[8:12] == b"WEBP":
        return "image/webp"
    named = mimetypes.guess_type(path)[0] or ""
    if b"\0" in sample:
        return _BYTES if not named or named.startswith(("image/", "text/")) else named
    return named if named.startswith("text/") or named in _TEXT_APPLICATIONS else "text/plain"


def _matches(path: str, pattern: str) -> bool:
    return fnmatchcase(path, pattern) or fnmatchcase(path.rpartition("/")[2], pattern)


def _read_pieces(stream: IO[bytes], first: bytes) -> Iterator[bytes]:
    yield first
    while piece := stream.read(_PIECE_BYTES):
        yield piece


def _walk_directory(folder: Path) -> Iterator[_Left]:
    """Yield the regular files below a directory in the order of their paths, each through no link."""
    try:
        pending = [("", os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC))]
    except OSError:  # the program removed it, or put something else in its place
        return
    entries = 0
    try:
        while pending:
            prefix, place = pending.pop()
            try:
                names = sorted(os.listdir(place))
                folders: list[tuple[str, int]] = []
                for name in names:
                    entries += 1
                    if entries > _MAX_ENTRIES:
                        return
                    opened = _open_entry(name, place)
                    if opened is None:
                        continue
                    file, facts = opened
                    path = f"{prefix}{os.fsencode(name).decode('utf-8', 'backslashreplace')}"
                    if stat.S_ISREG(facts.st_mode):
                        yield _Left(path, facts, os.fdopen(file, "rb"))
                    elif name in _IGNORED_FOLDERS or prefix.count("/") >= _MAX_DEPTH:
                        os.close(file)
                    else:
                        folders.append((f"{path}/", file))
                pending += reversed(folders)
            finally:
                os.close(place)
    finally:
        for _, place in pending:
            os.close(place)


def _open_entry(name: str, place: int) -> tuple[int, os.stat_result] | None:
    """Open a regular file or a directory; None for anything else, and for what cannot be read."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        kind = os.stat(name, dir_fd=place, follow_symlinks=False).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            return None  # a device may act when it is opened
        file = os.open(name, flags, dir_fd=place)
    except OSError:
        return None
    facts = os.fstat(file)
    if stat.S_ISREG(facts.st_mode) or stat.S_ISDIR(facts.st_mode):
        return file, facts
    os.close(file)
    return None
