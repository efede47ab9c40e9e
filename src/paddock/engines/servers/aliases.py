"""Second names of tools: a program may write `servers.g.get_sum(...)` for a tool `get-sum`."""

from collections import Counter
from collections.abc import Iterable

from paddock.model.aliases import write_alias


def make_aliases(names: Iterable[str]) -> dict[str, str]:
    """Return the tools of one server by alias. Each alias is an identifier.

    A tool gets an alias if its name is printable ASCII, no other tool has the alias as its name, and no other tool
    would get the same alias.
    """
    known = dict.fromkeys(names)
    found = {name: alias for name in known if (alias := write_alias(name)) and alias not in known}
    shared = Counter(found.values())
    return {alias: name for name, alias in found.items() if shared[alias] == 1}
