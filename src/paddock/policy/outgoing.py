"""An outcome as it may leave Paddock: without secrets (X36)."""

from collections.abc import Callable

from paddock.model.outcome import ConsoleLine, Outcome
from paddock.model.tool import ToolEnd
from paddock.policy.known import KnownSecrets
from paddock.policy.redact import may_hold_secrets, redact_json, redact_text

OnConsole = Callable[[ConsoleLine], None]


def redacting(on_console: OnConsole | None, secrets: KnownSecrets) -> OnConsole | None:
    """Return what hears each console line as it may leave Paddock."""
    if on_console is None:
        return None
    return lambda line: on_console(_clean(line, secrets))


def _clean(line: ConsoleLine, secrets: KnownSecrets) -> ConsoleLine:
    text = secrets.hide(redact_text(line.text))
    return line if text == line.text else line.model_copy(update={"text": text})


def _clean_end(end: ToolEnd, secrets: KnownSecrets) -> ToolEnd:
    texts = {name: secrets.hide(redact_text(getattr(end, name))) for name in ("stdout", "stderr")}
    error = None if end.error is None else secrets.hide(redact_text(end.error))
    output = secrets.hide_json(redact_json(end.output))
    return end.model_copy(update={**texts, "error": error, "output": output})


def redacted(outcome: Outcome, text: str, secrets: KnownSecrets) -> Outcome:
    """Return the outcome as it may leave Paddock (X36); `text` is its value as JSON."""
    changes: dict[str, object] = {"console": tuple(_clean(line, secrets) for line in outcome.console)}
    changes["planned"] = tuple(
        call.model_copy(update={"arguments": secrets.hide_json(redact_json(call.arguments))})
        for call in outcome.planned
    )
    if may_hold_secrets(text):
        changes["value"] = redact_json(outcome.value)
    if secrets:
        changes["value"] = secrets.hide_json(changes.get("value", outcome.value))
    if (tool := outcome.tool) is not None:
        changes["tool"] = _clean_end(tool, secrets)
    if (error := outcome.error) is not None:
        texts = {
            key: secrets.hide(redact_text(getattr(error, key)))
            for key in ("name", "message", "excerpt", "thrown", "hint")
        }
        changes["error"] = error.model_copy(update=texts)
    return outcome.model_copy(update=changes)
