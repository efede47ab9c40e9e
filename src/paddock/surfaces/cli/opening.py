"""Open Paddock for a command, with the person at the terminal as the one who is asked."""

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from paddock.gate.open_paddock import OpenPaddock


def open_for_command(
    settings: Settings, workspace: Path, terminal: Terminal | None = None
) -> "AbstractAsyncContextManager[OpenPaddock]":
    """Open Paddock for one command; `async with` yields the gate and its engines.

    The gate asks the person at the terminal, through `terminal` if the command prints beside questions.
    """
    from paddock.gate.open_paddock import open_paddock

    # `prestart.run_prestarted` gives click an opener that uses the processes it has started, as `obj`.
    opener: Callable[..., AbstractAsyncContextManager[OpenPaddock]] = (
        click.get_current_context().obj or open_paddock
    )
    guest = settings.guest.model_copy(update={"spare_workers": 0})  # a single request needs no spare
    settings = settings.model_copy(update={"guest": guest})
    return opener(settings, workspace, asker=(terminal or Terminal()).ask)


def find_actor() -> str:
    """Return the actor at the command line: the user's name, or `uid N` without one."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
