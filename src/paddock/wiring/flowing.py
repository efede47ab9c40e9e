"""The sequences and schedules of a session, made at their first use."""

from functools import cached_property
from typing import TYPE_CHECKING

from paddock.model.settings import Settings
from paddock.redaction.outgoing import Outgoing
from paddock.results import Results
from paddock.scripts import Scripts

if TYPE_CHECKING:
    from paddock.flows.engine import Execute, Flows
    from paddock.flows.temporal import Temporals


class Flowing:
    """Sequences and schedules of a session, each made at the first use."""

    execute: "Execute"
    """The gate's one path, which is there once the gate is."""

    def __init__(self, settings: Settings, scripts: Scripts, outgoing: Outgoing, results: Results) -> None:
        self._settings = settings
        self._scripts = scripts
        self._outgoing = outgoing
        self._results = results

    @cached_property
    def flows(self) -> "Flows":
        """What runs sequences."""
        from paddock.flows import engine

        return engine.Flows(self.execute, self._scripts.work, self._outgoing, self._results)

    @cached_property
    def temporals(self) -> "Temporals":
        """What fires schedules."""
        from paddock.flows import temporal

        return temporal.Temporals(self.execute, self._settings.sdk.temporals)
