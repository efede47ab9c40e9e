"""What is still done when a signal ends this process by force: the record says how requests ended that were under way.

A module of its own because every command imports it, and `cancellation` needs asyncio.
"""

import contextlib
from collections.abc import Callable, Generator

_acts: list[Callable[[], None]] = []


@contextlib.contextmanager
def do_before(act: Callable[[], None]) -> Generator[None]:
    """Have `act` called when this process is ended by force.

    It runs in its own thread while the other threads go on. The process ends afterwards.
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
