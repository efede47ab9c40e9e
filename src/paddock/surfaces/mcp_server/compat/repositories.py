"""The workspaces that `repoId` of the compat tools may name: the served one, and those that its owner registered."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from paddock.model.errors import ConfigurationError
from paddock.policy.settings.schema import Repository
from paddock.surfaces.mcp_server.tools.programs import ProgramTools

Open = Callable[[Path], AbstractAsyncContextManager[ProgramTools]]
"""Opens another workspace, in which programs run under its own settings."""


class Repositories:
    """Knows workspaces by name, and opens a registered one at its first program."""

    def __init__(
        self, own: ProgramTools, workspace: Path, registered: Sequence[Repository], open_programs: Open
    ) -> None:
        """Use the served directory's name as the name of its workspace. Raises ConfigurationError.

        A registered name takes precedence over the served directory's name.
        """
        self._own = own
        self._own_name = workspace.resolve().name
        self._workspace = workspace
        self._roots = {each.repo_id: each.root_path.resolve() for each in registered}
        if len(self._roots) < len(registered):
            names = [each.repo_id for each in registered]
            twice = next(name for name in names if names.count(name) > 1)
            raise ConfigurationError(f"[[mcp.repos]]: {twice} is registered more than once; keep one of them")
        self._open = open_programs
        self._opening: dict[str, asyncio.Future[ProgramTools]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def has_name(self, name: str) -> bool:
        """Return whether a workspace with this name is known; reads no files."""
        return name == self._own_name or name in self._roots

    def list_roots(self, name: str | None) -> list[Path]:
        """Return the directory of a known workspace; without a name all of them, the served one first."""
        if name is None:
            return [self._workspace, *self._roots.values()]
        return [self._roots.get(name, self._workspace)]

    async def open_programs(self, name: str) -> ProgramTools:
        """Return the runner of programs in a known workspace. Raises PaddockError when it cannot be opened."""
        if name not in self._roots:
            return self._own
        if name not in self._opening:
            self._opening[name] = ready = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._keep_open(name, ready))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(self._opening[name])

    async def close(self) -> None:
        """End all programs in opened workspaces."""
        self._closing.set()
        await asyncio.gather(*self._tasks)

    async def _keep_open(self, name: str, ready: "asyncio.Future[ProgramTools]") -> None:
        """Keep a workspace open, in one task from start to end. A failed opening is retried by the next call."""
        try:
            async with self._open(self._roots[name]) as programs:
                ready.set_result(programs)
                await self._closing.wait()
        except Exception as problem:
            if ready.done():
                raise
            del self._opening[name]
            ready.set_exception(problem)
