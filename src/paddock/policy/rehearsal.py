"""What a rehearsal (`dry_run`) answers instead of calling, and the list of what it would have called."""

import json

from paddock.model.base import Json
from paddock.model.outcome import Decision, PlannedCall
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.questions import describe_request

KEPT_CHARACTERS = 1024 * 1024
"""Arguments kept in one list, as JSON; what is more is listed without its arguments."""


def stub_result(work: ServerCall) -> Json:
    """Return what a call gives that is not made: an object, so that most programs go on."""
    if work.raw:
        return {
            "content": [
                {"type": "text", "text": f"{work.server}.{work.tool} was not called: this is a dry run"}
            ]
        }
    return {"dryRun": True, "server": work.server, "tool": work.tool}


def would_ask(request: ExecutionRequest, decision: Decision) -> bool:
    """Tell whether a request whose decision asks belongs to a rehearsal, which asks nobody and only lists it."""
    rehearses = "dry_run" in (request.calls, decision.grants.calls)
    return rehearses and (request.parent is not None or isinstance(request.work, ServerCall))


def make_planned_call(request: ExecutionRequest, decision: Decision) -> PlannedCall:
    """Return a request as the list of a rehearsal has it."""
    if isinstance(work := request.work, ServerCall):
        return PlannedCall(server=work.server, tool=work.tool, arguments=work.arguments, asks=decision.asks)
    method = request.caller.method if request.caller else work.kind
    return PlannedCall(
        server="paddock", tool=method, arguments=describe_request(request)[1], asks=decision.asks
    )


class Plan:
    """The calls that one program would have made."""

    def __init__(self) -> None:
        self._calls: list[PlannedCall] = []
        self._room = KEPT_CHARACTERS

    @property
    def calls(self) -> tuple[PlannedCall, ...]:
        """The calls, in order."""
        return tuple(self._calls)

    def add_call(self, call: PlannedCall) -> None:
        """List a call."""
        self._room -= len(json.dumps(call.arguments))
        self._calls.append(call if self._room >= 0 else call.model_copy(update={"arguments": None}))
