"""Second names of tools: a program may write `servers.g.get_sum(...)` for a tool `get-sum`."""

import re
from collections import Counter
from collections.abc import Iterable

_OTHER = re.compile(r"[^A-Za-z0-9_$]")


def aliases(names: Iterable[str]) -> dict[str, str]:
    """Return the tools of one server by alias, which is an identifier.

    A tool has one where its name is printable ASCII, and no other tool has that name or would have that alias.
    """
    known = dict.fromkeys(names)
    found = {name: alias for name in known if (alias := _alias(name)) and alias not in known}
    shared = Counter(found.values())
    return {alias: name for name, alias in found.items() if shared[alias] == 1}


def _alias(name: str) -> str:
    """Return a name as an identifier; empty where it is one already, or may hold what is not seen."""
    if not name or not name.isascii() or not name.isprintable():
        return ""
    alias = _OTHER.sub("_", name)
    alias = f"_{alias}" if alias[0].isdigit() else alias
    return alias if alias != name else ""
