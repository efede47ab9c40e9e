"""Stand-ins for tests: a record and a store in memory, and a sandbox that runs nothing."""

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Unpack

from paddock.confinement.sandbox.protocol import Streams
from paddock.model.errors import LedgerError
from paddock.model.outcome import SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits, ProcessResult
from paddock.model.program import CapturedStream
from paddock.model.sandbox import Tier
from paddock.record.ledger.line_format import chain_record
from paddock.record.ledger.sink import (
    STARTED,
    AuditQuery,
    AuditRecord,
    Field,
    check_event,
    check_fields,
    check_ids,
    duplicate_claim_error,
    find_mint_time,
    select_records,
)


class MemoryAudit:
    """Keeps audit records in `records`, in order; an `AuditSink` of one process."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.records: list[AuditRecord] = []
        self._clock = clock
        self._mutex = threading.Lock()
        self._claimed: set[str] = set()
        self._closed = False

    def claim(self, request: str, fields: Mapping[str, Field], *, parent: str | None = None) -> str:
        """Add the `started` record of a request, at most once; see `AuditSink.claim`."""
        find_mint_time(request, self._clock())
        return self._keep_record(STARTED, request, parent, fields)

    def append(
        self, event: str, request: str, fields: Mapping[str, Field], *, parent: str | None = None
    ) -> str:
        """Add one record; see `AuditSink.append`."""
        check_event(event)
        return self._keep_record(event, request, parent, fields)

    append_soon = append

    def query(self, **wanted: Unpack[AuditQuery]) -> Iterator[AuditRecord]:
        """Yield matching records; see `AuditSink.query`."""
        records = reversed(self.records) if wanted.get("newest_first", True) else iter(self.records)
        return select_records(records, wanted)

    def close(self) -> None:
        """Accept no more records; existing ones stay readable."""
        self._closed = True

    def _keep_record(self, event: str, request: str, parent: str | None, fields: Mapping[str, Field]) -> str:
        check_ids(request, parent)
        check_fields(fields)
        with self._mutex:
            if self._closed:
                raise LedgerError("The audit sink is closed. Open another one to write.")
            if event == STARTED and request in self._claimed:
                raise duplicate_claim_error(request)
            last = self.records[-1] if self.records else None
            self.records.append(
                chain_record(last, event, request, fields, parent=parent, seconds=self._clock())
            )
            if event == STARTED:
                self._claimed.add(request)
            return self.records[-1].id


class MemoryArtifacts:
    """Keep stored output in `objects`, by group and name; an `ArtifactStore` of one process."""

    is_near = True

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], bytes] = {}
        self.last_sweep = datetime.fromtimestamp(0, UTC)
        self._mutex = threading.Lock()

    def begin(self, group: str, names: Iterable[str], *, whole: str) -> None:
        """Do nothing; see `ArtifactStore.begin`."""

    def put(self, group: str, name: str, data: IO[bytes], *, whole: bool = False) -> None:
        """Keep an object; see `ArtifactStore.put`."""
        content = data.read()
        with self._mutex:
            self.objects[group, name] = content

    def read(self, group: str, name: str, chunk: int) -> Iterator[bytes]:
        """Yield an object in pieces; see `ArtifactStore.read`."""
        content = self.objects.get((group, name))
        if content is not None:
            yield from (content[start : start + chunk] for start in range(0, max(len(content), 1), chunk))

    def delete(self, group: str, names: Iterable[str]) -> None:
        """Delete objects; see `ArtifactStore.delete`."""
        with self._mutex:
            for name in names:
                self.objects.pop((group, name), None)

    def drop(self, group: str) -> None:
        """Delete all objects of a group; see `ArtifactStore.drop`."""
        with self._mutex:
            for key in [key for key in self.objects if key[0] == group]:
                del self.objects[key]

    def groups(self) -> Iterable[str]:
        """Return the names of all groups."""
        with self._mutex:
            return {group for group, _ in self.objects}

    def size(self) -> int:
        """Return the bytes of everything stored."""
        with self._mutex:
            return sum(map(len, self.objects.values()))

    def swept(self, at: datetime) -> None:
        """Remember when expired artifacts were deleted."""
        self.last_sweep = at


class _FakeFolder:
    """A directory among the temporary ones."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="paddock-fake-")
        self.scratch = Path(self._folder.name)

    def make_next(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Remove the directory."""
        self._folder.cleanup()


@dataclass(frozen=True, slots=True)
class FakeSandbox:
    """Answer for programs without running any: `answer` gets the command and the standard input.

    It returns the exit code and the standard output. The tier is `unconfined`, so that nobody takes it for a sandbox:
    use it with `sandbox.minimum_tier = "unconfined"`. `commands` are the commands so far.
    """

    answer: Callable[[Sequence[str], bytes], tuple[int, bytes]] = lambda _command, _stdin: (0, b"")
    commands: list[Sequence[str]] = field(default_factory=list[Sequence[str]])
    facts: SandboxFacts = field(default_factory=lambda: SandboxFacts(tier="unconfined"))
    tier: Tier = "unconfined"

    def user(self, grants: ProcessGrants) -> int | None:
        """Return the user of this process."""
        del grants

    async def take_slot(self, grants: ProcessGrants, limits: ProcessLimits) -> _FakeFolder:
        """Return a directory among the temporary ones."""
        del grants, limits
        return _FakeFolder()

    async def run(
        self,
        argv: Sequence[str],
        grants: ProcessGrants | None = None,
        limits: ProcessLimits | None = None,
        streams: Streams | None = None,
        *,
        slot: Any = None,  # noqa: ANN401 - as the protocol has it
        stop: asyncio.Event | None = None,
    ) -> ProcessResult:
        """Return what `answer` says of a program."""
        del grants, limits, slot, stop
        streams = streams or Streams()
        self.commands.append(tuple(argv))
        code, output = self.answer(argv, streams.stdin)
        for sink, data in ((streams.stdout, output), (streams.stderr, b"")):
            if sink is not None:
                sink(data)
                sink(b"")
        return ProcessResult(
            status=Status.OK if code == 0 else Status.FAILED,
            exit_code=code,
            stdout=CapturedStream(head=output.decode("utf-8", "replace"), total_bytes=len(output)),
            sandbox=self.facts,
        )
