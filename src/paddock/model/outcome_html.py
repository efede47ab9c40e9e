"""Outcomes as HTML for notebooks.

What a program made is hostile. Its text is escaped. Images are data of `<img>`, in which an SVG runs no script. HTML is
shown in a frame that runs no script and loads nothing (HTML Standard, section 4.8.5, `sandbox`; CSP Level 3).
"""

import base64
from html import escape
from typing import TYPE_CHECKING

from paddock.model.numbers import dumps
from paddock.model.texts import cut_text

if TYPE_CHECKING:
    from paddock.model.outcome import Outcome
    from paddock.model.session import Result

_MAX_TEXT_CHARS = 20_000
"""Maximum length of one text, in characters."""
_MAX_FORM_BYTES = 4 * 1024 * 1024
"""Maximum size of one image or table; a larger one is shown as text."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_html(outcome: "Outcome") -> str:
    """Return an outcome as HTML without scripts, links and requests to other servers."""
    facts = (
        f"<strong>{outcome.status}</strong> · {outcome.usage.wall_ms:.1f} ms · record {escape(outcome.audit)}"
    )
    parts = [f"<div>{facts}</div>"]
    if outcome.error is not None:
        parts.append(_render_block(f"{outcome.error.name}: {outcome.error.message}"))
    if outcome.has_value:
        text = outcome.value
        if not isinstance(text, str):
            try:
                text = dumps(text, indent=2, ensure_ascii=False)
            except RecursionError:
                text = "(nested too deeply to be shown)"
        parts.append(_render_block(text))
    if outcome.program is not None:
        for stream in (outcome.program.stdout, outcome.program.stderr):
            if stream.head:
                cut = " […] " if stream.truncated else ""
                parts.append(_render_block(f"{stream.head}{cut}{stream.tail}"))
    parts += map(_render_result, outcome.results)
    if outcome.console:
        lines = "\n".join(f"[{line.level}] {line.text}" for line in outcome.console)
        parts.append(f"<details><summary>console</summary>{_render_block(lines)}</details>")
    return "".join(parts)


def _render_result(result: "Result") -> str:
    """Return the richest form of a value that a notebook can show safely."""
    images = [(form, data) for form in _IMAGES if (data := result.read(form)) is not None]
    if result.svg is not None:
        images.append(("image/svg+xml", result.svg.encode("utf-8", "replace")))
    for form, data in images:
        if len(data) <= _MAX_FORM_BYTES:
            alternative = escape(
                result.text[:_MAX_TEXT_CHARS].encode("utf-8", "replace").decode(), quote=True
            )
            return f'<div><img alt="{alternative}" src="data:{form};base64,{base64.b64encode(data).decode()}"></div>'
    if result.html is not None and len(result.html) <= _MAX_FORM_BYTES:
        page = f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">{result.html}'
        inside = escape(page.encode("utf-8", "replace").decode(), quote=True)
        # Its height is a guess: a frame without scripts cannot say how high its content is.
        height = min(600, 60 + 24 * result.html.count("<tr"))
        return f'<iframe sandbox="" srcdoc="{inside}" style="width:100%;height:{height}px;border:0"></iframe>'
    return _render_block(result.text)


def _render_block(text: str) -> str:
    shown = cut_text(text, _MAX_TEXT_CHARS)
    return f"<pre>{escape(shown.encode('utf-8', 'replace').decode())}</pre>"
