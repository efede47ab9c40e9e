"""The command line. What a program needs comes up while the rest of Paddock is imported."""

import gc
import os
import sys
import warnings

from paddock.cli.interrupts import EXIT_INTERRUPTED, install_interrupt_hook, is_interrupt, reset_sigchld
from paddock.cli.streams import prepare_streams

_COLLECTION_THRESHOLD = 200_000
"""Objects made before garbage is looked for: imports make many, and looking takes a tenth of their time."""
_DEFAULT_THRESHOLDS = gc.get_threshold()

_EXIT_OWN_FAILURE = 125
"""That of `paddock exec`, whose lower ones are a program's; `surfaces.cli.exec` has it, too."""


def main() -> None:
    """Run the command line with the arguments of the process."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    # What other packages bring along shall not see what is validated; to look for it takes 3 to 9 ms.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    warnings.showwarning = _show_warning
    prepare_streams()
    install_interrupt_hook()
    reset_sigchld()
    if not os.environ.get("HOME", "/").startswith("/"):
        del os.environ["HOME"]  # of no use to anybody, as if it were not set
    try:
        if sys.argv[1:2] in (["run"], ["compute"]) and not {"-h", "--help"} & {*sys.argv}:
            from paddock.cli.prestart import run_prestarted

            run_prestarted(sys.argv[1:])
        else:
            from paddock.cli.root import command  # after the start of a program

            command(prog_name="paddock")
    except KeyboardInterrupt:  # while something is imported
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if is_interrupt(error):
            sys.exit(EXIT_INTERRUPTED)
        there = os.environ.get("HOME", os.path.expanduser("~")).startswith("/")
        if there or not isinstance(error, RuntimeError):
            raise
        # As in a container with a user of its own: what looks for the home directory then raises no error of its own.
        told = (
            f"There is no home directory of user {os.geteuid()}: set HOME to a directory that belongs to it."
        )
        print(told, file=sys.stderr)  # noqa: T201 - click is not there yet
        sys.exit(_EXIT_OWN_FAILURE if sys.argv[1:2] == ["exec"] else 1)
    finally:
        gc.freeze()  # the interpreter would look through everything once more before it ends


def _show_warning(message: Warning | str, *_place: object) -> None:
    """Print a warning of Python's, such as that of a deprecated setting, as the command prints its own."""
    from paddock.cli.table import warn

    warn(str(message))


def restore_garbage_collection() -> None:
    """Have garbage looked for as often as in any process, but not in what imports have made: for what lives long."""
    gc.freeze()
    gc.set_threshold(*_DEFAULT_THRESHOLDS)
