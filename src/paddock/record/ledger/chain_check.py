"""The check of a chain: numbers without gaps, links, and what a writer found when it repaired its ledger.

`verify` checks the files of a ledger with it, `cluster.verify_chain` the rows of a database.
"""

from abc import ABC, abstractmethod

from paddock.record.ledger.line_format import GENESIS_HASH
from paddock.record.ledger.sink import RECOVERED, AuditRecord


class ChainCheck(ABC):
    """Checks the records of one chain in order. A subclass knows where they are kept, and reports."""

    def __init__(self) -> None:
        self.seq = 0
        """Number of the last record of the chain so far."""
        self.hash = GENESIS_HASH
        """Its hash; empty if the record was damaged."""
        self.records = 0
        """Number of intact records."""

    def check_record(self, record: AuditRecord) -> bool:
        """Check the next intact record, and return whether it is not a copy of an earlier one."""
        self.records += 1
        if record.seq <= self.seq:
            self._report(record.seq, f"is a copy or out of order: it stands after record {self.seq}")
            return False
        is_repair = record.event == RECOVERED
        excused = is_repair and self._is_excused(record.fields.get("synced"))
        if record.seq > self.seq + 1:
            self._report_gap(record.seq - 1, excused=excused)
        else:
            self._check_link(record)
        if is_repair:
            self._check_repair(record, excused=excused)
        self.seq, self.hash = record.seq, record.hash
        return True

    def skip_damaged(self, seq: int) -> None:
        """Continue after a damaged record whose number is known."""
        if seq > self.seq + 1:
            self._report_gap(seq - 1, excused=False)
        self.seq, self.hash = seq, ""

    def _is_excused(self, synced: object) -> bool:
        """Return whether a power failure explains that records after the last one here are missing."""
        return isinstance(synced, int) and self.seq >= synced

    def _check_link(self, record: AuditRecord) -> None:
        if self.hash and record.prev != self.hash:
            self._report(record.seq, f"does not continue the record before it, number {self.seq}")

    def _check_repair(self, record: AuditRecord, *, excused: bool) -> bool:
        """Report what a `recovered` record admits, and return whether it is a problem."""
        match record.fields.get("reason"):
            case "missing" if not excused:
                self._report(record.seq, "found the records before it cut or changed when it was written")
            case "head":
                self._report(record.seq, "found the head missing or damaged when it was written")
            case "foreign":
                self._report(record.seq, "found foreign lines before it when it was written")
            case _:
                return False
        return True

    @abstractmethod
    def _report(self, seq: int, message: str) -> None:
        """Report a problem with a record."""

    @abstractmethod
    def _report_gap(self, last: int, *, excused: bool) -> None:
        """Report that the records after `seq` up to `last` are missing; `excused` means by a power failure."""
