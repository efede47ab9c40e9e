"""Make the recording of what a program did, without its secrets."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from paddock.engines.javascript import frames
from paddock.foundation.large_json import run_in_slices
from paddock.model.outcome import ConsoleLine
from paddock.record.payloads.recorded_run import (
    RecordedAction,
    RecordedCall,
    RecordedError,
    RecordedEvent,
    RecordedProgram,
    RecordedRun,
    RecordedStart,
)

if TYPE_CHECKING:
    from paddock.engines.javascript.tape import Tape
    from paddock.model.base import Json
    from paddock.model.outcome import RawResult
    from paddock.model.request import ExecutionRequest, GuestRun
    from paddock.policy.redaction.outgoing import OutgoingRedaction


async def transcribe(
    request: "ExecutionRequest",
    work: "GuestRun",
    tape: "Tape",
    result: "RawResult",
    outgoing: "OutgoingRedaction",
) -> RecordedRun:
    """Return the recording of a program that has ended."""
    pen = _Pen(outgoing)
    error = result.error
    return RecordedRun(
        run=request.id,
        actor=request.actor,
        workspace=str(request.workspace),
        recorded=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        program=RecordedProgram(
            name=await pen.write("name", work.name),
            source=await pen.write("source", work.source),
            language=work.language,
            profile=work.profile,
            input=await pen.write("input", work.input),
            vars=await pen.write("vars", dict(work.vars)),
            raw_results=work.raw_results,
            calls=request.calls,
        ),
        start=RecordedStart(
            instant=tape.start.instant, seed=tape.start.seed, entropy=tape.start.entropy.hex()
        ),
        calls=tuple([call async for call in _write_calls(tape, pen)]),
        events=tuple(RecordedEvent(call=event.number, at=event.at) for event in tape.events),
        actions=tuple([await pen.write_action(action) for action in tape.actions]),
        status=result.status,
        value=await pen.write("value", result.value),
        has_value=result.has_value,
        error=None
        if error is None
        else RecordedError(
            name=await pen.write("error", error.name),
            message=await pen.write("error", error.message),
            line=error.line,
            column=error.column,
        ),
        redacted=tuple(dict.fromkeys(pen.redacted)),
    )


class _Pen:
    """Writes parts of a recording, and notes from which it has removed secrets."""

    def __init__(self, outgoing: "OutgoingRedaction") -> None:
        self._outgoing = outgoing
        self.redacted: list[str] = []

    async def write(self, part: str, value: "Json") -> "Json":
        shown = await run_in_slices(self._outgoing.json_in_slices(value))
        if shown != value:
            self.redacted.append(part)
        return shown

    async def write_action(self, action: "int | ConsoleLine") -> RecordedAction:
        if not isinstance(action, ConsoleLine):
            return RecordedAction(call=action)
        text = await self.write("console", action.text)
        return RecordedAction(line=ConsoleLine(level=action.level, text=text))


async def _write_calls(tape: "Tape", pen: _Pen) -> AsyncIterator[RecordedCall]:
    others = pen.redacted
    for number, call in tape.calls.items():
        pen.redacted = []
        if isinstance(call, frames.RefusedCall):
            yield RecordedCall(
                number=number,
                server=await pen.write("name", call.server),
                tool=await pen.write("name", call.name),
                sdk=call.server == "paddock",
                redacted=tuple(part for part in ("name",) if part in pen.redacted),
            )
            continue
        reply = tape.replies.get(number)
        is_sdk = isinstance(call, frames.SdkCallFrame)
        yield RecordedCall(
            number=number,
            server="paddock" if is_sdk else await pen.write("name", call.server),
            tool=call.name if is_sdk else await pen.write("name", call.tool),
            sdk=is_sdk,
            arguments=await pen.write("arguments", call.arguments),
            raw=False if is_sdk else call.raw,
            method=False if is_sdk else call.is_method,
            encoded=() if is_sdk else await pen.write("arguments", [[*path] for path in call.encoded]),
            status=None if reply is None else reply.status,
            value=None if reply is None else await pen.write("result", reply.value),
            error=None if reply is None else await pen.write("result", reply.error),
            warning="" if reply is None else await pen.write("result", reply.warning),
            redacted=tuple(part for part in ("name", "arguments", "result") if part in pen.redacted),
        )
    pen.redacted = others
