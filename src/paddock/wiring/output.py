"""The stored output of a session, made at its first use."""

from typing import TYPE_CHECKING

from paddock.model.settings import Settings
from paddock.policy.known import KnownSecrets
from paddock.results import Results

if TYPE_CHECKING:
    from paddock.store.artifacts import Artifacts


def open_artifacts(settings: Settings, secrets: KnownSecrets | None = None) -> "Artifacts":
    """Return the place where output is kept, with the redaction in force; nothing is created before it is used."""
    from paddock.policy.redaction import Redactor  # noqa: PLC0415 - only programs with stored output pay for it
    from paddock.store.artifacts import Artifacts  # noqa: PLC0415

    return Artifacts(settings.artifacts, Redactor(settings.redaction, secrets))


class Output:
    """The stored output of a session; what it takes is loaded at the first use."""

    def __init__(self, settings: Settings, secrets: KnownSecrets) -> None:
        self._settings = settings
        self._secrets = secrets
        self._artifacts: Artifacts | None = None
        self.results = Results(settings.artifacts, self.artifacts)
        """What stores results over their limit."""

    def artifacts(self) -> "Artifacts":
        """Return the one place of the session."""
        if self._artifacts is None:
            self._artifacts = open_artifacts(self._settings, self._secrets)
        return self._artifacts
