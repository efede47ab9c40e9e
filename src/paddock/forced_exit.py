"""What is still done when a signal ends this process by force: the record says how requests ended that were under way.

A room of its own because every command imports it, and `ends` needs asyncio.
"""

import contextlib
from collections.abc import Callable, Generator

_acts: list[Callable[[], None]] = []


@contextlib.contextmanager
def do_before(act: Callable[[], None]) -> Generator[None]:
    """Have `act` called when this process is ended by force.

    It is called in a thread of its own, while all others go on, and nothing follows it but the end of the process.
    """
    _acts.append(act)
    try:
        yield
    finally:
        _acts.remove(act)


def has_acts() -> bool:
    """Tell whether anything is to be done."""
    return bool(_acts)


def do_all() -> None:
    """Do it. What fails keeps nothing else from being done."""
    for act in tuple(_acts):
        with contextlib.suppress(Exception):
            act()
