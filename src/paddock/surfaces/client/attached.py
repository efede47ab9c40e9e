"""A Paddock on a session that is open already, for surfaces that serve many callers."""

from pathlib import Path

from paddock.gate.open_paddock import OpenPaddock
from paddock.model.outcome import Outcome
from paddock.model.request import ChangeSetRun
from paddock.policy.settings.schema import Settings
from paddock.surfaces.client.paddock import Paddock
from paddock.surfaces.client.requests import LibraryCaller, RunningPaddock


class AttachedPaddock(Paddock):
    """Sends requests of one caller to an open session. It is used as it is, without `async with`."""

    def __init__(
        self, opened: OpenPaddock, settings: Settings, workspace: Path, caller: LibraryCaller
    ) -> None:
        """Use `session`, which was opened with `settings` for `workspace`; whoever opened it closes it."""
        super().__init__(workspace, settings=settings, actor=caller.actor)
        self._caller = caller
        self._running = RunningPaddock(opened)

    async def settle_changes(self, work: ChangeSetRun) -> Outcome:
        """Accept, discard or undo changes of a program; the outcome's value says what was done with which paths."""
        return await self._execute_work(work)
