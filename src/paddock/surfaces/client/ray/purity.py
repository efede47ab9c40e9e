"""Which programs may be sent to a cluster: those that change nothing, because Ray repeats what it lost."""

from functools import partial

from paddock.engines.programs.recipe import executables
from paddock.gate.batch.program import Program
from paddock.gate.batch.runner import BatchOrigin
from paddock.gate.work import KINDS
from paddock.model.errors import RequestError
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.effects import Effect, list_effects
from paddock.policy.settings.schema import Settings

# The other effects need a session, servers or the SDK, which a `Program` does not have.
_REASONS: dict[Effect, str] = {
    "workspace": "it may write to the workspace",
    "network": "it may connect to other machines",
    "unconfined": 'nothing confines it (sandbox.minimum_tier = "unconfined")',
}

_STORES_FILES = "it stores files (`outputs`) on the machine where it runs"


class Purity:
    """Decides on programs as the gate will do, and finds the effects that they may have."""

    def __init__(self, settings: Settings, origin: BatchOrigin) -> None:
        added = settings.runtimes.recipes
        self._settings = settings
        self._policy = Policy(settings, KINDS, partial(executables, added=added))
        self._origin = origin

    def find_effects(self, program: Program) -> str:
        """Return which effects a program may have, for people; "" if it has none."""
        return self._describe(program, *self._decide(program))

    def require_pure(self, program: Program) -> bool:
        """Raise RequestError if a program may have effects, or a person is asked; otherwise return whether it may run.

        A program that policy denies has no effects, and `False` is returned: its outcome says that it was denied.
        """
        request, decision = self._decide(program)
        if not decision.allowed and not decision.asks:
            return False
        if decision.asks:
            raise RequestError(
                f"the program {program.id} needs a person's answer ({decision.asks[0]}), and a node of Ray "
                "cannot ask; leave out `engine`, or change the policy"
            )
        if effects := self._describe(program, request, decision):
            raise RequestError(
                f"the program {program.id} may have effects: {effects}; "
                "Ray may run a program twice, so leave out `engine`, or give it less"
            )
        return True

    def _describe(self, program: Program, request: ExecutionRequest, decision: Decision) -> str:
        effects = [_REASONS[each] for each in list_effects(request, decision, self._settings)]
        return " and ".join(effects if program.outputs is None else [*effects, _STORES_FILES])

    def _decide(self, program: Program) -> tuple[ExecutionRequest, Decision]:
        """Decide on the request of a program, without its tests."""
        asked = ExecutionRequest(
            actor=self._origin.actor,
            surface=self._origin.surface,
            workspace=self._origin.workspace,
            work=program.make_work(program.stdin),
            limits=program.make_limits(),
        )
        request = self._policy.add_defaults(asked)
        return request, self._policy.decide(request)
