"""Send what programs made, so that a browser runs nothing in it and guesses no type."""

import re
from urllib.parse import quote

from starlette.responses import Response

from paddock.gate.past_runs.stored import sniff_image
from paddock.surfaces.http_api.downloads import Downloads

_MAX_IMAGE_BYTES = 16 * 1024 * 1024
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_downloads = Downloads()
"""The memory for files that are being sent, of all viewers together."""
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


def send_file_to_show(data: bytes, name: str) -> Response:
    """Return an answer with a file: a raster image to show, anything else to save."""
    kind = sniff_image(data) if len(data) <= _MAX_IMAGE_BYTES else None
    return _send(data, kind or "application/octet-stream", name, "inline" if kind else "attachment")


def send_text_to_save(data: bytes, name: str) -> Response:
    """Return an answer with a text to save."""
    return _send(data, "text/plain; charset=utf-8", name, "attachment")


def _send(data: bytes, media_type: str, name: str, disposition: str) -> Response:
    plain = _UNSAFE_IN_NAMES.sub("_", name)[-100:].lstrip(".") or "file"
    exact = quote(name.encode("utf-8", "replace")[-200:], safe="")
    named = f"{disposition}; filename=\"{plain}\"; filename*=UTF-8''{exact}"
    return _downloads.respond(data, media_type, {**_HEADERS, "Content-Disposition": named})
