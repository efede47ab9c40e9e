"""The process sandbox of a session, made at its first use."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from platformdirs import user_config_path

from paddock.model.settings import Settings

if TYPE_CHECKING:
    from paddock.confine.own import OwnPlace
    from paddock.confine.process import Sandbox


class Processes:
    """The process sandbox of a session: its tier is chosen and proved at the first use, which takes 0.2 s."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.sandbox
        self._own = partial(_own, settings)
        self._sandbox: Sandbox | None = None
        self._choosing = asyncio.Lock()

    async def sandbox(self) -> "Sandbox":
        """Return the one sandbox of the session.

        Raises EngineError, with the fix, when this machine gives less than the minimum, and ConfigurationError when
        the configured user is not there. The next call tries again.
        """
        from paddock.confine import ladder, plan  # noqa: PLC0415 - only processes pay for it

        async with self._choosing:
            if self._sandbox is None:
                self._sandbox = await ladder.choose(
                    self._settings.minimum_tier,
                    job_user=plan.configured_user(self._settings.job_user),
                    spares=self._settings.spares,
                    protected_paths=self._settings.protected_paths,
                    own=self._own(),
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


def _own(settings: Settings) -> "tuple[OwnPlace, ...]":
    """Return the places that decide what programs may, keep what is known of them, or hold secrets."""
    from paddock.confine.own import OwnPlace  # noqa: PLC0415 - only processes pay for it

    return (
        OwnPlace("the vault", settings.vault.directory, secret=True),
        OwnPlace("Paddock's settings", user_config_path("paddock")),
        OwnPlace("the questions that wait for a person", settings.approvals.directory),
        OwnPlace("the ledger", settings.audit.directory),
        OwnPlace("the list of trusted servers", settings.servers.trust),
        OwnPlace("what is remembered of servers", settings.servers.state),
        OwnPlace("the list of webhooks", settings.sdk.webhooks),
    )
