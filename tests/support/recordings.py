"""A session that records programs and repeats them."""

from pathlib import Path
from typing import Any

from tests.support.session import SessionRunner

from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, GuestRun, ReplayRun
from paddock.policy.settings.schema import AuditSettings, RecordSettings, Settings, VaultSettings


def make_settings(folder: Path, **record: Any) -> Settings:
    """Return settings that keep everything below a directory, and record the programs that ask for it."""
    return Settings(
        audit=AuditSettings(directory=folder / "audit"),
        record=RecordSettings(**{"directory": folder / "recordings", "payloads": "asked", **record}),
        vault=VaultSettings(directory=folder / "vault", backend="file"),
    )


class RecordingRunner(SessionRunner):
    """Records programs in a workspace, and repeats them."""

    def record(self, source: str, given: Any = None, **fields: Any) -> Outcome:
        """Return what became of a program that is recorded. `fields` are those of its request."""
        work = GuestRun(source=source, input=given, record=True)
        return self.execute(ExecutionRequest(**{"workspace": self.workspace, "work": work, **fields}))

    def replay(self, run: str, **fields: Any) -> Outcome:
        """Return what became of a replay. `fields` are those of its work, and of its request."""
        of_request = {name: fields.pop(name) for name in ("actor", "surface", "workspace") if name in fields}
        work = ReplayRun(run=run, **fields)
        return self.execute(ExecutionRequest(**{"workspace": self.workspace, "work": work, **of_request}))

    def compare(self, run: str, **fields: Any) -> Any:
        """Return the report of a replay that must succeed."""
        outcome = self.replay(run, **fields)
        assert (outcome.status, outcome.error) == ("ok", None)
        return outcome.value

    def find_file(self, run: str) -> Path:
        """Return the file of a recording."""
        return self.session.gate.recordings._store._locate(run)
