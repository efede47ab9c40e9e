"""Programs through a real gate, in each tier."""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.session import SessionRunner

from paddock.confinement.sandbox.child.lockdown import JOB_UID
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.directories import GrantedDirectory
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome, SandboxFacts
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.model.sandbox import Tier
from paddock.policy.settings.overlay import OverlaySettings
from paddock.policy.settings.schema import (
    ArtifactSettings,
    AuditSettings,
    RuntimeSettings,
    Settings,
    WorkspaceSettings,
)

PATIENT_MS = 120_000
"""Time for programs that are to end by themselves, however busy the machine is."""


class Programs(SessionRunner):
    """Runs programs one after the other through one gate."""

    settings: Settings

    def request(
        self, runtime: str, code: str | None = None, *, limits: LimitOverrides | None = None, **work: Any
    ) -> ExecutionRequest:
        """Return the request for a program."""
        given = RuntimeRun.model_validate({"runtime": runtime, "code": code, **work})
        limits = limits or LimitOverrides(timeout_ms=PATIENT_MS)
        return ExecutionRequest(workspace=self.workspace, work=given, limits=limits)

    def run(self, runtime: str, code: str | None = None, **given: Any) -> Outcome:
        """Return what became of a program."""
        return self.execute(self.request(runtime, code, **given))

    def text(self, runtime: str, code: str | None = None, **given: Any) -> str:
        """Return what a program printed that must end well."""
        outcome = self.run(runtime, code, **given)
        assert outcome.program is not None, outcome.error
        assert (outcome.status, outcome.program.stderr.head) == ("ok", "")
        return outcome.program.stdout.head

    def records(self, event: str) -> list[dict[str, Any]]:
        """Return the fields of the audit records of an event, the newest first."""
        sink = self.session.gate.audit
        return [dict(record.fields) for record in sink.query(event=event)]


Open = Callable[..., Programs]


@pytest.fixture(scope="module")
def open_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Open a gate for a tier with `[runtimes]` settings; it is closed after the module."""
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())

        def open_(
            tier: Tier,
            *,
            job_user: int | None = None,
            overlay: Mapping[str, int] = {},
            directories: tuple[GrantedDirectory, ...] = (),
            **runtimes: Any,
        ) -> Programs:
            folder = tmp_path_factory.mktemp("programs")
            patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
            workspace = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="programs-")), "workspace"
            )
            workspace.parent.chmod(0o755)
            workspace.mkdir()
            if os.geteuid() == 0 and tier == "landlock" and job_user is None:
                os.chown(workspace, JOB_UID, JOB_UID)
            settings = Settings(
                audit=AuditSettings(directory=folder / "audit"),
                artifacts=ArtifactSettings(directory=folder / "artifacts"),
                overlay=OverlaySettings(directory=folder / "changes", **overlay),
                workspace=WorkspaceSettings(directory=directories),
                runtimes=RuntimeSettings.model_validate({"timeout_ms": PATIENT_MS, **runtimes}),
            )
            programs = stack.enter_context(Programs(workspace))
            programs.settings = settings
            programs.start(settings).processes.use_sandbox(
                KernelSandbox(SandboxFacts(tier=tier), tier, job_user)
            )
            return programs

        yield open_


@pytest.fixture(scope="module", params=["landlock", "namespaces"])
def programs(request: pytest.FixtureRequest, open_programs: Open) -> Programs:
    return open_programs(request.param)
