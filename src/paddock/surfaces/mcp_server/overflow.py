"""Store results that are too large, like the output of a program, to be searched and read by ranges."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from paddock.model.artifact import RunFacts, Stream
from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.model.outcome import Outcome
from paddock.surfaces.mcp_server.output_resources import build_links
from paddock.surfaces.mcp_server.toolbox import ToolAnswer, text_block
from paddock.surfaces.rendering import render
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.record.output.recording import Recording


class OverflowStore:
    """Stores complete results of shortened answers: stdout is the value, stderr is error and console."""

    def __init__(self, opened: "OpenPaddock", workspace: Path) -> None:
        self._opened = opened
        self._workspace = workspace

    async def add_handle(
        self,
        outcome: Outcome,
        shown: ToolAnswer,
        *,
        what: str,
        value: str | None = None,
        data: dict[str, Json] | None = None,
    ) -> ToolAnswer:
        """Return an answer with the handle of the complete result, also in `data` if that is Paddock's own.

        `value` replaces the outcome's value if it must be stored in another form. A result over its limit is stored
        already, beside the console.
        """
        if value is None:
            value = _render_in_lines(outcome) if outcome.has_value else ""
        console = [make_encodable(render.console_text(line)) for line in outcome.console]
        explained = [] if outcome.ok else [render.explain_outcome(outcome)]
        streams: dict[Stream, str] = {"stdout": value, "stderr": "\n".join([*explained, *console])}
        filled: list[Stream] = [stream for stream in streams if streams[stream]]
        if (handle := outcome.artifact) is not None:
            filled = ["stdout", "stderr"] if console else ["stdout"]
        else:
            handle, why = await self._store_streams(outcome, streams, what)
            if handle is None:
                return _append_line(shown, f"--- the complete result is not stored: {why}")
        contents = [f"{stream} has the {_STREAM_NAMES[stream]}" for stream in filled]
        line = f"--- the whole: query_output {handle} ({', '.join(contents)})"
        pointers = build_links(handle, filled, what)
        structured = shown.structured if data is None else {**data, "artifactHandle": handle}
        return replace(shown, content=[*_append_line(shown, line).content, *pointers], structured=structured)

    async def _store_streams(
        self, outcome: Outcome, streams: dict[Stream, str], what: str
    ) -> tuple[str | None, str]:
        """Return the handle of the stored streams, or None and the reason."""
        recording = self._opened.output.artifacts().record_result()
        try:
            await asyncio.to_thread(_write_streams, recording, streams)
            facts = RunFacts(
                workspace=str(self._workspace),
                runtime=what,
                request=outcome.id,
                status=outcome.status.value,
                duration_ms=outcome.usage.wall_ms,
                policy_audit_hash=outcome.decision.audit_hash,
                flow_labels=outcome.labels,
            )
            return await recording.finish(facts), recording.refusal
        finally:
            await recording.discard()


_STREAM_NAMES: dict[Stream, str] = {"stdout": "value", "stderr": "console"}


def _write_streams(recording: "Recording", streams: dict[Stream, str]) -> None:
    recording.stdout(streams["stdout"].encode("utf-8", "replace"))
    recording.stderr(streams["stderr"].encode("utf-8", "replace"))


def _render_in_lines(outcome: Outcome) -> str:
    """Return a value in lines, so that it can be searched; a string unchanged."""
    value = outcome.value
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()  # as in `render.compact`
    except TypeError:
        return dumps(value, ensure_ascii=False, indent=2)


def _append_line(shown: ToolAnswer, line: str) -> ToolAnswer:
    """Return an answer with a line added to its first text."""
    first, *others = shown.content or [text_block("")]
    if not isinstance(text := first.get("text"), str):
        return replace(shown, content=[*shown.content, text_block(line)])
    block = {**first, "text": f"{text}\n{line}"}
    return replace(shown, content=[block, *others])
