"""Check what a driver says that a program shows. Nothing of it is believed but its form."""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import cast

from paddock.model.base import Json
from paddock.model.limits import MIB
from paddock.model.session import Result

MAX_RESULTS = 100
"""Maximum number of values that one execution shows."""
MAX_RESULTS_BYTES = 32 * MIB
"""Maximum size of all of them."""
_TEXTS = frozenset({"text/plain", "text/html", "text/markdown", "text/latex", "image/svg+xml"})
_SIGNATURES: Mapping[str, Callable[[bytes], bool]] = {
    "image/png": lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"),
    "image/jpeg": lambda data: data.startswith(b"\xff\xd8\xff"),
    "image/gif": lambda data: data.startswith((b"GIF87a", b"GIF89a")),
    "image/webp": lambda data: data.startswith(b"RIFF") and data[8:12] == b"WEBP",
}


def read_result(found: Json, hide: Callable[[str], str], hide_json: Callable[[Json], Json]) -> Result:
    """Return a value that a driver sent, without secrets and without forms that are not what they are called."""
    given = cast("dict[str, Json]", found) if isinstance(found, dict) else {}
    data: dict[str, Json] = {"text/plain": ""}
    for kind, form in given.items():
        if kind in _TEXTS and isinstance(form, str):
            data[kind] = hide(form)
        elif kind in _SIGNATURES and isinstance(form, str) and (image := _read_image(kind, form)):
            data[kind] = image
        elif kind == "application/json":
            data[kind] = hide_json(form)
    return Result(data=data)


def _read_image(kind: str, text: str) -> str:
    """Return an image in the usual base64 form, without line ends; "" if it is none."""
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return ""
    return base64.b64encode(data).decode() if _SIGNATURES[kind](data) else ""
