"""A head start for programs at the command line: what they need comes up while the rest of Paddock is imported."""

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.guest.launch import Launcher
from paddock.model.errors import EngineError

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from paddock.approvals import Asker
    from paddock.model.settings import Settings
    from paddock.wiring.session import Session


def run(arguments: Sequence[str]) -> None:
    """Run the command line that `arguments` begin, a command for programs of guests.

    A zygote, and perhaps a reader of programs, are started first; they end with the command, if not before.
    """
    launcher = Launcher()

    def opener(
        settings: "Settings", workspace: "Path", asker: "Asker"
    ) -> "AbstractAsyncContextManager[Session]":
        from paddock.wiring.session import open_session  # noqa: PLC0415 - a command that is refused does without

        return open_session(settings, workspace, launcher=launcher, asker=asker)

    try:
        with suppress(EngineError, OSError):  # the session will try again, and say why it cannot
            launcher.begin("guest-jit" if "--jit" in arguments else "guest", reader=arguments[0] == "run")
        from paddock.surfaces.cli.root import command  # noqa: PLC0415 - this is what takes its time

        command(prog_name="paddock", obj=opener)
    finally:
        launcher.close()
