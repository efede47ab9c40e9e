"""The languages that have sessions, and the drivers of their interpreters."""

from functools import cache
from importlib.resources import files

_DRIVERS = {"python": "python.py"}
LANGUAGES = tuple(_DRIVERS)


@cache
def read_driver(language: str) -> str:
    """Return the text of a language's driver. Raises KeyError without one."""
    return (files("paddock.sessions") / "drivers" / _DRIVERS[language]).read_text(encoding="utf-8")
