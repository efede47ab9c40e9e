"""Start the processes that a program needs while the rest of Paddock is imported.

`main` calls this for `paddock run` and `paddock compute`. The command gets the started processes through its opener,
which `opening.open_for_command` takes from click's context.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from paddock.engines.javascript.launch import Launcher
from paddock.model.errors import EngineError, ScriptNotFound

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from paddock.gate.approvals import Asker
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.policy.settings.schema import Settings


def run_prestarted(arguments: Sequence[str]) -> None:
    """Run the command line of `arguments`, a command that runs guest programs.

    First starts a fork server, and a parser if the program was not parsed before; they end with the command.
    """
    launcher = Launcher()

    def open_prestarted(
        settings: "Settings", workspace: "Path", asker: "Asker"
    ) -> "AbstractAsyncContextManager[OpenPaddock]":
        from paddock.gate.open_paddock import open_paddock

        return open_paddock(settings, workspace, launcher=launcher, asker=asker)

    try:
        with suppress(EngineError, OSError):  # the session will try again, and report the error
            launcher.prestart_fork_server("guest-jit" if "--jit" in arguments else "guest")
            if arguments[0] == "run" and not _was_read(arguments[1:]):
                launcher.prestart_parse_worker()
        from paddock.surfaces.cli.root import command  # this import takes long

        command(prog_name="paddock", obj=open_prestarted)
    finally:
        launcher.close()


def _was_read(arguments: Sequence[str]) -> bool:
    """Guess whether a program was parsed before; a wrong guess only costs time."""
    from paddock.engines import saved_scripts
    from paddock.engines.javascript import parse_cache  # during the start of the fork server

    program = next((word for word in arguments if not word.startswith("-")), "-")
    try:
        if not saved_scripts.find(program, Path()).is_file():  # a pipe can only be read once
            return False
        script = saved_scripts.read(program, Path())
    except (ScriptNotFound, OSError):
        return False
    return parse_cache.ParseCache(parse_cache.find_directory()).has(script.source, script.language)
