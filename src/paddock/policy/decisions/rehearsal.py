"""The list of calls that a rehearsal (`dry_run`) did not make."""

import json

from paddock.model.outcome import PlannedCall

MAX_KEPT_CHARS = 1024 * 1024
"""Maximum size of the arguments in one list, as JSON; further calls are listed without arguments."""


class Plan:
    """The calls that one program would have made."""

    def __init__(self) -> None:
        self._calls: list[PlannedCall] = []
        self._room = MAX_KEPT_CHARS

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls, in order."""
        return tuple(self._calls)

    def add_call(self, call: PlannedCall) -> None:
        """List a call."""
        self._room -= len(json.dumps(call.arguments))
        self._calls.append(call if self._room >= 0 else call.model_copy(update={"arguments": None}))
