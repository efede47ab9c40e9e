"""How the commands get a session."""

import os
import pwd
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.cli.terminal import Terminal
from paddock.settings.schema import Settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from paddock.app.session import Session


def open_cli_session(
    settings: Settings, workspace: Path, terminal: Terminal | None = None
) -> "AbstractAsyncContextManager[Session]":
    """Return a session of the person at the command line, who is asked there.

    A context may have an opener of its own.
    """
    from paddock.app.session import open_session

    opener: Callable[..., AbstractAsyncContextManager[Session]] = (
        click.get_current_context().obj or open_session
    )
    guest = settings.guest.model_copy(update={"spare_workers": 0})  # one request: nobody would use a spare
    settings = settings.model_copy(update={"guest": guest})
    return opener(settings, workspace, asker=(terminal or Terminal()).ask)


def find_actor() -> str:
    """Return who is at the command line: the user's name, or `uid N` when it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
