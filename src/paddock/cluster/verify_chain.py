"""Verify the rows of one chain: every line, every link, and the columns beside the lines."""

from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple

from paddock.cluster.ledger_lines import CHAIN_DIGITS, LedgerLines
from paddock.cluster.ship import make_columns
from paddock.model.base import count
from paddock.record.ledger.chain_check import ChainCheck
from paddock.record.ledger.line_format import GENESIS_HASH, DamagedError, parse_record
from paddock.record.ledger.sink import AuditRecord

OnFinding = Callable[[int | None, str], None]
"""Receives the number of the record concerned, and what is wrong with it."""
_LOCAL_CHUNK_BYTES = 256 * 1024


class RecordRow(NamedTuple):
    """A row of the table `record`; texts may be cut."""

    node: str
    chain: str
    seq: int
    ts: datetime | None
    """None for a time that no record has."""
    event: str
    request: str
    parent: str | None
    line: bytes


class RowCheck(ChainCheck):
    """Checks the rows of one chain in the order of their numbers."""

    def __init__(self, node: str, chain: str, on_problem: OnFinding, on_note: OnFinding) -> None:
        super().__init__()
        self.node = node
        self.chain = chain
        self._problem = on_problem
        self._note = on_note

    def check_row(self, row: RecordRow) -> None:
        """Check the next row."""
        if row.seq <= 0:
            self._problem(row.seq, "has a number that no record has")
        elif (record := self._parse(row)) is not None:
            self.check_record(record)
        else:
            self.skip_damaged(row.seq)

    def _parse(self, row: RecordRow) -> AuditRecord | None:
        try:
            record = parse_record(row.line)
        except DamagedError as damage:
            self._problem(row.seq, str(damage))
            return None
        if record.seq != row.seq:
            self._problem(row.seq, f"has the line of record {record.seq}")
            return None
        if (row.ts, row.event, row.request, row.parent) != make_columns(record):
            self._problem(row.seq, "has columns that its line does not have")
        return record

    def _check_link(self, record: AuditRecord) -> None:
        if record.seq > 1:
            super()._check_link(record)
        elif record.prev != GENESIS_HASH or record.hash[:CHAIN_DIGITS] != self.chain:
            self._problem(1, f"does not begin chain {self.chain}")

    def _check_repair(self, record: AuditRecord, *, excused: bool) -> bool:
        """Report what a node found in its ledger, and repaired, before it was shipped."""
        is_problem = super()._check_repair(record, excused=excused)
        if not is_problem:
            self._note(record.seq, "accounts for lines that a crash cut off")
        return is_problem

    def _report(self, seq: int, message: str) -> None:
        self._problem(seq, message)

    def _report_gap(self, last: int, *, excused: bool) -> None:
        first = self.seq + 1
        text = f"to {last} are missing" if last > first else "is missing"
        if excused:
            self._note(first, f"{text}: a crash of the node lost it before it was shipped")
        else:
            self._problem(first, text)


class LocalComparison:
    """Compares the rows of a chain with the ledger of this machine, side by side. Every method may block."""

    def __init__(self, directory: Path, on_problem: OnFinding, on_note: OnFinding) -> None:
        chunks = iter(partial(LedgerLines(directory).read_chunk, _LOCAL_CHUNK_BYTES), [])
        self._lines = (line for chunk in chunks for line in chunk)
        self._line = next(self._lines, None)
        self._first = self._line.record.seq if self._line else 0
        self._ended = False
        self._problem = on_problem
        self._note = on_note

    def check_row(self, row: RecordRow) -> None:
        """Compare the next row."""
        while self._line is not None and self._line.record.seq < row.seq:
            self._advance()  # a gap in the database, which the check of the chain reports
        if self._line is None:
            if not self._ended:
                self._problem(row.seq, f"is not in the ledger of this machine, {_RESTORED}")
            self._ended = True
        elif self._line.record.seq > row.seq:
            if row.seq > self._first:
                self._problem(row.seq, "is missing or damaged in the ledger of this machine")
        else:
            if self._line.data != row.line:
                self._problem(row.seq, "differs from the ledger of this machine")
            self._advance()

    def finish(self, last: int) -> None:
        """Report what was not compared, after the last row."""
        waiting = 0
        while self._line is not None:
            waiting += self._line.record.seq > last
            self._advance()
        if waiting:
            self._note(None, f"{count(waiting, 'record')} of this machine not in the database yet")
        if self._first > 1:
            self._note(None, f"the ledger of this machine begins with record {self._first}")

    def _advance(self) -> None:
        self._line = next(self._lines, None)


_RESTORED = "which ends before it: an older copy of the ledger was restored, or the database was changed"
