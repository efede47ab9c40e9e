"""Golden files: stored documents that a change of the code's shape must leave as they are."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FILES = Path(__file__).parents[1] / "golden" / "files"
WRITES = os.environ.get("GOLDEN_FILES") == "write"
"""Whether the documents are stored, not compared: after a change of them that is wanted."""
_OF_THE_RUN = {
    "ms",
    "wall_ms",
    "cpu_ms",
    "compile_ms",
    "peak_bytes",
    "durationMs",
    "expires_in_s",
    "tier",
    "layers",
    "residual",
}
"""Measured numbers, and what depends on the kernel."""
_VOLATILE = (
    (re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<hash>"),
    (re.compile(r"\b\w+-\d{13}-[0-9a-f]{16}\b"), "<artifact>"),
    (re.compile(r"^[0-9a-f]{12}$"), "<session>"),
)


def check_golden(name: str, found: object) -> None:
    """Fail unless a document, a text or JSON, is the one that is stored under a name."""
    text = found if isinstance(found, str) else json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    if WRITES:
        (FILES / name).write_text(text, encoding="utf-8")
    assert text.splitlines() == (FILES / name).read_text(encoding="utf-8").splitlines()


def replace_volatile(value: Any, places: Mapping[str, str], name: str = "") -> Any:
    """Return JSON with words for what differs from run to run: ids, times, measured numbers, and the given places."""
    if name in _OF_THE_RUN:
        return f"<{name}>"
    if isinstance(value, dict):
        return {key: replace_volatile(each, places, key) for key, each in value.items()}
    if isinstance(value, list):
        return [replace_volatile(each, places, name) for each in value]
    if isinstance(value, str):
        for place, word in places.items():
            value = value.replace(place, word)
        for pattern, word in _VOLATILE:
            value = pattern.sub(word, value)
        return value
    return value
