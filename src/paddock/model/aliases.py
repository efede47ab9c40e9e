"""The name of a tool as an identifier."""

import re

_OTHER_CHARACTERS = re.compile(r"[^A-Za-z0-9_$]")


def write_alias(name: str) -> str:
    """Return the name of a tool as an identifier; empty if it is one already, or may have invisible characters."""
    if not name or not name.isascii() or not name.isprintable():
        return ""
    alias = _OTHER_CHARACTERS.sub("_", name)
    alias = f"_{alias}" if alias[0].isdigit() else alias
    return alias if alias != name else ""
