"""An outcome as a notebook shows it: status, value, console and error, as HTML without scripts, styles or links."""

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING

from paddock.model.base import Json
from paddock.model.numbers import dumps

if TYPE_CHECKING:
    from paddock.model.outcome import Outcome

_MAX_SHOWN_CHARS = 10_000
"""Characters shown of each part."""


def html(outcome: "Outcome") -> str:
    """Return an outcome as HTML; what the program made is escaped, and cut at 10,000 characters a part."""
    facts = (
        f"<strong>{outcome.status}</strong> · {outcome.usage.wall_ms:.1f} ms · record {escape(outcome.audit)}"
    )
    return f"<div>{facts}</div>{''.join(_list_parts(outcome))}"


def _list_parts(outcome: "Outcome") -> Iterator[str]:
    if outcome.error is not None:
        yield _render_block(f"{outcome.error.name}: {outcome.error.message}")
    if outcome.has_value:
        yield _render_block(_escape_text(outcome.value))
    if outcome.program is not None:
        for stream in (outcome.program.stdout, outcome.program.stderr):
            if stream.head:
                yield _render_block(f"{stream.head}{' […] ' if stream.truncated else ''}{stream.tail}")
    if outcome.console:
        lines = "\n".join(f"[{line.level}] {line.text}" for line in outcome.console)
        yield f"<details><summary>console</summary>{_render_block(lines)}</details>"


def _escape_text(value: Json) -> str:
    if isinstance(value, str):
        return value
    try:
        return dumps(value, indent=2, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply to be shown)"


def _render_block(text: str) -> str:
    shown = text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]} […]"
    return f"<pre>{escape(shown.encode('utf-8', 'replace').decode())}</pre>"
