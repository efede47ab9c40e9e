"""Record a command's repairs of Paddock's own files, also for commands that record nothing else."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from paddock.foundation.own_files import has_repairs
from paddock.model.errors import PaddockError


@contextmanager
def record_repairs() -> Generator[None]:
    """At the end, record in the user's ledger the repairs that no other ledger has recorded.

    If that ledger cannot be written, the warning that each repair logged must suffice.
    """
    try:
        yield
    finally:
        if has_repairs():
            from paddock.policy.settings.loader import load
            from paddock.record.ledger.writer import Ledger

            with suppress(PaddockError, OSError):
                Ledger(load(Path()).settings.audit.directory).close()
