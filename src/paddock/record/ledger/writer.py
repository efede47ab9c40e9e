"""The audit ledger: hash-chained NDJSON, one dated file per UTC day. Nothing runs without its record in the ledger.

Guarantees of a writer:

* `claim` and `append` return after the whole record is in the file, as one line by one write. If this process dies, by
  any signal, no record whose call has returned is lost.
* A record of `append_soon` is written together with the next record and before it, or by the thread below, at most
  `SYNC_INTERVAL_S` later. If this process dies first, the record is lost, as if the process had died a moment earlier
  while its request was running. If it cannot be written, it stays first in the queue, and calls for other records raise
  the error.
* `abandon` records the end of every running request, for a process that a signal ends at once.
* With `sync="batch"` (the default) a separate thread syncs the file at most `SYNC_INTERVAL_S` after a record, so that a
  call takes microseconds and may be made on an event loop. A power failure loses only what was written since. With
  `sync="always"`, and if no thread can be started, a call returns after an fsync, which takes milliseconds: call it
  from a thread. `close` syncs.
* If another process writes at the same time, a call waits for it, for up to 5 s.
* A request is claimed at most once, by any process that uses the same directory. After a power failure with
  `sync="batch"`, a claim that was lost with its record may be made again.
* If the disk is full, the directory is not writable or a sync has failed, every call raises LedgerError.

The directory has mode 0700 and its files 0600, on a local file system. `chain` documents how the chain survives
crashes, and `verify` what a verifier can and cannot find.
"""

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, Self, TypeVar, Unpack

from paddock.foundation.own_files import ModeRepair, has_repairs, take_repairs
from paddock.model import ids
from paddock.model.errors import LedgerError
from paddock.model.outcome import Status
from paddock.record.ledger.chain import Chain
from paddock.record.ledger.claims import ClaimSearch, LedgerClaims
from paddock.record.ledger.line_format import (
    MAX_LINE_BYTES,
    LedgerEntry,
    explain_failed_call,
    new_entry,
    read_published_head,
)
from paddock.record.ledger.read import read
from paddock.record.ledger.sink import (
    ARCHIVED,
    FINISHED,
    MAX_FIELD_CHARS,
    REPAIRED,
    STARTED,
    AuditQuery,
    AuditRecord,
    Field,
    check_event,
    check_fields,
    check_ids,
    duplicate_claim_error,
    find_mint_time,
)

SYNC_INTERVAL_S = 0.2
_QUIET_INTERVALS = 10
"""Number of intervals without a record after which the syncing thread sleeps. Waking it takes the
next record as long as writing."""

_T = TypeVar("_T")


class Ledger:
    """Writes and reads the audit records of a directory; an `AuditSink` for any number of threads and processes."""

    def __init__(
        self,
        directory: Path,
        *,
        sync: Literal["batch", "always"] = "batch",
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open the ledger in `directory`, and make both if necessary; `clock` returns seconds since the epoch."""
        self._directory = directory
        self._always = sync == "always"
        self._clock = clock
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._chain = Chain(directory, clock)
        self._claims = LedgerClaims(directory)
        self._pending: list[LedgerEntry] = []
        self._under_way: dict[str, tuple[Mapping[str, Field], str | None]] = {}
        """Fields and parent of each claim without a `finished` record."""
        self._closed = False
        self._failure: OSError | None = None
        self._refused = False
        """Whether the last attempt to write failed."""
        self._unsynced = False
        self._awake = threading.Event()
        self._closing = threading.Event()
        self._syncer: threading.Thread | None = None
        try:
            self._run_alone(self._load_claims)
        except BaseException:
            self._chain.close()
            raise

    def _load_claims(self) -> None:
        self._claims.is_own("", self._chain.loads)
        self._put_pending()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Write the `started` record of a request, at most once; see `AuditSink.claim`."""
        entry = _check_entry(STARTED, request, parent, fields)
        search: ClaimSearch | None = None
        if not ids.is_unspent(request, 0):  # a guess without the lock, so that other writers need not wait
            search = ClaimSearch(self._directory, request, find_mint_time(request, self._clock()))
            search.go_on(read_published_head(self._directory))

        def put() -> None:
            self._put_claim(entry, request, search)
            self._under_way[request] = fields, parent

        self._run_alone(put)
        return self._write_entry(entry)

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Write one record; see `AuditSink.append`."""
        check_event(event)
        entry = _check_entry(event, request, parent, fields)

        def put() -> None:
            self._put_entries([entry])
            if event == FINISHED:
                self._under_way.pop(request, None)

        self._run_alone(put)
        return self._write_entry(entry)

    def append_soon(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Queue one record, which is written with the next one (`AuditSink.append_soon`). `sync="always"` writes it."""
        if self._always:
            return self.append(event, request, fields, parent=parent)
        check_event(event)
        entry = _check_entry(event, request, parent, fields, at=self._clock())
        with self._mutex:
            self._check_usable()
            self._pending.append(entry)
            if event == FINISHED:
                self._under_way.pop(request, None)
        self._sync_soon()
        return entry.id

    def query(self, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
        """Yield matching records; see `read`."""
        if self._pending and not self._closed:
            self._run_alone(self._put_pending)
        return read(self._directory, **wanted)

    def mark_archived(self, days: Iterable[Mapping[str, Field]]) -> None:
        """Record that the files of days are in an archive, and sync: the files may be removed afterwards."""
        entries = [_check_entry(ARCHIVED, "", None, day) for day in days]
        self._run_alone(lambda: self._put_entries(entries))
        self.flush()

    def flush(self) -> None:
        """Write and sync every record so far."""
        try:
            if self._pending:
                self._run_alone(self._put_pending)
        finally:
            self._sync_files()

    def _sync_files(self) -> None:
        try:
            seq, fds = self._run_alone(self._chain.to_sync)
            try:
                for fd in fds:
                    os.fsync(fd)
            finally:
                for fd in fds:
                    os.close(fd)
            self._run_alone(lambda: self._chain.mark_synced(seq))
        except OSError as error:
            # The kernel reports a failed sync only once and may drop the pages, so that no later sync proves anything.
            self._failure = error
            raise explain_failed_call(error, self._directory, "synced") from error

    def check_writable(self) -> None:
        """Raise LedgerError if the last write failed, and another one would fail now, too.

        Writes a file without a name to find that out, and nothing if the last write succeeded.
        """
        if self._refused:
            self._run_alone(self._try_disk)
        elif self._failure is not None:
            self._check_usable()

    def _try_disk(self) -> None:
        with TemporaryFile(dir=self._directory) as file:
            file.write(bytes(MAX_LINE_BYTES))
            file.flush()
        self._refused = False

    def close(self) -> None:
        """Sync and close; a second call does nothing."""
        with self._mutex:
            if self._closed:
                return
        self._closing.set()
        self._awake.set()
        if self._syncer is not None:
            self._syncer.join()
        try:
            self.flush()
        finally:
            with self._mutex:
                self._closed = True
                self._chain.close()

    def abandon(self) -> None:
        """Record that every running request was cancelled, for a process that ends at once. Raises LedgerError.

        The mutex is never released: later callers wait until the process ends, and cannot contradict these records.
        """
        self._mutex.acquire()
        ended = {"status": Status.CANCELLED.value}
        entries = [
            _check_entry(FINISHED, request, parent, {**fields, **ended})
            for request, (fields, parent) in reversed(self._under_way.items())  # calls before their programs
        ]
        self._run_locked(lambda: self._put_entries(entries))

    def _write_entry(self, entry: LedgerEntry) -> str:
        if self._always:
            self.flush()
        else:
            self._sync_soon()
        return entry.id

    def _put_claim(self, entry: LedgerEntry, request: str, search: ClaimSearch | None) -> None:
        minted = find_mint_time(request, self._chain.now)
        if not self._claims.is_own(request, self._chain.loads):
            search = search or ClaimSearch(self._directory, request, minted)
            search.go_on(self._chain.head)
            if search.found:
                raise duplicate_claim_error(request)
            self._claims.mark_brought()
        ids.spend_id(request)
        self._put_entries([entry])

    def _put_entries(self, entries: list[LedgerEntry]) -> None:
        self._chain.put([*self._list_due(), *entries])
        self._pending.clear()
        self._refused = False

    def _list_due(self) -> list[LedgerEntry]:
        """Return the records to write before the next one, including file repairs of this process."""
        if has_repairs():
            self._pending += map(_repair_entry, take_repairs())
        return self._pending

    def _put_pending(self) -> None:
        if self._list_due():
            self._put_entries([])

    def _run_alone(self, work: Callable[[], _T]) -> _T:
        """Run `work` while no other thread and no other process writes, and return its result."""
        with self._mutex:
            return self._run_locked(work)

    def _run_locked(self, work: Callable[[], _T]) -> _T:
        self._check_usable()
        try:
            self._chain.lock()
            try:
                return work()
            finally:
                self._chain.unlock()
        except OSError as error:
            self._refused = True
            raise explain_failed_call(error, self._directory, "written") from error

    def _check_usable(self) -> None:
        if self._closed:
            raise LedgerError(f"The audit ledger {self._directory} is closed. Open it again to write.")
        if os.getpid() != self._pid:
            raise LedgerError(
                f"The audit ledger {self._directory} was opened before a fork, and shares its lock with "
                "the parent process. Open another one after the fork."
            )
        if self._failure is not None:
            raise explain_failed_call(self._failure, self._directory, "synced")

    def _sync_soon(self) -> None:
        self._unsynced = True
        if self._syncer is None:
            with self._mutex:
                if self._closed:  # `close` has synced
                    return
                if self._syncer is None:
                    self._syncer = self._begin_syncer()
        if self._syncer is None:
            self.flush()
        elif not self._awake.is_set():
            self._awake.set()

    def _begin_syncer(self) -> threading.Thread | None:
        """Start and return the syncing thread; None if the user or the cgroup may have no more threads."""
        syncer = threading.Thread(target=self._sync_in_batches, name="paddock-ledger", daemon=True)
        try:
            syncer.start()
        except RuntimeError:
            return None
        return syncer

    def _sync_in_batches(self) -> None:
        quiet = 0
        while self._failure is None and not self._closing.wait(SYNC_INTERVAL_S):
            if self._unsynced:
                quiet, self._unsynced = 0, False
                try:
                    self.flush()
                except LedgerError:
                    # This thread has no caller. Every later call raises a failed sync; other errors are retried.
                    self._unsynced = True
            elif (quiet := quiet + 1) >= _QUIET_INTERVALS:
                quiet = 0
                self._sleep_until_woken()

    def _sleep_until_woken(self) -> None:
        self._awake.clear()
        # Writers, and `close`, set their flag before they check whether this thread is awake.
        if not self._unsynced and not self._closing.is_set():
            self._awake.wait()
        self._awake.set()


def _repair_entry(repair: ModeRepair) -> LedgerEntry:
    path = repair.path.encode("utf-8", "replace").decode()[:MAX_FIELD_CHARS]
    modes: dict[str, Field] = {
        "path": path,
        "mode_before": f"{repair.was:04o}",
        "mode_after": f"{repair.now:04o}",
    }
    return _check_entry(REPAIRED, "", None, modes, at=time.time())


def _check_entry(
    event: str, request: str, parent: str | None, fields: Mapping[str, Field], at: float | None = None
) -> LedgerEntry:
    check_ids(request, parent)
    check_fields(fields)
    return new_entry(event, request, parent, fields, at)
