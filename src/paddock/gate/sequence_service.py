"""The sequences and schedules of an opened Paddock, created at their first use."""

from functools import cached_property
from typing import TYPE_CHECKING

from paddock.gate.script_tool_service import Scripts
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import Settings
from paddock.record.output.large_results import Results

if TYPE_CHECKING:
    from paddock.gate.schedules.schedule import Scheduler
    from paddock.gate.sequences.engine import RequestRunner, SequenceEngine


class SequenceServices:
    """Sequences and schedules of an opened Paddock, each created at its first use."""

    execute: "RequestRunner"
    """Runs a request through the gate; set once the gate exists."""

    def __init__(
        self, settings: Settings, scripts: Scripts, outgoing: OutgoingRedaction, results: Results
    ) -> None:
        self._settings = settings
        self._scripts = scripts
        self._outgoing = outgoing
        self._results = results

    @cached_property
    def flows(self) -> "SequenceEngine":
        """The engine that runs sequences."""
        from paddock.gate.sequences import engine

        return engine.SequenceEngine(self.execute, self._scripts.make_work, self._outgoing, self._results)

    @cached_property
    def temporals(self) -> "Scheduler":
        """The scheduler that fires schedules."""
        from paddock.gate.schedules import last_runs, schedule

        return schedule.Scheduler(self.execute, last_runs.choose_runs(self._settings))
