"""The process sandbox of a session, made at its first use."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path, user_config_path, user_data_path, user_state_path

from paddock.model.settings import SandboxSettings, Settings

if TYPE_CHECKING:
    from paddock.confine.process import Sandbox


def own_directories(settings: Settings) -> list[Path]:
    """Return where Paddock keeps what no program may see or change, but for what a program is granted by itself."""
    named = [
        settings.audit.directory,
        settings.artifacts.directory,
        settings.approvals.directory,
        settings.vault.directory,
        settings.servers.state,
        settings.sdk.temporals,
    ]
    return [
        *(where("paddock") for where in (user_config_path, user_state_path, user_cache_path, user_data_path)),
        *named,
    ]


class Processes:
    """The process sandbox of a session: its tier is chosen and proved at the first use, which takes 0.2 s."""

    def __init__(self, settings: SandboxSettings, own: Sequence[Path]) -> None:
        """Keep programs from Paddock's `own` directories."""
        self._settings = settings
        self._own = own
        self._sandbox: Sandbox | None = None
        self._choosing = asyncio.Lock()

    async def sandbox(self) -> "Sandbox":
        """Return the one sandbox of the session.

        Raises EngineError, with the fix, when this machine gives less than the minimum, and ConfigurationError when
        the configured user is not there. The next call tries again.
        """
        from paddock.confine import ladder, plan, private  # noqa: PLC0415 - only processes pay for it

        async with self._choosing:
            if self._sandbox is None:
                self._sandbox = await ladder.choose(
                    self._settings.minimum_tier,
                    job_user=plan.configured_user(self._settings.job_user),
                    spares=self._settings.spares,
                    protected_paths=self._settings.protected_paths,
                    own=private.known(self._own),
                )
        return self._sandbox

    async def tier(self) -> str:
        """Return the proved tier of the session. Raises what `sandbox` raises."""
        return (await self.sandbox()).tier

    async def close(self) -> None:
        """End every process that was started."""
        async with self._choosing:
            if self._sandbox is not None:
                await self._sandbox.close()
                self._sandbox = None
