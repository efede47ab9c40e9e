"""Tenants on an event loop of their own, with tokens as `paddock serve token new` makes them."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from tests.support.processes import PATIENCE_S

from paddock.gate.question_directory import QuestionDirectory
from paddock.model.approval import WaitingQuestion
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest
from paddock.policy.settings.schema import ArtifactSettings, AuditSettings, Settings
from paddock.policy.settings.serve import ServeSettings
from paddock.surfaces.tenants import Tenant, Tenants
from paddock.surfaces.tenants.token_file import StoredToken, TokenFile
from paddock.surfaces.tenants.tokens import hash_token, make_token

T = TypeVar("T")


def make_settings(root: Path, *, serve: dict[str, Any] | None = None, **settings: Any) -> Settings:
    """Return settings whose state is below a directory of the test."""
    return Settings(
        audit=AuditSettings(directory=root / "audit"),
        artifacts=ArtifactSettings(directory=root / "artifacts"),
        serve=ServeSettings(directory=root / "serve", **(serve or {})),
        **settings,
    )


class TenantsRunner:
    """A server's tenants in a workspace, for tests that are plain functions."""

    tenants: Tenants

    def __init__(self, root: Path, settings: Settings, **options: Any) -> None:
        self.workspace = root / "workspace"
        self.workspace.mkdir(exist_ok=True)
        self.settings = settings
        self.file = TokenFile(settings.serve.directory)
        self._options = options
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()

    def add(self, name: str, **fields: Any) -> str:
        """Make a token and return it."""
        token = make_token()
        created = datetime.now(UTC)
        self.file.add(StoredToken(name=name, sha256=hash_token(token), created=created, **fields))
        return token

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what a coroutine returns."""
        return self._runner.run(asyncio.wait_for(work, PATIENCE_S))

    def begin(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Start a coroutine, which runs while the loop does. Its end is logged nowhere, if the test does not wait."""
        task = self._runner.get_loop().create_task(work)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def identify(self, token: str) -> Tenant:
        """Return the tenant of a token."""
        return self.run(self.tenants.identify(token))

    def enter(self, name: str, **fields: Any) -> Tenant:
        """Make a token and return its tenant."""
        return self.identify(self.add(name, **fields))

    def list_questions_of(self, tenant: Tenant) -> list[WaitingQuestion]:
        """Return the waiting questions in the directory of a user; also while the loop runs."""
        return QuestionDirectory(tenant.settings.approvals.directory).list_waiting()

    def make_request(self, work: Any, **fields: Any) -> ExecutionRequest:
        """Return the request for a piece of work."""
        return ExecutionRequest(workspace=self.workspace, surface="http", work=work, **fields)

    def execute(self, tenant: Tenant, work: Any, **options: Any) -> Outcome:
        """Return what became of a piece of work."""
        return self.run(tenant.execute(self.make_request(work), **options))

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Let the loop run until something holds."""

        async def wait() -> None:
            while not holds():  # noqa: ASYNC110 - it may hold by another process
                await asyncio.sleep(0.01)

        self.run(wait())

    def __enter__(self) -> Self:
        tenants = Tenants(self.settings, self.workspace, **self._options)
        self.tenants = self.run(self._stack.enter_async_context(tenants))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.run(self._stack.aclose())
        finally:
            self._runner.close()
