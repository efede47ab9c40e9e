"""Answer the calls of a repeated program from a recording."""

from collections import deque
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from paddock.engines.javascript import frames
from paddock.engines.javascript.tape import Event, ProgramCall, RecordedReply
from paddock.engines.javascript.task import HostReply
from paddock.gate.replay.compare import find_difference, name_call
from paddock.model.canonical import canonical
from paddock.model.status import Status
from paddock.record.payloads.recorded_run import RecordedCall, RecordedRun

if TYPE_CHECKING:
    from collections.abc import Callable

    from paddock.model.base import Json

_MAX_NAMED = 64
"""Maximum number of recorded calls that are compared to name the nearest one."""
_MAX_SEARCHED = 16
"""Maximum number of calls for which the nearest one is named: each search takes up to 0.1 s."""


class UnrecordedCall(NamedTuple):
    """A call of a repeated program that its recording does not have."""

    number: int
    nearest: RecordedCall | None


class RunReplies:
    """The replies of a recording. Equal calls get theirs in the order of the recording."""

    def __init__(self, recorded: RecordedRun, hide: "Callable[[Json], Json]") -> None:
        """Compare arguments without the secrets that `hide` removes: the recording has none."""
        self.events = [Event(event.call, event.at) for event in recorded.events]
        self.is_whole = recorded.is_whole
        self.unrecorded: list[UnrecordedCall] = []
        """Calls that the recording does not have, in order."""
        self._hide = hide
        self._left: dict[bytes, deque[RecordedCall]] = {}
        for call in recorded.calls:
            self._left.setdefault(_identify(self._hide_secrets(call)), deque()).append(call)

    def find(self, call: ProgramCall) -> RecordedReply:
        """Return the reply to a call; an error that names the nearest recorded call if there is none."""
        asked = self._hide_secrets(_read_call(call))
        arguments = asked.arguments
        calls = self._left.get(_identify(asked))
        if not calls:
            searched = len(self.unrecorded) < _MAX_SEARCHED
            nearest = self._find_nearest(asked, arguments) if searched else None
            self.unrecorded.append(UnrecordedCall(call.number, nearest))
            error: dict[str, Json] = {
                "name": "ToolError",
                "message": explain_unrecorded(asked, arguments, nearest)
                if searched
                else f"{_describe_lack(asked)}.",
                "retryable": False,
                "server": asked.server,
                "tool": asked.tool,
            }
            return RecordedReply(0, HostReply(Status.INVALID, error=error))
        found = calls.popleft()
        if found.status is None:
            return RecordedReply(found.number, None)
        return RecordedReply(found.number, HostReply(found.status, found.value, found.error, found.warning))

    def _hide_secrets(self, call: RecordedCall) -> RecordedCall:
        hidden = self._hide([call.server, call.tool, call.arguments, [[*path] for path in call.encoded]])
        server, tool, arguments, encoded = cast("list[Any]", hidden)
        known = {"server": server, "tool": tool, "arguments": arguments, "encoded": encoded}
        return call.model_copy(update=known)

    def _find_nearest(self, asked: RecordedCall, arguments: "Json") -> RecordedCall | None:
        """Return the recorded call that is most like another one, of those that no call has used."""
        left = [call for calls in self._left.values() for call in calls]
        named = [call for call in left if (call.server, call.tool) == (asked.server, asked.tool)]
        wanted = canonical(arguments).decode("utf-8", "replace")[:1000]

        def likeness(call: RecordedCall) -> tuple[float, float]:
            names = SequenceMatcher(None, name_call(call)[:200], name_call(asked)[:200]).ratio()
            text = canonical(call.arguments).decode("utf-8", "replace")[:1000]
            return names, SequenceMatcher(None, text, wanted).ratio()

        return max((named or left)[:_MAX_NAMED], key=likeness, default=None)


def _read_call(call: ProgramCall) -> RecordedCall:
    if isinstance(call, frames.SdkCallFrame):
        return RecordedCall(
            number=call.number, server="paddock", tool=call.name, sdk=True, arguments=call.arguments
        )
    return RecordedCall(
        number=call.number,
        server=call.server,
        tool=call.tool,
        arguments=call.arguments,
        raw=call.raw,
        method=call.is_method,
        encoded=call.encoded,
    )


def _identify(call: RecordedCall) -> bytes:
    return canonical([call.server, call.tool, call.sdk, call.raw, call.method, call.encoded, call.arguments])


def _describe_lack(asked: RecordedCall) -> str:
    return f"The recording has no call of {name_call(asked)} like this one"


def explain_unrecorded(asked: RecordedCall, arguments: "Json", nearest: RecordedCall | None) -> str:
    """Return the error for a call that the recording does not have."""
    what = _describe_lack(asked)
    if nearest is None:
        return f"{what}, and no other call is left in it."
    place = f"call {nearest.number}, of {name_call(nearest)}"
    if name_call(nearest) != name_call(asked):
        return f"{what}. The nearest one is {place}."
    found = find_difference(nearest.arguments, arguments, "arguments")
    return f"{what}. The nearest one is {place}, which differs at {found[0] if found else 'its form'}."
