"""Return images, sounds and files in a program's value as content blocks, not as base64 in the text."""

import base64
import binascii
from typing import Any, cast

from paddock.model.base import Json

MAX_MEDIA_BLOCKS = 16
MAX_MEDIA_BYTES = 8 * 1024 * 1024
"""Maximum characters of base64 in one answer, over all blocks."""
_MAX_DEPTH = 32
_FAMILIES = {"image": "image/", "audio": "audio/"}


def may_hold_media(text: str) -> bool:
    """Return whether a value may contain media, judged by its JSON: fast, with false positives."""
    return any(f'"{kind}"' in text for kind in (*_FAMILIES, "resource"))


def lift_media(value: Json) -> tuple[Json, list[dict[str, Json]]]:
    """Return a value with a description in place of each medium, and the media as content blocks.

    Media that are too large or too many are left out, and their description says so. Look-alikes stay unchanged.
    """
    taking = _MediaCollector()
    return taking.replace_media(value, 0), taking.blocks


class _MediaCollector:
    def __init__(self) -> None:
        self.blocks: list[dict[str, Json]] = []
        self._room = MAX_MEDIA_BYTES

    def replace_media(self, value: Json, depth: int) -> Json:
        if depth > _MAX_DEPTH:
            return value
        if isinstance(value, list | tuple):
            items = cast("list[Json]", value)
            return [self.replace_media(each, depth + 1) for each in items]
        if not isinstance(value, dict):
            return value
        fields = cast("dict[str, Json]", value)
        if (size := _measure_block(fields)) is not None:
            return self._take_block(fields, *size)
        return {name: self.replace_media(each, depth + 1) for name, each in fields.items()}

    def _take_block(self, block: dict[str, Json], encoded: int, size: int) -> Json:
        holder = cast("dict[str, Json]", block["resource"]) if block["type"] == "resource" else block
        shown: dict[str, Json] = {"type": block["type"], "mimeType": holder.get("mimeType"), "bytes": size}
        if "uri" in holder:
            shown["uri"] = holder["uri"]
        if len(self.blocks) >= MAX_MEDIA_BLOCKS or encoded > self._room:
            return {
                **shown,
                "omitted": f"an answer has at most {MAX_MEDIA_BLOCKS} blocks of {MAX_MEDIA_BYTES} characters",
            }
        self._room -= encoded
        self.blocks.append(block)
        return {**shown, "block": len(self.blocks)}


def _measure_block(fields: dict[str, Json]) -> tuple[int, int] | None:
    """Return the characters and bytes of a media block; None for another value."""
    kind = fields.get("type")
    holder: Any = fields.get("resource") if kind == "resource" else fields
    if not isinstance(holder, dict):
        return None
    content = cast("dict[str, Json]", holder)
    data, mime = content.get("blob" if kind == "resource" else "data"), content.get("mimeType")
    if kind == "resource":
        fits = isinstance(content.get("uri"), str) and isinstance(mime, str | None)
    else:
        family = _FAMILIES.get(kind) if isinstance(kind, str) else None
        fits = family is not None and isinstance(mime, str) and mime.startswith(family)
    if not fits or not isinstance(data, str):
        return None
    try:
        return len(data), len(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return None
