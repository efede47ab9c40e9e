"""What a command repaired of Paddock's own files is recorded, also by commands that record nothing else."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from paddock.model.errors import PaddockError
from paddock.own_files import has_repairs


@contextmanager
def record_repairs() -> Generator[None]:
    """Record in the user's ledger, at the end, the repairs that no other ledger has recorded.

    Where that ledger cannot be written, the warning that each repair logged is all there is.
    """
    try:
        yield
    finally:
        if has_repairs():
            from paddock.audit.ledger import Ledger
            from paddock.settings.loader import load

            with suppress(PaddockError, OSError):
                Ledger(load(Path()).settings.audit.directory).close()
