"""Remove secrets from outcomes before they leave Paddock."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.model.outcome import (
    CallRecord,
    ConsoleLine,
    ErrorInfo,
    Outcome,
    PlannedCall,
    RawResult,
)
from paddock.model.tool import ToolEnd
from paddock.policy.redaction.colours import ESCAPE, ESCAPED_SLASH
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.private_keys import KEY_SIGN
from paddock.policy.redaction.rules import may_match
from paddock.policy.redaction.scanner import Scanner, Slices, finish
from paddock.policy.redaction.stream import StreamRedactor
from paddock.policy.redaction.structured import walk_members
from paddock.policy.settings.schema import RedactionSettings

_ESCAPE, _ESCAPED_SLASH = ESCAPE.decode(), ESCAPED_SLASH.decode()
_MAX_NAME_BYTES = 256
"""Maximum length of a member's name by which its value is judged."""


class Removal:
    """One pass over the texts of one answer. `count` is the number of secrets removed so far."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._keywords: tuple[str, ...] | None = None
        """Keywords that a string of the current value may contain; None if it may contain any."""
        self._sees_numbers = False
        self._beginnings: dict[str, bytes] = {}
        self.count = 0

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        return finish(self.text_in_slices(text))

    def json(self, value: Json, *, numbers: bool = True, written: bytes | None = None) -> Json:
        """Return a copy of a JSON value without its secrets, also in names of members.

        Patterns of the settings also see `numbers`. `written` is the value as JSON, which makes this faster.
        """
        return finish(self.json_in_slices(value, numbers=numbers, written=written))

    def text_in_slices(self, text: str) -> Slices[str]:
        """Return a text without its secrets."""
        if self._keywords is not None and _ESCAPE not in text and _ESCAPED_SLASH not in text:
            lowered = text.lower()
            if not any(word in lowered for word in self._keywords):
                return text
        data = text.encode("utf-8", "surrogatepass")
        if self._scanner.leaves_alone(data):
            return text
        if KEY_SIGN in data:
            stream = StreamRedactor(self._scanner)
            redacted = (yield from stream.feed_in_slices(data)) + (yield from stream.end_in_slices())
            count = stream.count
        else:
            redacted, count = yield from self._scanner.redact_in_slices(data)
        self.count += count
        return redacted.decode("utf-8", "surrogatepass") if count else text

    def json_in_slices(
        self, value: Json, *, numbers: bool = True, written: bytes | None = None
    ) -> Slices[Json]:
        """Return a JSON value without its secrets: see `json`."""
        self._sees_numbers = numbers and self._scanner.has_patterns
        self._keywords = None if written is None else self._scanner.find_keywords(written)
        members = walk_members(value)
        try:
            name, scalar = next(members)
            while True:
                left = (
                    yield from self._redact_scalar(scalar)
                    if name is None
                    else self._redact_member(name, scalar)
                )
                yield
                name, scalar = members.send(left)
        except StopIteration as end:
            return end.value
        finally:
            self._keywords = None

    def _redact_scalar(self, scalar: Json) -> Slices[Json]:
        if isinstance(scalar, str):
            return (yield from self.text_in_slices(scalar))
        if scalar is None or isinstance(scalar, bool) or not self._sees_numbers:
            return scalar
        written = dumps(scalar)
        left = yield from self.text_in_slices(written)
        return scalar if left == written else left

    def _redact_member(self, name: str, scalar: Json) -> Slices[Json]:
        """Return the scalar of a member without secrets. Its first line is judged as it would be after `"name": "`."""
        if not isinstance(scalar, str):
            return (yield from self._redact_scalar(scalar))
        alone = yield from self.text_in_slices(scalar)
        beginning = self._member_prefix(name)
        if not beginning:
            return alone
        end = min((at for at in map(alone.find, "\n\r") if at >= 0), default=len(alone))
        line = alone[:end].encode("utf-8", "surrogatepass")
        redacted, count = yield from self._scanner.redact_tail(beginning, line)
        self.count += count
        return redacted.decode("utf-8", "surrogatepass") + alone[end:] if count else alone

    def _member_prefix(self, name: str) -> bytes:
        """Return the text before a member's value; b"" if no rule judges a value by this name."""
        found = self._beginnings.get(name)
        if found is None:
            found = f'"{name}": "'.encode("utf-8", "surrogatepass")
            decides = self._scanner.has_rules and len(found) <= _MAX_NAME_BYTES and b"\n" not in found
            found = self._beginnings[name] = found if decides and may_match(found) else b""
        return found


OnCall = Callable[[CallRecord], None]

_Result = TypeVar("_Result", bound=RawResult)
_Part = TypeVar("_Part", ConsoleLine, CallRecord, PlannedCall)

_MAX_ITEM_CHARS = 128
"""Maximum characters of an item of a list in the ledger; a mark can be longer than the secret that it replaces."""
_FOREIGN_LISTS = ("violations", "hosts", "requirements", "paths")
_FOREIGN_FACTS = {"name", "executable", "cwd", "file", "prompt", "actor", "variables", *_FOREIGN_LISTS}
"""Facts for the ledger whose texts a program or a caller chose."""


class OutgoingRedaction:
    """Removes secrets from everything that leaves a Paddock."""

    def __init__(
        self, settings: RedactionSettings, secrets: KnownSecrets, *, compatible: bool = False
    ) -> None:
        """Remove known `secrets` and what `settings` say; with `compatible`, use the marks of the compat profile."""
        self._scanner = Scanner(settings, secrets, "answer" if compatible else "default")
        self.output = Scanner(settings, secrets, "output") if compatible else self._scanner
        """The scanner for the output of programs."""
        self.known_secrets = secrets

    @property
    def warnings(self) -> tuple[str, ...]:
        """Which patterns of the settings are not used, and why."""
        return self._scanner.warnings

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return Removal(self._scanner).text(text)

    def json(self, value: Json, *, numbers: bool = True) -> Json:
        """Return a JSON value without secrets, also in names of members; patterns also see `numbers`."""
        return finish(self.json_in_slices(value, numbers=numbers))

    def json_in_slices(self, value: Json, *, numbers: bool = True) -> Slices[Json]:
        """Return a JSON value without secrets: see `json`."""
        return Removal(self._scanner).json_in_slices(value, numbers=numbers)

    def leaves_alone(self, texts: Iterable[str]) -> bool:
        """Return True if no text contains a secret, by a fast check. False is only a guess."""
        return self._scanner.leaves_alone("\n".join(texts).encode("utf-8", "surrogatepass"))

    def facts(self, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return facts for the ledger without secrets: a program chooses the names that it calls."""
        if self.known_secrets and self.known_secrets.occur_in(_join_texts(facts)):
            facts = {key: _cut_items(self.known_secrets.hide_json(value)) for key, value in facts.items()}
        foreign = {key: facts[key] for key in facts.keys() & _FOREIGN_FACTS if facts[key]}
        if self._scanner.leaves_name_alone(_join_texts(foreign)):
            return facts
        found = {
            key: self.text(value) if isinstance(value, str) else _cut_items([*map(self.text, value)])
            for key, value in foreign.items()
        }
        return {**facts, **found}

    def line(self, line: ConsoleLine) -> ConsoleLine:
        """Return a console line without secrets."""
        return finish(self.line_in_slices(line))

    def line_in_slices(self, line: ConsoleLine) -> Slices[ConsoleLine]:
        """Return a console line without secrets."""
        return _redact_line(line, Removal(self._scanner))

    def calls(self, on_call: OnCall | None) -> OnCall | None:
        """Return a listener that gets each ended call without secrets."""
        return on_call and (lambda call: on_call(finish(_redact_call(call, Removal(self._scanner)))))

    def result_in_slices(self, outcome: _Result, written: bytes) -> Slices[_Result]:
        """Return a result without secrets, with the number of removals; `written` is its value as JSON."""
        removal = Removal(self._scanner)
        changes: dict[str, object] = {}
        if outcome.console and not self.leaves_alone(line.text for line in outcome.console):
            changes["console"] = yield from _redact_each(_redact_line, outcome.console, removal)
        if outcome.calls and not self.leaves_alone(
            name for call in outcome.calls for name in (call.server, call.tool)
        ):
            changes["calls"] = yield from _redact_each(_redact_call, outcome.calls, removal)
        if outcome.planned:
            changes["planned"] = yield from _redact_each(_redact_planned, outcome.planned, removal)
        if written and not self._scanner.leaves_alone(written):
            changes["value"] = yield from removal.json_in_slices(outcome.value, written=written)
        if outcome.program is not None and outcome.program.violations:
            violations = tuple(map(removal.text, outcome.program.violations))
            changes["program"] = outcome.program.model_copy(update={"violations": violations})
        if outcome.tool is not None:
            changes["tool"] = yield from _redact_tool(outcome.tool, removal)
        if outcome.error is not None:
            changes["error"] = yield from _redact_error(outcome.error, removal)
        if removal.count:
            changes["redactions"] = outcome.redactions + removal.count
        return outcome.model_copy(update=changes) if changes else outcome

    def refusal(self, outcome: Outcome) -> Outcome:
        """Return the outcome of a rejected request without secrets: its reasons quote the request."""
        outcome = finish(self.result_in_slices(outcome, b""))
        removal = Removal(self._scanner)
        texts = {
            name: tuple(map(removal.text, getattr(outcome.decision, name))) for name in ("reasons", "asks")
        }
        if not removal.count:
            return outcome
        changes = {"decision": outcome.decision.model_copy(update=texts)}
        return outcome.model_copy(update={**changes, "redactions": outcome.redactions + removal.count})


def _join_texts(facts: Mapping[str, Any]) -> str:
    """Return all texts of facts, one on each line."""
    texts: list[str] = []
    for value in facts.values():
        if isinstance(value, str):
            texts.append(value)
        elif isinstance(value, (list, tuple)):
            texts += cast("Iterable[str]", value)
    return "\n".join(texts)


def _redact_each(
    redact: Callable[[_Part, Removal], Slices[_Part]], parts: Iterable[_Part], removal: Removal
) -> Slices[tuple[_Part, ...]]:
    done: list[_Part] = []
    for part in parts:
        done.append((yield from redact(part, removal)))
        yield
    return tuple(done)


def _redact_line(line: ConsoleLine, removal: Removal) -> Slices[ConsoleLine]:
    text = yield from removal.text_in_slices(line.text)
    return line if text == line.text else line.model_copy(update={"text": text})


def _redact_call(call: CallRecord, removal: Removal) -> Slices[CallRecord]:
    """Return a call without secrets in its names, which the program chose."""
    names = yield from _redact_fields(call, ("server", "tool"), removal)
    return call if names == {"server": call.server, "tool": call.tool} else call.model_copy(update=names)


def _redact_planned(call: PlannedCall, removal: Removal) -> Slices[PlannedCall]:
    """Return a planned call without secrets, which may be in its names and therefore in its questions."""
    names = yield from _redact_fields(call, ("server", "tool"), removal)
    arguments = yield from removal.json_in_slices(call.arguments)
    rest = {"arguments": arguments, "asks": tuple(map(removal.text, call.asks))}
    return call.model_copy(update={**names, **rest})


def _cut_items(fact: Json) -> Json:
    """Return a fact for the ledger; items of a list are cut to the length that the ledger accepts."""
    return [each[:_MAX_ITEM_CHARS] for each in cast("list[str]", fact)] if isinstance(fact, list) else fact


def _redact_tool(end: ToolEnd, removal: Removal) -> Slices[ToolEnd]:
    texts = yield from _redact_fields(end, ("stdout", "stderr"), removal)
    error = None if end.error is None else removal.text(end.error)
    output = yield from removal.json_in_slices(end.output)
    violations = tuple(map(removal.text, end.violations))
    return end.model_copy(update={**texts, "error": error, "output": output, "violations": violations})


def _redact_error(error: ErrorInfo, removal: Removal) -> Slices[ErrorInfo]:
    texts = yield from _redact_fields(error, ("name", "message", "excerpt", "thrown", "hint"), removal)
    frames = tuple(
        frame.model_copy(update={"function": removal.text(frame.function)}) for frame in error.frames
    )
    data = yield from removal.json_in_slices(error.data)
    return error.model_copy(update={**texts, "frames": frames, "data": data})


def _redact_fields(owner: object, names: Iterable[str], removal: Removal) -> Slices[dict[str, str]]:
    texts: dict[str, str] = {}
    for name in names:
        texts[name] = yield from removal.text_in_slices(getattr(owner, name))
    return texts
