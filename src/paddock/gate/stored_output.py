"""The stored output of an opened Paddock, created at its first use."""

from typing import TYPE_CHECKING

from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import Settings
from paddock.record.output.large_results import Results

if TYPE_CHECKING:
    from paddock.record.output.artifacts import Artifacts
    from paddock.record.output.backends import ArtifactStore


def open_artifacts(
    settings: Settings, scanner: Scanner | None = None, store: "ArtifactStore | None" = None
) -> "Artifacts":
    """Return the store of output, with redaction; nothing is created on disk before its first use."""
    from paddock.record.output.artifacts import Artifacts

    return Artifacts(settings.artifacts, scanner or Scanner(settings.redaction), store=store)


class OutputStore:
    """The stored output of an opened Paddock; its modules are loaded at the first use."""

    def __init__(self, settings: Settings, scanner: Scanner, store: "ArtifactStore | None" = None) -> None:
        """Use `store`; by default the store in the settings."""
        self._store = store
        self._settings = settings
        self._scanner = scanner
        self._artifacts: Artifacts | None = None
        self.results = Results(settings.artifacts, self.artifacts)
        """Stores results that exceed their limit."""

    def artifacts(self) -> "Artifacts":
        """Return the store."""
        if self._artifacts is None:
            self._artifacts = open_artifacts(self._settings, self._scanner, self._store)
        return self._artifacts
