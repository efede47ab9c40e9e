"""Send what programs made, so that a browser runs nothing in it and guesses no type."""

import re
from urllib.parse import quote

from starlette.responses import Response

from paddock.record.output.work_files import judge_media_type

_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""Images that are shown: they hold no script, as SVG does."""
_UNSAFE_PATTERN = re.compile(r"[^A-Za-z0-9._-]+")


def find_image_type(data: bytes) -> str:
    """Return the media type of an image that a page may show, by how it begins; empty for anything else."""
    found = judge_media_type("", data[:1024])
    return found if found in _IMAGES else ""


def send_inert(data: bytes, name: str) -> Response:
    """Return an answer with a file: an image to show, anything else to save."""
    image = find_image_type(data)
    plain = _UNSAFE_PATTERN.sub("_", name)[-100:].lstrip(".") or "file"
    exact = quote(name.encode("utf-8", "replace")[-200:], safe="")
    kind = "inline" if image else "attachment"
    disposition = f"{kind}; filename=\"{plain}\"; filename*=UTF-8''{exact}"
    media_type = image or "application/octet-stream"
    return Response(
        data, headers={**_HEADERS, "Content-Type": media_type, "Content-Disposition": disposition}
    )
