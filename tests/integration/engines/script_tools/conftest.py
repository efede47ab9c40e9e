"""A workspace with script tools, and a session that runs them as the gate does."""

import json
import os
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.session import SessionRunner

from paddock.gate.open_paddock import OpenPaddock
from paddock.gate.script_tool_service import make_tool_run
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, ToolRun
from paddock.model.tool import ToolEnd
from paddock.policy.settings.schema import AuditSettings, Settings, ToolSettings


class Workshop(SessionRunner):
    """Makes tools and runs them, one after the other."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory / "ws")
        self.workspace.mkdir()
        self.ledger = directory / "audit"
        self._number = 0
        self.open()

    def open(self, **tools: Any) -> OpenPaddock:
        """Return a session with settings of its own; it ends with the workshop."""
        settings = Settings(audit=AuditSettings(directory=self.ledger), tools=ToolSettings(**tools))
        return self.start(settings)

    def make(
        self,
        script: str,
        *,
        name: str = "script.py",
        folder: str = ".paddock/tools",
        schema: dict[str, Any] | None = None,
        **manifest: Any,
    ) -> str:
        """Return the id of a new tool with this script."""
        self._number += 1
        tool = f"t{self._number}"
        directory = self.workspace / folder / tool
        directory.mkdir(parents=True)
        # JSON is YAML.
        text = json.dumps({"id": tool, "name": tool, "script": name, **manifest})
        (directory / "tool.yaml").write_text(text)
        (directory / name).write_text(textwrap.dedent(script))
        if schema is not None:
            (directory / "schema.json").write_text(json.dumps(schema))
        return tool

    def directory(self, tool: str, folder: str = ".paddock/tools") -> Path:
        return self.workspace / folder / tool

    def outcome(
        self, tool: str, *, work: ToolRun | None = None, env: dict[str, str] | None = None, **options: Any
    ) -> Outcome:
        """Return what became of a run; options are inputs, but for `limits`."""
        limits = LimitOverrides(**options.pop("limits", {}))
        work = work or make_tool_run(self.session.scripts.library, tool, options, env=env)
        request = ExecutionRequest(workspace=self.workspace, work=work, limits=limits)
        return self.execute(request)

    def run(self, tool: str, **options: Any) -> ToolEnd:
        """Return the end of a run."""
        end = self.outcome(tool, **options).tool
        assert end is not None
        return end

    def records(self) -> str:
        """Return the ledger as text."""
        return "".join(path.read_text() for path in sorted(self.ledger.rglob("*.ndjson")))


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    os.chmod(tmp_path, 0o755)  # noqa: PTH101
    with Workshop(tmp_path) as made:
        yield made
