"""Actions to run when a signal ends this process by force, such as recording how the running requests ended.

Every command imports this module; it is separate from `cancellation`, which needs asyncio.
"""

import contextlib
from collections.abc import Callable, Generator

_acts: list[Callable[[], None]] = []


@contextlib.contextmanager
def do_before(act: Callable[[], None]) -> Generator[None]:
    """Call `act` if this process is ended by force within the context.

    It runs in a separate thread while the other threads continue. The process ends afterwards.
    """
    _acts.append(act)
    try:
        yield
    finally:
        _acts.remove(act)


def has_acts() -> bool:
    """Return whether an action is registered."""
    return bool(_acts)


def do_all() -> None:
    """Run every registered action, also after one of them failed."""
    for act in tuple(_acts):
        with contextlib.suppress(Exception):
            act()
