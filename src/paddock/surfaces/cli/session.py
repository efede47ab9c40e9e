"""How the commands get a session."""

import os
import pwd
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from paddock.model.settings import Settings
from paddock.surfaces.cli.head_start import launcher

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractAsyncContextManager

    from paddock.wiring import Session


def session(settings: Settings, workspace: Path) -> "AbstractAsyncContextManager[Session]":
    """Return a session of the person at the command line; a test's context has an opener of its own."""
    from paddock.wiring import open_session  # noqa: PLC0415 - help and completion do without

    context = click.get_current_context()
    opener: Callable[..., AbstractAsyncContextManager[Session]] = context.obj or partial(
        open_session, launcher=launcher(context)
    )
    guest = settings.guest.model_copy(update={"spare_workers": 0})  # one request: nobody would use a spare
    settings = settings.model_copy(update={"guest": guest})
    return opener(settings, workspace)


def actor() -> str:
    """Return who is at the command line: the user's name, or `uid N` when it has none."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"
