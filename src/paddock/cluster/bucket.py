"""Notes of checkpoints in the bucket of `artifacts.url`: written once, never replaced."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from paddock.model.errors import ArtifactError
from paddock.record.output.backends import ObjectStoreBackend

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from obstore import ObjectMeta

FOLDER: Final = "checkpoints"
_DIGITS = 16
"""Number of digits in the name of a note: names sort as the numbers do."""
_MAX_NOTE_BYTES = 64 * 1024


class CheckpointBucket:
    """The notes of all checkpoints, by number. Every method may block and raises ArtifactError."""

    def __init__(self, url: str) -> None:
        self._store = ObjectStoreBackend(url, datetime.now(UTC)).client

    def put(self, number: int, note: str) -> None:
        """Write a note; writing the same one again does nothing. Raises ArtifactError if there is another one."""
        import obstore
        from obstore.exceptions import AlreadyExistsError

        try:
            obstore.put(self._store, _name(number), note.encode(), mode="create")
        except AlreadyExistsError:
            if self.read(number) != note:
                raise ArtifactError(
                    f"The bucket has another checkpoint {number} than the database: one of them was changed. "
                    "Run: paddock audit verify --cluster"
                ) from None
        except Exception as error:
            raise _explain(error) from error

    def read(self, number: int) -> str | None:
        """Return a note; None if there is none."""
        import obstore

        try:
            found = obstore.get(self._store, _name(number))
            if found.meta["size"] > _MAX_NOTE_BYTES:
                return ""
            return bytes(found.bytes()).decode("utf-8", "replace")
        except FileNotFoundError:
            return None
        except Exception as error:
            raise _explain(error) from error

    def find_last(self, after: int) -> int | None:
        """Return the greatest number above `after` that has a note."""
        import obstore

        last = None
        try:
            parts: Iterator[Sequence[ObjectMeta]] = obstore.list(  # pyright: ignore[reportUnknownMemberType]
                self._store, prefix=f"{FOLDER}/", offset=_name(after)
            )
            for part in parts:
                for entry in part:
                    name = entry["path"].rpartition("/")[2]
                    if name.isdecimal() and int(name) > after:
                        last = max(last or 0, int(name))
        except Exception as error:
            raise _explain(error) from error
        return last


def _name(number: int) -> str:
    return f"{FOLDER}/{number:0{_DIGITS}}"


def _explain(error: Exception) -> ArtifactError:
    return ArtifactError(
        f"The bucket of artifacts.url cannot be used for checkpoints: {type(error).__name__}. "
        "Check its address and the credentials in the environment."
    )
