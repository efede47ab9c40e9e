"""A session whose state is all in one place, for the SDK and what is built on it."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from paddock.model.request import ExecutionRequest, GuestRun
from paddock.model.rules import PolicySettings
from paddock.model.settings import (
    ArtifactSettings,
    AuditSettings,
    GuestSettings,
    SdkSettings,
    Settings,
    ToolSettings,
    VaultSettings,
)
from paddock.store.ledger_read import read
from paddock.store.vault import FileVault
from paddock.wiring import open_session


class Desk:
    """A session with all state in one place."""

    def __init__(self, runner, place):
        self.runner = runner
        self.place = place
        self.workspace = place / "workspace"
        self.workspace.mkdir()
        self.vault = FileVault(place / "vault")
        self._stack = AsyncExitStack()

    def open(self, sdk=None, rules=(), workers=8, tools=None, **further):
        settings = Settings(
            audit=AuditSettings(directory=self.place / "audit"),
            artifacts=ArtifactSettings(directory=self.place / "artifacts"),
            vault=VaultSettings(backend="file", directory=self.place / "vault"),
            sdk=SdkSettings(
                **{
                    "temporals": self.place / "temporals",
                    "signals": self.place / "signals.db",
                    "webhooks": self.place / "webhooks.json",
                    **(sdk or {}),
                }
            ),
            tools=ToolSettings(**(tools or {})),
            policy=PolicySettings(rule=tuple(rules)),
            guest=GuestSettings(max_workers=workers),
            **further,
        )
        self.session = self.runner.run(
            self._stack.enter_async_context(open_session(settings, self.workspace))
        )
        return self

    def run(self, source, *, profile="script", lines=None):
        request = ExecutionRequest(workspace=self.workspace, work=GuestRun(source=source, profile=profile))
        return self.runner.run(self.session.gate.execute(request, on_console=lines))

    def records(self):
        return list(read(self.place / "audit", newest_first=False))

    def close(self):
        self.runner.run(self._stack.aclose())


@pytest.fixture
def desk(tmp_path):
    with asyncio.Runner() as runner:
        made = Desk(runner, tmp_path)
        try:
            yield made
        finally:
            made.close()
