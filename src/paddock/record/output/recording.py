"""Capture the output of one execution (not the audit record): redact it, compress it, publish it when it is complete.

Theory of operation. Both streams go through their redactors, and then to head and tail in memory, the SHA-256, and a
gzip spool. A spool that outgrows memory is a file without a name. Therefore a server that dies leaves nothing that can
be read, only files for a sweep to remove, and a gigabyte of output takes no more memory than a megabyte. Nothing is
visible before `finish` has written the manifest, which is last. If there is little output, the streams are written as
soon as both have ended, before the program has been reaped.
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
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.redaction.stream import StreamRedactor

OnOutput = Callable[[Stream, bytes], None]
"""Receives redacted output as it arrives, in order. Must not block and must not raise."""

_COMPRESSION_LEVEL = 4
_GZIP_BITS = 16
"""Added to the window size (log2), it makes zlib write a gzip file."""
_SMALL_BYTES, _SMALL_WINDOW_BITS = 512, 9
"""Up to so many bytes, zlib's minimum window is enough, which takes a fifth of the time to set up."""
_MAX_MEMORY_BYTES = 256 * 1024
"""Maximum compressed bytes of a stream that stay in memory."""


class ArtifactWriter(Protocol):
    """What a recording needs of the artifact store."""

    def begin(self, workspace: Path) -> Handle:
        """Return the handle of a new artifact, prepared as far as possible without its output. Raises ArtifactError."""
        ...

    def is_quick(self, size: int) -> bool:
        """Return whether writing so many bytes takes less time than starting a thread."""
        ...

    def put(self, handle: Handle, tracks: Mapping[Stream, "RecordedStream"]) -> None:
        """Write the recorded streams. On ArtifactError, nothing of the artifact is left."""
        ...

    def publish(self, handle: Handle, facts: RunFacts, tracks: Mapping[Stream, "RecordedStream"]) -> None:
        """Make the artifact readable. On ArtifactError, nothing of it is left."""
        ...

    def drop(self, handle: Handle) -> None:
        """Delete an artifact that was begun."""
        ...

    @property
    def must_sweep(self) -> bool:
        """Whether no process has deleted expired artifacts recently."""
        ...

    def sweep_when_due(self) -> None:
        """Delete expired artifacts unless a process has done so recently."""
        ...


class Recording:
    """Records the output of one execution. Not thread-safe; ends with `finish` or `discard`.

    `store` is None if output is not to be stored. `refusal` has the reason if there is no artifact.
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
        """Store at most `max_bytes`, the value of `setting`."""
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
        """The streams, made at their first use, so that the start of the program does not wait for them."""
        return {stream: RecordedStream(self._scanner, self._kept_bytes[stream]) for stream in STREAMS}

    def prepare(self, workspace: Path) -> None:
        """Begin the artifact while the program runs. Does nothing if that fails, or after the end."""
        if self._store is not None and not self._over:
            with suppress(ArtifactError):  # `finish` tries again and reports the error
                self._handle = self._store.begin(workspace)

    def stdout(self, data: bytes) -> None:
        """Record the next bytes of standard output; b"" is its end."""
        self._record("stdout", data)

    def stderr(self, data: bytes) -> None:
        """Record the next bytes of standard error; b"" is its end."""
        self._record("stderr", data)

    def _record(self, stream: Stream, data: bytes) -> None:
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
        """Publish the artifact and return its handle; None if there is none, for the reason in `refusal`.

        After a failure nothing can be read; after a cancellation, nothing or the whole artifact. A failure does not
        change the outcome of the execution.
        """
        for stream in STREAMS:
            self._end_track(stream)
        if self.refusal or self._store is None:
            await self.discard()
            return None
        handle, self._handle = self._handle, None  # a thread may still write it after a cancellation
        try:
            if self._is_quick(self._store) and not self._store.must_sweep:
                return self._publish_artifact(self._store, handle, facts)
            return await asyncio.to_thread(self._publish_artifact, self._store, handle, facts, sweep=True)
        except Exception as error:  # noqa: BLE001 - a failed artifact must not fail the execution
            self._refuse_storage(_not_kept(error))
            return None
        finally:
            await self.discard()

    async def discard(self) -> None:
        """Drop everything. Does nothing after `finish`."""
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
        """Return head and tail of a stream, redacted; complete after `finish`. Sizes are those before redaction."""
        track = self._tracks[stream]
        return track.ends.make_captured(track.written)

    def read_streams(self) -> tuple[CapturedStream, ...]:
        """Return head and tail of both streams so far."""
        return tuple(map(self.make_captured, STREAMS))

    @property
    def redactions(self) -> int:
        """Number of secrets removed so far."""
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
    """Return the refusal for an artifact that cannot be made; errors of backends may have many lines."""
    return f"output could not be kept: {str(why).partition(chr(10))[0]}"


class RecordedStream:
    """One stream of a recording."""

    def __init__(self, scanner: Scanner, kept_bytes: int) -> None:
        self.ends = HeadAndTail(kept_bytes)
        self.ended = False
        """Whether the stream has ended."""
        self.written = 0
        """Bytes that the program wrote."""
        self._redactor = StreamRedactor(scanner)
        self._digest = hashlib.sha256()
        self._small = b""
        """Everything spooled, while it is little: most programs write little, and to one stream."""
        self._packed: _GzipSpool | None = None

    @property
    def redactions(self) -> int:
        """Number of secrets removed so far."""
        return self._redactor.count

    def redact(self, data: bytes) -> bytes:
        """Take the next bytes, and return the redacted bytes that are final."""
        self.written += len(data)
        return self._redactor.feed(data)

    def end(self) -> bytes:
        """End the stream, and return the redacted bytes that were held back."""
        self.ended = True
        return self._redactor.end()

    def keep(self, data: bytes) -> None:
        """Keep redacted bytes in memory that belong to head or tail."""
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
    """A gzip file that is being written."""

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
