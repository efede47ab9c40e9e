"""Durations and sizes as people write them: `2.5s`, `64 MiB`."""

import re
from collections.abc import Mapping
from decimal import Decimal

MAX_AMOUNT = 2**63 - 1
DURATIONS = "500ms, 2.5s, 5m or 2h"
SIZES = "500kB, 64MiB or 2GiB"

_QUANTITY_PATTERN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")
_MILLISECONDS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "B": 1,
    "kB": 1000,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}


def read_duration_ms(text: str) -> int:
    """Return a duration with its unit (`ms`, `s`, `m`, `h`, `d`) in milliseconds. Raises ValueError."""
    return _read_quantity(text, _MILLISECONDS, f"a duration such as {DURATIONS}, in whole milliseconds")


def read_size_bytes(text: str) -> int:
    """Return a size with its unit (`kB` is 1000 bytes, `KiB` is 1024, up to `GiB`) in bytes. Raises ValueError."""
    return _read_quantity(text, _BYTES, f"a size such as {SIZES}, in whole bytes")


def _read_quantity(text: str, units: Mapping[str, int], expected: str) -> int:
    found = _QUANTITY_PATTERN.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(f"must be {expected}")
    amount = Decimal(found[1]) * units[found[2]]
    if amount > MAX_AMOUNT or amount != int(amount):
        raise ValueError(f"must be {expected}")
    return int(amount)
