"""Paddock as a library user has it: a session on an event loop, driven from ordinary functions."""

import asyncio
import tempfile
import time
from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

from paddock.gate.cluster import open_cluster
from paddock.gate.gate import Gate
from paddock.gate.open_paddock import OpenPaddock, open_paddock
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Outcome, Status
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.cluster import ClusterSettings
from paddock.policy.settings.schema import AuditSettings, GrantSettings, GuestSettings, Settings

T = TypeVar("T")

_QUIET_SECONDS = 0.5


def replace_servers(gate: Gate, servers: Any) -> None:
    """Have a stand-in answer the calls of a gate. It has the methods of `ServerService` that calls use."""
    gate.replace_engines(servers=servers)


class Paddock:
    """A session; whatever is measured goes through its gate with the ledger on."""

    def __init__(self, session: OpenPaddock, runner: asyncio.Runner, workspace: Path) -> None:
        self.session = session
        self.workspace = workspace
        self.run = runner.run
        self._standing: set[asyncio.Task[Any]] = set()

    async def execute(
        self,
        source: str,
        *,
        gate: Gate | None = None,
        input: object = None,
        timeout_ms: int | None = None,
        jit: bool = False,
    ) -> Outcome:
        """Return the outcome of a program, whatever it is."""
        request = ExecutionRequest(
            workspace=self.workspace,
            work=GuestRun(source=source, input=input),
            limits=LimitOverrides(timeout_ms=timeout_ms),
            jit=jit,
        )
        return await (gate or self.session.gate).execute(request)

    async def value(
        self, source: str, *, gate: Gate | None = None, input: object = None, jit: bool = False
    ) -> Any:
        """Return the value of a program that must end well."""
        outcome = await self.execute(source, gate=gate, input=input, jit=jit)
        assert outcome.status is Status.OK, outcome
        return outcome.value

    async def settled(self) -> None:
        """Return once the session is at rest: the spare workers are ready and the dead are buried."""
        await asyncio.sleep(0.01)  # a refill may be put off for a moment
        deadline = time.monotonic() + _QUIET_SECONDS
        while asyncio.all_tasks() - {asyncio.current_task()} - self._standing and time.monotonic() < deadline:
            await asyncio.sleep(0.002)
        await asyncio.sleep(0.003)

    async def start(self) -> None:
        """Run one program, so that everything stands that outlives a program."""
        assert await self.value("return 1+1") == 2
        await asyncio.sleep(_QUIET_SECONDS)
        self._standing = asyncio.all_tasks() - {asyncio.current_task()}


@contextmanager
def paddock(
    *,
    spare_workers: int | None = None,
    jit: bool = False,
    servers: Path | None = None,
    database: str | None = None,
) -> Generator[Paddock]:
    """Open a session in a new workspace, with the given settings and the defaults of all others."""
    guest = GuestSettings() if spare_workers is None else GuestSettings(spare_workers=spare_workers)
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made, asyncio.Runner() as runner:
        workspace = Path(made)
        settings = Settings(
            audit=AuditSettings(directory=workspace / "audit"),
            guest=guest,
            grants=GrantSettings(jit=jit),
            cluster=ClusterSettings(url=database),
        )
        if servers is not None:
            (workspace / ".mcp.json").write_text(servers.read_text())
        stack = AsyncExitStack()
        cluster = runner.run(stack.enter_async_context(open_cluster(settings)))
        opening = open_paddock(settings, workspace, cluster=cluster)
        session = runner.run(stack.enter_async_context(opening))
        subject = Paddock(session, runner, workspace)
        try:
            runner.run(subject.start())
            yield subject
        finally:
            runner.run(stack.aclose())
