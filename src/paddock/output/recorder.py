"""The output of one execution on its way: redacted as it arrives, compressed into a spool, published when it is whole.

Theory of operation. Both streams go through their redactors and then to three places: the ends that stay in memory, the
SHA-256, and a gzip spool that is a file without a name once it outgrows memory. So a server that dies leaves nothing
behind that can be read, at most files that a sweep removes, and a gigabyte of output costs no more memory than a
megabyte. Nothing is visible before `finish` has put the manifest, which comes last; the streams are put before the
program has been buried, when both have ended and there is little of them.
"""

import asyncio
import hashlib
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cached_property
from io import BytesIO
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Protocol

from paddock.model.artifact import STREAMS, Handle, RunFacts, Stream
from paddock.model.capture import HeadAndTail
from paddock.model.errors import ArtifactError
from paddock.model.program import CapturedStream
from paddock.redaction.scanner import Scanner
from paddock.redaction.stream import StreamRedactor

OnOutput = Callable[[Stream, bytes], None]
"""Sees redacted output as it comes, in order. Must not block and must not raise."""

_COMPRESSION_LEVEL = 4
_GZIP_BITS = 16
"""Added to the size of a window (log2), it has zlib write a gzip file."""
_SMALL_BYTES, _SMALL_WINDOW_BITS = 512, 9
"""So many bytes need no larger window than zlib's least, which is made in a fifth of the time."""
_MAX_MEMORY_BYTES = 256 * 1024
"""Compressed bytes of a stream that need no file."""


class ArtifactWriter(Protocol):
    """What a recording needs of the place that keeps artifacts."""

    def begin(self, workspace: Path) -> Handle:
        """Return the handle of a new artifact, made as far as it can be without its output. Raises ArtifactError."""
        ...

    def is_quick(self, size: int) -> bool:
        """Tell whether putting so many bytes is done before another thread would have begun."""
        ...

    def put(self, handle: Handle, tracks: Mapping[Stream, "RecordedStream"]) -> None:
        """Put the streams that were recorded. Raises ArtifactError, and leaves nothing then."""
        ...

    def publish(self, handle: Handle, facts: RunFacts, tracks: Mapping[Stream, "RecordedStream"]) -> None:
        """Have what was put be read. Raises ArtifactError, and leaves nothing then."""
        ...

    def drop(self, handle: Handle) -> None:
        """Leave nothing of what was begun."""
        ...

    @property
    def must_sweep(self) -> bool:
        """Whether nobody has deleted for a while what has expired."""
        ...

    def sweep_when_due(self) -> None:
        """Delete what has expired, when nobody has done so for a while."""
        ...


class Recording:
    """Takes the output of one execution. Not thread-safe; ends with `finish` or `discard`.

    `store` is None when nothing shall be kept. `refusal` says why there is no artifact, once that is known.
    """

    def __init__(
        self,
        scanner: Scanner,
        *,
        kept_bytes: Mapping[Stream, int],
        max_bytes: int,
        store: ArtifactWriter | None,
        setting: str = "artifacts.max_bytes",
        on_output: OnOutput | None = None,
    ) -> None:
        """Keep at most `max_bytes`, which `setting` names."""
        self.refusal = "" if store else "output is not kept"
        self._store = store
        self._handle: Handle | None = None
        self._over = False
        self._put = False
        self._room = max_bytes
        self._max_bytes = max_bytes
        self._setting = setting
        self._on_output = on_output
        self._scanner = scanner
        self._kept_bytes = kept_bytes

    @cached_property
    def _tracks(self) -> "dict[Stream, RecordedStream]":
        """The streams: made when the program has been started, which does not wait for them then."""
        return {stream: RecordedStream(self._scanner, self._kept_bytes[stream]) for stream in STREAMS}

    def prepare(self, workspace: Path) -> None:
        """Make what the artifact needs, while the program runs; harmless when it cannot be, or has ended."""
        if self._store is not None and not self._over:
            with suppress(ArtifactError):  # who publishes will try again, and say why that is impossible
                self._handle = self._store.begin(workspace)

    def stdout(self, data: bytes) -> None:
        """Take the next bytes of standard output; none are its end."""
        self._hear("stdout", data)

    def stderr(self, data: bytes) -> None:
        """Take the next bytes of standard error; none are its end."""
        self._hear("stderr", data)

    def _hear(self, stream: Stream, data: bytes) -> None:
        if data:
            self._take_bytes(stream, self._tracks[stream].redact(data))
            return
        self._end_track(stream)
        ended = all(track.ended for track in self._tracks.values())
        if ended and self._store is not None and self._handle is not None and self._is_quick(self._store):
            try:
                self._store.put(self._handle, self._tracks)
                self._put = True
            except ArtifactError as error:
                self._refuse_storage(_not_kept(error))

    def _end_track(self, stream: Stream) -> None:
        if not self._tracks[stream].ended:
            self._take_bytes(stream, self._tracks[stream].end())

    async def finish(self, facts: RunFacts) -> str | None:
        """Publish the artifact and return its handle; None when there is none, and then `refusal` says why.

        Failed, it leaves nothing that can be read; cancelled, nothing or the whole. The execution is none the worse.
        """
        for stream in STREAMS:
            self._end_track(stream)
        if self.refusal or self._store is None:
            await self.discard()
            return None
        handle, self._handle = self._handle, None  # a thread may be at it while this is cancelled
        try:
            if self._is_quick(self._store) and not self._store.must_sweep:
                return self._publish_artifact(self._store, handle, facts)
            return await asyncio.to_thread(self._publish_artifact, self._store, handle, facts, sweep=True)
        except Exception as error:  # noqa: BLE001 - an artifact is never worth an outcome
            self._refuse_storage(_not_kept(error))
            return None
        finally:
            await self.discard()

    async def discard(self) -> None:
        """Keep nothing; harmless when it is finished."""
        self._over = True
        if self._store is not None and self._handle is not None:
            self._store.drop(self._handle)
            self._handle = None
        for track in self._tracks.values():
            track.drop()

    def _publish_artifact(
        self, store: ArtifactWriter, handle: Handle | None, facts: RunFacts, *, sweep: bool = False
    ) -> str:
        handle = handle or store.begin(Path(facts.workspace))
        if not self._put:
            store.put(handle, self._tracks)
        store.publish(handle, facts, self._tracks)
        if sweep:
            store.sweep_when_due()
        return str(handle)

    def make_captured(self, stream: Stream) -> CapturedStream:
        """Return the two ends of a stream, redacted, complete after `finish`; sizes are those of before redaction."""
        track = self._tracks[stream]
        return track.ends.make_captured(track.written)

    @property
    def redactions(self) -> int:
        """How many secrets were removed so far."""
        return sum(track.redactions for track in self._tracks.values())

    def _is_quick(self, store: ArtifactWriter) -> bool:
        return not self.refusal and store.is_quick(self._max_bytes - self._room)

    def _take_bytes(self, stream: Stream, data: bytes) -> None:
        if not data:
            return
        self._tracks[stream].keep(data)
        if self._on_output is not None:
            self._on_output(stream, data)
        if self.refusal:
            return
        self._room -= len(data)
        if self._room < 0:
            self._refuse_storage(f"output is not kept: it is larger than {self._setting} = {self._max_bytes}")
            return
        try:
            self._tracks[stream].spool(data)
        except OSError as error:
            self._refuse_storage(_not_kept(error.strerror))

    def _refuse_storage(self, why: str) -> None:
        self.refusal = why
        for track in self._tracks.values():
            track.drop()


def _not_kept(why: object) -> str:
    """Return what is told when an artifact cannot be made; the texts of stores run over many lines."""
    return f"output could not be kept: {str(why).partition(chr(10))[0]}"


class RecordedStream:
    """One stream of a recording."""

    def __init__(self, scanner: Scanner, kept_bytes: int) -> None:
        self.ends = HeadAndTail(kept_bytes)
        self.ended = False
        """Whether nothing comes any more."""
        self.written = 0
        """Bytes that the program wrote."""
        self._redactor = StreamRedactor(scanner)
        self._digest = hashlib.sha256()
        self._small = b""
        """Everything spooled, as long as there is little of it: most programs say little, and to one stream."""
        self._packed: _GzipSpool | None = None

    @property
    def redactions(self) -> int:
        """How many secrets were removed so far."""
        return self._redactor.count

    def redact(self, data: bytes) -> bytes:
        """Return what is certain after the next bytes."""
        self.written += len(data)
        return self._redactor.feed(data)

    def end(self) -> bytes:
        """Return what was held back; nothing comes after it."""
        self.ended = True
        return self._redactor.end()

    def keep(self, data: bytes) -> None:
        """Keep redacted bytes in memory, as far as they belong to an end."""
        self.ends.take(data)

    def spool(self, data: bytes) -> None:
        """Write redacted bytes to the spool. Raises OSError."""
        self._digest.update(data)
        if self._packed is None:
            self._small += data
            if len(self._small) <= _SMALL_BYTES:
                return
            self._packed, data, self._small = _GzipSpool(), self._small, b""
        self._packed.write(data)

    @property
    def sha256(self) -> str:
        """SHA-256 of everything spooled."""
        return self._digest.hexdigest()

    def finish_packed(self) -> IO[bytes]:
        """Return the finished gzip file, at its start. Raises OSError."""
        if self._packed is not None:
            return self._packed.finish()
        packer = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _GZIP_BITS + _SMALL_WINDOW_BITS, 1)
        return BytesIO(packer.compress(self._small) + packer.flush())

    def drop(self) -> None:
        """Free the spool."""
        self._small = b""
        if self._packed is not None:
            self._packed.close()
            self._packed = None


class _GzipSpool:
    """A gzip file in the making."""

    def __init__(self) -> None:
        self._packer = zlib.compressobj(_COMPRESSION_LEVEL, zlib.DEFLATED, _GZIP_BITS + zlib.MAX_WBITS)
        self._spool: IO[bytes] = SpooledTemporaryFile(_MAX_MEMORY_BYTES)  # noqa: SIM115
        self.close = self._spool.close

    def write(self, data: bytes) -> None:
        self._spool.write(self._packer.compress(data))

    def finish(self) -> IO[bytes]:
        self._spool.write(self._packer.flush())
        self._spool.seek(0)
        return self._spool
