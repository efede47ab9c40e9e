"""The parts of an outcome as HTML for notebooks.

What a program made is hostile. Its text is escaped. Images are data of `<img>`, in which an SVG runs no script. HTML is
shown in a frame that runs no script and loads nothing (HTML Standard, section 4.8.5, `sandbox`; CSP Level 3).
"""

import base64
from html import escape
from typing import TYPE_CHECKING

from paddock.model.base import Json
from paddock.model.numbers import dumps
from paddock.model.texts import cut_text

if TYPE_CHECKING:
    from paddock.model.session import Result

_MAX_TEXT_CHARS = 20_000
"""Maximum length of one text, in characters."""
_MAX_FORM_BYTES = 4 * 1024 * 1024
"""Maximum size of one image or table; a larger one is shown as text."""
_IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_facts(status: str, wall_ms: float, audit: str) -> str:
    """Return the first line of an outcome."""
    return f"<div><strong>{status}</strong> · {wall_ms:.1f} ms · record {escape(audit)}</div>"


def render_console(lines: str) -> str:
    """Return console lines, which are unfolded by a click."""
    return f"<details><summary>console</summary>{render_text(lines)}</details>"


def render_result(result: "Result") -> str:
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
    return render_text(result.text)


def render_value(value: Json) -> str:
    """Return a program's value: a string unchanged, anything else as JSON."""
    if isinstance(value, str):
        return render_text(value)
    try:
        return render_text(dumps(value, indent=2, ensure_ascii=False))
    except RecursionError:
        return render_text("(nested too deeply to be shown)")


def render_text(text: str) -> str:
    """Return a text as a block, shortened."""
    shown = cut_text(text, _MAX_TEXT_CHARS)
    return f"<pre>{escape(shown.encode('utf-8', 'replace').decode())}</pre>"
