"""The recordings of an opened Paddock: which runs have one, how it is stored, and who may read it."""

import asyncio
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta
from functools import cached_property
from os import urandom
from typing import TYPE_CHECKING

from paddock.model.errors import RecordingError, VaultError
from paddock.model.ids import find_mint_moment

if TYPE_CHECKING:
    from paddock.engines.javascript.tape import ClockStart, Tape
    from paddock.model.outcome import RawResult
    from paddock.model.request import ExecutionRequest, GuestRun, ReplayRun
    from paddock.policy.redaction.outgoing import OutgoingRedaction
    from paddock.policy.settings.schema import Settings
    from paddock.record.ledger.sink import AuditSink
    from paddock.record.payloads.recorded_run import RecordedRun
    from paddock.record.payloads.store import RecordingStore

_VAULT_PART = _SCOPE = "recordings"
_KEY_NAME = "key"
_CLOCK_SKEW = timedelta(seconds=60)


def open_store(settings: "Settings") -> "RecordingStore":
    """Return the store of recordings, whose key is in a part of the vault that programs cannot read."""
    from paddock.record.payloads.store import RecordingStore

    return RecordingStore(settings.record, lambda: _find_key(settings))


def read_recording(settings: "Settings", run: str, sha256: str) -> "RecordedRun":
    """Return the recording of a run for a person who may see it; `sha256` is that in the record of its end.

    Reads the disk. Raises RecordingError and VaultError.
    """
    from paddock.record.payloads.recorded_run import read_run

    recorded = read_run(open_store(settings).read(run, sha256))
    if recorded.run != run:
        raise RecordingError(f"the recording of {run} is of another run")
    return recorded


def _find_key(settings: "Settings") -> bytes:
    """Return the key, which is made at the first use. Raises VaultError and RecordingError."""
    from paddock.engines.secrets.vault import open_vault
    from paddock.foundation.files import hold_lock, make_private
    from paddock.record.payloads.store import KEY_BYTES

    vault = open_vault(settings.vault, _VAULT_PART)
    try:
        with hold_lock(settings.record.directory / "lock"):  # of two processes, one makes it
            text = vault.get(_SCOPE, _KEY_NAME)
            if text is None:
                text = urlsafe_b64encode(urandom(KEY_BYTES)).decode()
                make_private(settings.vault.directory)  # the vault itself would make it readable for others
                vault.set(_SCOPE, _KEY_NAME, text)
    except OSError as error:
        raise RecordingError(f"recordings cannot be used: {error.filename}: {error.strerror}") from None
    key = urlsafe_b64decode(text)
    if len(key) != KEY_BYTES:
        raise VaultError("the key of the recordings in the vault is damaged; restore it from a backup")
    return key


class Recordings:
    """Keeps and finds recordings. Nothing is imported or opened before the first one."""

    def __init__(self, settings: "Settings", outgoing: "OutgoingRedaction", audit: "AuditSink") -> None:
        self._settings = settings
        self._mode = settings.record.payloads
        self._outgoing = outgoing
        self._audit = audit

    @cached_property
    def _store(self) -> "RecordingStore":
        return open_store(self._settings)

    def begin(self, request: "ExecutionRequest", work: "GuestRun") -> "Tape | None":
        """Return what gets the actions of a program; None for a program that is not recorded.

        A program that another program started is part of the recording of that one.
        """
        if self._mode == "off" or not (work.record or self._mode == "kept"):
            return None
        if work.computes or work.session is not None or request.parent is not None:
            return None
        from paddock.engines.javascript.tape import ClockStart  # few programs are recorded

        return self.make_tape(ClockStart.draw())

    def make_tape(self, start: "ClockStart") -> "Tape":
        """Return an empty tape for a program with this start."""
        from paddock.engines.javascript.tape import Tape

        return Tape(start, self._settings.record.payload_bytes)

    async def keep(
        self, request: "ExecutionRequest", work: "GuestRun", tape: "Tape", result: "RawResult"
    ) -> "tuple[RawResult, str]":
        """Store the recording of a run. Return its result with the hash, and why it has none, which may be empty."""
        if not tape.has_begun:  # nothing can be repeated
            return result, ""
        from paddock.gate.replay.transcript import transcribe
        from paddock.record.payloads.recorded_run import write_run
        from paddock.record.payloads.store import explain_size

        if tape.is_too_large:
            why = explain_size(self._settings.record.payload_bytes)
            return result, f"this run was not recorded: {why}"
        try:
            run = await transcribe(request, work, tape, result, self._outgoing)
            sha256 = await asyncio.to_thread(lambda: self._store.write(request.id, write_run(run)))
        except (RecordingError, VaultError) as why:
            return result, f"this run was not recorded: {why}"
        return result.model_copy(update={"recording": sha256}), ""

    async def load(self, request: "ExecutionRequest", work: "ReplayRun") -> "RecordedRun":
        """Return the recording that a request names. Raises RecordingError, VaultError and LedgerError.

        The ledger must name the recording of the run, and the run must be of the actor and workspace of the request. A
        person at the command line may name another actor.
        """
        from paddock.record.payloads.recorded_run import read_run

        if work.recording:
            return read_run(work.recording)
        owner = work.owner or request.actor
        if owner != request.actor and request.surface != "cli":
            raise RecordingError(
                "the run is of another actor; only a person at the command line may repeat it"
            )
        sha256 = await asyncio.to_thread(self._find_hash, work.run, owner)
        recorded = read_run(await asyncio.to_thread(self._store.read, work.run, sha256))
        if (recorded.run, recorded.actor) != (work.run, owner):
            raise RecordingError(f"the recording of {work.run} is of another run")
        if recorded.workspace != str(request.workspace):
            raise RecordingError(
                f"the run {work.run} is of another workspace; repeat it with --workspace {recorded.workspace}"
            )
        return recorded

    def _find_hash(self, run: str, owner: str) -> str:
        """Return the SHA-256 of a recording, from the record of its run."""
        from paddock.gate.work.kind import shorten_name

        minted = find_mint_moment(run)
        if minted is None:
            raise RecordingError(
                f"{run[:64]!r} is not the id of a run; `paddock record list` lists the recorded runs"
            )
        since = minted - _CLOCK_SKEW
        records = self._audit.query(event="finished", request=run, since=since, limit=1, newest_first=False)
        record = next(records, None)
        if record is None:
            raise RecordingError(f"the ledger has no intact record of the end of {run}")
        if record.fields.get("actor") != self._outgoing.facts({"actor": shorten_name(owner)})["actor"]:
            raise RecordingError(
                f"the run {run} is of another actor; at the command line, name it: --actor NAME"
            )
        sha256 = record.fields.get("recording_sha256")
        if not isinstance(sha256, str):
            raise RecordingError(
                f"the run {run} was not recorded; run the program with --record, or set record.payloads"
            )
        return sha256
