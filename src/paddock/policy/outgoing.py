"""An outcome as it may leave Paddock: without secrets (X36).

Three kinds of them: what looks like one, what the patterns of the settings match, and what Paddock itself handed out.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.model.outcome import CallRecord, ConsoleLine, Outcome, PlannedCall
from paddock.model.settings import RedactionSettings
from paddock.model.tool import ToolEnd
from paddock.policy.known import KnownSecrets
from paddock.policy.redact import mapped, may_hold_secrets, redact_json, redact_text

OnConsole = Callable[[ConsoleLine], None]
OnCall = Callable[[CallRecord], None]
_Rules = list[Callable[[str], str]]


class Outgoing:
    """What a session removes from everything that leaves it."""

    def __init__(self, settings: RedactionSettings, secrets: KnownSecrets) -> None:
        self._patterns = settings.patterns if settings.enabled else ()
        self._secrets = secrets

    @cached_property
    def _compiled(self) -> tuple[_Rules, tuple[str, ...]]:
        from paddock.policy.redaction import compiled  # noqa: PLC0415 - only who has patterns of their own pays for it

        return compiled(self._patterns)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which patterns of the settings are not used, and why."""
        return self._compiled[1] if self._patterns else ()

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self._matched(redact_text(self._secrets.hide(text)))

    def json(self, value: Json) -> Json:
        """Return a JSON value without secrets, names of members included."""
        return self._matched_json(redact_json(self._secrets.hide_json(value)))

    def facts(self, facts: dict[str, Any]) -> dict[str, Any]:
        """Return facts for the record without secrets that were handed out: a program chooses the names it calls."""
        if not self._secrets:
            return facts
        return {key: self._secrets.hide_json(value) for key, value in facts.items()}

    def console(self, on_console: OnConsole | None) -> OnConsole | None:
        """Return what hears each console line as it may leave."""
        return on_console and (lambda line: on_console(self._line(line)))

    def calls(self, on_call: OnCall | None) -> OnCall | None:
        """Return what hears each ended call as it may leave."""
        return on_call and (lambda call: on_call(self._call(call)))

    def outcome(self, outcome: Outcome, written: bytes) -> Outcome:
        """Return an outcome as it may leave; `written` is its value as JSON."""
        changes: dict[str, object] = {}
        if outcome.console:
            changes["console"] = tuple(map(self._line, outcome.console))
        if outcome.calls:
            changes["calls"] = tuple(map(self._call, outcome.calls))
        if outcome.planned:
            changes["planned"] = tuple(map(self._planned, outcome.planned))
        if self._patterns or self._secrets or may_hold_secrets(written.decode("utf-8", "surrogatepass")):
            changes["value"] = self.json(outcome.value)
        if (tool := outcome.tool) is not None:
            changes["tool"] = self._end(tool)
        if (error := outcome.error) is not None:
            texts = {
                key: self.text(getattr(error, key))
                for key in ("name", "message", "excerpt", "thrown", "hint")
            }
            frames = tuple(
                each.model_copy(update={"function": self.text(each.function)}) for each in error.frames
            )
            changes["error"] = error.model_copy(
                update={**texts, "frames": frames, "data": self.json(error.data)}
            )
        return outcome.model_copy(update=changes) if changes else outcome

    def _line(self, line: ConsoleLine) -> ConsoleLine:
        text = self.text(line.text)
        return line if text == line.text else line.model_copy(update={"text": text})

    def _call(self, call: CallRecord) -> CallRecord:
        """Return a call whose names, which the program chose, hold no secret."""
        names = {"server": self.text(call.server), "tool": self.text(call.tool)}
        return call if names == {"server": call.server, "tool": call.tool} else call.model_copy(update=names)

    def _planned(self, call: PlannedCall) -> PlannedCall:
        """Return a planned call without secrets; they may be in its names, and so in what would have been asked."""
        names = {"server": self.text(call.server), "tool": self.text(call.tool)}
        rest = {"arguments": self.json(call.arguments), "asks": tuple(map(self.text, call.asks))}
        return call.model_copy(update={**names, **rest})

    def _end(self, end: ToolEnd) -> ToolEnd:
        texts = {name: self.text(getattr(end, name)) for name in ("stdout", "stderr")}
        error = None if end.error is None else self.text(end.error)
        return end.model_copy(update={**texts, "error": error, "output": self.json(end.output)})

    def _matched(self, text: str) -> str:
        """Return a text without what the patterns match; none sees beyond the end of a line."""
        if not self._patterns:
            return text
        lines = text.split("\n")
        for rule in self._compiled[0]:
            lines = [rule(line) for line in lines]
        return "\n".join(lines)

    def _matched_json(self, value: Json) -> Json:
        return mapped(value, self._matched_scalar) if self._patterns else value

    def _matched_scalar(self, value: Json) -> Json:
        if isinstance(value, bool | None):
            return value
        written = value if isinstance(value, str) else dumps(value)
        return value if (left := self._matched(written)) == written else left
