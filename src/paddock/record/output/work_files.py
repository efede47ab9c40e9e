"""List the files that a program leaves in its working directory, judge them by their content, and store some.

The program has ended when they are read, and it may have left anything in order to mislead. Nothing is read through a
link, from a device or a pipe, or from a file that has another name elsewhere.
"""

import hashlib
import mimetypes
import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from paddock.model.artifact import RunFacts
from paddock.model.limits import KIB, MIB
from paddock.model.work_files import OutputFile
from paddock.record.output.artifacts import Artifacts

if TYPE_CHECKING:
    from paddock.record.output.recording import Recording

MAX_LISTED_FILES = 1000
"""Maximum number of files that are listed."""
MAX_STORED_FILES = 100
"""Maximum number of files that are kept."""
_MAX_READ_BYTES = 256 * MIB
"""Maximum size of all files that are read; further ones are listed without their hash."""
_MAX_STORED_BYTES = 64 * MIB
_PIECE_BYTES = 256 * KIB
_SAMPLE_BYTES = 8 * KIB

_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_BYTES = "application/octet-stream"
_TEXT_APPLICATIONS = frozenset({"application/json", "application/xml", "image/svg+xml"})


class LeftFile(NamedTuple):
    """A regular file in the working directory, open for reading."""

    path: str
    facts: os.stat_result
    stream: BufferedReader


class FileCollector:
    """Lists and stores the files of a program that has ended: first `read`, in a thread, then `keep`."""

    def __init__(
        self,
        artifacts: Callable[[], Artifacts],
        patterns: tuple[str, ...] | None,
        hide: Callable[[str], str],
        *,
        persist: bool,
    ) -> None:
        """Store files that match `patterns`, by default images. Paths are shown as `hide` returns them."""
        self._artifacts = artifacts
        self._patterns = patterns
        self._hide = hide
        self._persist = persist
        self._found: list[tuple[OutputFile, Recording | None]] = []
        self._read_bytes = self._kept_bytes = self._kept = 0

    def read(self, files: Iterator[LeftFile], before: Mapping[str, str]) -> None:
        """Read the new or changed files of a directory. `before` has the SHA-256 (hex) of each that was there."""
        for left in files:
            if len(self._found) == MAX_LISTED_FILES:
                return
            self._take_file(left, before.get(left.path))

    def _take_file(self, left: LeftFile, before: str | None) -> None:
        size = left.facts.st_size
        if left.facts.st_nlink > 1:
            return self._list_unread(left, "it has another name elsewhere")
        if self._read_bytes + size > _MAX_READ_BYTES:
            return self._list_unread(left, f"the files are larger than {_MAX_READ_BYTES} bytes together")
        self._read_bytes += size
        if before is not None:
            if before == hashlib.file_digest(left.stream, "sha256").hexdigest():
                return None
            left.stream.seek(0)
        sample = left.stream.read(min(size, _SAMPLE_BYTES))
        media_type = judge_media_type(left.path, sample)
        refusal = self._refuse(left.path, media_type, size)
        recording = None if refusal else self._artifacts().record_file(redacts=b"\0" not in sample)
        digest, rest = hashlib.sha256(), size
        for piece in chain([sample], iter(lambda: left.stream.read(_PIECE_BYTES), b"")):
            piece = piece[:rest]  # noqa: PLW2901 - what something appends meanwhile does not count
            rest -= len(piece)
            digest.update(piece)
            if recording is not None and piece:
                recording.stdout(piece)
            if not rest:
                break
        if recording is not None:
            self._kept += 1
            self._kept_bytes += size
        self._list_file(left, media_type, digest.hexdigest(), refusal, recording)
        return None

    def _list_unread(self, left: LeftFile, why: str) -> None:
        self._list_file(left, _BYTES, "", why)

    def _list_file(
        self,
        left: LeftFile,
        media_type: str,
        sha256: str,
        not_kept: str,
        recording: "Recording | None" = None,
    ) -> None:
        file = OutputFile(
            path=self._hide(left.path),  # a name may hold a secret, too
            size=left.facts.st_size,
            media_type=media_type,
            sha256=sha256,
            not_kept=not_kept,
        )
        self._found.append((file, recording))

    def _refuse(self, path: str, media_type: str, size: int) -> str:
        """Return why a file is not kept, or ""."""
        limit = self._artifacts().settings.max_bytes
        if self._patterns is None and not media_type.startswith("image/"):
            return "only images are kept unless `outputs` has a pattern for it"
        if self._patterns is not None and not any(
            fnmatchcase(path, each) or fnmatchcase(path.rpartition("/")[2], each) for each in self._patterns
        ):
            return "no pattern of `outputs` matches it"
        if not self._persist:
            return "output is not kept"
        if size > limit:
            return f"it is larger than artifacts.max_bytes = {limit}"
        if self._kept >= MAX_STORED_FILES or self._kept_bytes + size > _MAX_STORED_BYTES:
            return f"at most {MAX_STORED_FILES} files and {_MAX_STORED_BYTES} bytes are kept"
        return ""

    async def list_all(self) -> tuple[OutputFile, ...]:
        """Return all files by their paths, and store none."""
        await self.discard()
        return tuple(sorted((file for file, _ in self._found), key=lambda file: file.path))

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
