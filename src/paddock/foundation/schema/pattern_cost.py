"""What matching a schema's patterns costs: they take linear time, but a character may meet every state of a pattern.

The engine is asked itself: the least size that it can compile a pattern within bounds what one character costs.
"""

from collections.abc import Mapping

from paddock.model.texts import ellipsis

MAX_PATTERNS = 300
MAX_PATTERN_CHARS = 16 * 1024
"""Characters of all patterns together; they are read before their size is known."""
MAX_CLASSES = 40
"""Unicode classes such as `\\p{L}`, each of which takes as long to read as a thousand characters."""
SIZES_KIB = (1, 4, 16, 64, 512)
"""Sizes of compiled patterns: that of `^[a-z]+$` is 1, of an e-mail's address 16, of `^.{1,255}$` 512."""
_MAX_TOTAL_KIB = 4 * 1024
_MAX_QUOTED_CHARS = 60


class BadPatternError(ValueError):
    """A pattern that takes more than linear time or 512 KiB, or is no regular expression."""

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self.pattern = pattern


def measure_patterns(patterns: Mapping[str, int]) -> dict[str, int]:
    """Return the KiB that each pattern compiles to, one of `SIZES_KIB`.

    `patterns` says how often the schema has each. Raises BadPatternError for a pattern that takes more than linear
    time or 512 KiB, and ValueError for too many.
    """
    classes = {pattern: pattern.count("\\p") + pattern.count("\\P") for pattern in patterns}
    if sum(patterns.values()) > MAX_PATTERNS:
        raise ValueError(f"it has more than {MAX_PATTERNS} patterns")
    if sum(len(pattern) * times for pattern, times in patterns.items()) > MAX_PATTERN_CHARS:
        raise ValueError(f"its patterns have more than {MAX_PATTERN_CHARS} characters")
    if sum(classes[pattern] * times for pattern, times in patterns.items()) > MAX_CLASSES:
        raise ValueError(f"its patterns have more than {MAX_CLASSES} Unicode classes")
    sizes: dict[str, int] = {}
    total = 0
    for pattern, times in patterns.items():
        sizes[pattern] = _measure_pattern(pattern)
        total += sizes[pattern] * times
        if total > _MAX_TOTAL_KIB:
            raise ValueError(f"its patterns compile to more than {_MAX_TOTAL_KIB} KiB")
    return sizes


def _measure_pattern(pattern: str) -> int:
    from jsonschema_rs import RegexOptions, validator_for  # 30 ms that only schemas with patterns pay

    for kib in SIZES_KIB:
        try:
            validator_for({"pattern": pattern}, pattern_options=RegexOptions(size_limit=kib * 1024))
        except ValueError:
            continue
        return kib
    shown = ellipsis(pattern, _MAX_QUOTED_CHARS)
    raise BadPatternError(
        f"the pattern {shown!r} is no regular expression, or none that takes linear time and "
        f"{SIZES_KIB[-1]} KiB",
        pattern,
    )
