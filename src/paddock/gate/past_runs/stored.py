"""Find what was kept of a run: its output and files, and the recording of its program."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from paddock.gate.past_runs.describe import PastRun, read_text
from paddock.model.artifact import Handle, Stream
from paddock.model.errors import ArtifactError

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts

_EARLY, _LATE = timedelta(minutes=1), timedelta(minutes=10)
"""An artifact of a run gets its handle between these times before its start and after its end."""
_MAX_FILES = 100
_SIGNATURES = (
    ("image/png", b"\x89PNG\r\n\x1a\n", 0),
    ("image/jpeg", b"\xff\xd8\xff", 0),
    ("image/gif", b"GIF87a", 0),
    ("image/gif", b"GIF89a", 0),
    ("image/webp", b"WEBP", 8),
)
"""Raster images that browsers show: media type, signature and its offset."""


class StoredFile(NamedTuple):
    """A file, or the whole output, that was stored for a run."""

    handle: str
    path: str
    """Path of the file in the working directory; empty for output."""
    media_type: str
    """As it was stored; not checked."""
    size: int
    """Bytes of the file, or of standard output."""
    stderr_size: int

    @property
    def is_image(self) -> bool:
        """Whether it may be a raster image; its first bytes decide when it is read."""
        return any(self.media_type == kind for kind, _, _ in _SIGNATURES)


def list_stored(artifacts: "Artifacts", past: PastRun) -> list[StoredFile]:
    """Return what is stored for a run and its calls, the oldest first, at most `_MAX_FILES`. Raises ArtifactError."""
    requests = {past.run.id, *(call.request for call in past.calls)}
    found: dict[str, StoredFile] = {}
    for handle in _list_handles(artifacts, past):
        try:
            manifest = artifacts.find(handle, None).manifest
        except ArtifactError:  # it has just expired
            continue
        if manifest is not None and manifest.request in requests and len(found) < _MAX_FILES:
            sizes = manifest.stdout_bytes, manifest.stderr_bytes
            found[handle] = StoredFile(handle, manifest.file_path, manifest.media_type, *sizes)
    return list(found.values())


def _list_handles(artifacts: "Artifacts", past: PastRun) -> Iterator[str]:
    """Yield the handles that the record names, and those of about the same time."""
    named = read_text(past.facts, "artifact")
    if named:
        yield named
    try:
        began = datetime.fromisoformat(past.run.started)
        ended = datetime.fromisoformat(past.run.ended or past.records[-1].ts)
    except ValueError:
        return
    near: list[Handle] = [
        handle for handle in artifacts.list() if began - _EARLY <= handle.created <= ended + _LATE
    ]
    yield from (str(handle) for handle in sorted(near, key=lambda each: (each.epoch_ms, each.token)))


def read_stored(
    artifacts: "Artifacts", past: PastRun, handle: str, stream: Stream = "stdout"
) -> tuple[StoredFile, bytes] | None:
    """Return a stored file and its content; None if it is not one of the run. Raises ArtifactError."""
    found = next((each for each in list_stored(artifacts, past) if each.handle == handle), None)
    return None if found is None else (found, artifacts.read(handle, None, stream))


def sniff_image(data: bytes) -> str | None:
    """Return the media type of a raster image by its first bytes; None for anything else, such as SVG."""
    for kind, signature, offset in _SIGNATURES:
        if data[offset : offset + len(signature)] == signature:
            return None if kind == "image/webp" and data[:4] != b"RIFF" else kind
    return None
