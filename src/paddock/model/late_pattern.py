"""Regular expressions that are compiled at their first use.

A command imports hundreds of them and uses a few; compiling one takes a tenth of a millisecond and more.
"""

import re
from typing import AnyStr, cast


class LatePattern:
    """Stands for a compiled pattern, except as an argument of a function of `re`."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text = text
        self._flags = flags

    def __getattr__(self, name: str) -> object:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)  # the next use does not come here
        return value


def compile_late(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a pattern that is compiled at its first use. Use its methods; the functions of `re` reject it."""
    return cast("re.Pattern[AnyStr]", LatePattern(text, flags))
