"""The command line. Processes that a program needs are started while the rest of Paddock is imported.

Read in this order: `main` below, `prestart` (run and compute only), `root`, whose table names the file of each command,
and a command such as `run`. It opens Paddock with `run_request.carry_out` or `opening.open_for_command`. Shared files:

    in       options, program_options, server_options, variables, line_input, opening, prestart
    run      run_request, signals, interrupts
    out      stream_output, streams, terminal, output_files, table, folding, help, failure

Files of commands, by name (but `script` is in `scripts`, and `completion` in `completions`): run, exec, repl, compute,
batch, tool, scripts, sequence, temporal, serve, ui, ps, stop, sessions, tokens, servers, servers_tools,
servers_resources, servers_login, install, completions, vault, webhook, policy (and flows), approve, config, doctor,
runtimes, packages, output, audit, changes, cluster, cluster_record, replay, record, script_tests. `clients` edits the
configuration files of MCP clients.
"""

import gc
import os
import sys
import warnings

from paddock.surfaces.cli.interrupts import (
    EXIT_INTERRUPTED,
    install_interrupt_hook,
    is_interrupt,
    reset_sigchld,
)
from paddock.surfaces.cli.streams import prepare_streams

_COLLECTION_THRESHOLD = 200_000
"""Number of new objects before a garbage collection: imports create many, and collecting costs a tenth of them."""
_DEFAULT_THRESHOLDS = gc.get_threshold()

_EXIT_OWN_FAILURE = 125
"""Exit code of a failing `paddock exec`, whose lower ones belong to the program; defined in `cli.exec`, too."""


def main() -> None:
    """Run the command line with the arguments of the process."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    # Plugins of other packages must not see validated values; searching for plugins takes 3 to 9 ms.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    warnings.showwarning = _show_warning
    prepare_streams()
    install_interrupt_hook()
    reset_sigchld()
    if not os.environ.get("HOME", "/").startswith("/"):
        del os.environ["HOME"]  # an empty HOME counts as not set
    try:
        if sys.argv[1:2] in (["run"], ["compute"]) and not {"-h", "--help"} & {*sys.argv}:
            from paddock.surfaces.cli.prestart import run_prestarted

            run_prestarted(sys.argv[1:])
        else:
            from paddock.surfaces.cli.root import command  # after the start of a program

            command(prog_name="paddock")
    except KeyboardInterrupt:  # during an import
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if is_interrupt(error):
            sys.exit(EXIT_INTERRUPTED)
        has_home = os.environ.get("HOME", os.path.expanduser("~")).startswith("/")
        if has_home or not isinstance(error, RuntimeError):
            raise
        # A container may use a user without a home directory; other code would then raise its own errors.
        message = (
            f"There is no home directory of user {os.geteuid()}: set HOME to a directory that belongs to it."
        )
        print(message, file=sys.stderr)  # noqa: T201 - click is not there yet
        sys.exit(_EXIT_OWN_FAILURE if sys.argv[1:2] == ["exec"] else 1)
    finally:
        gc.freeze()  # otherwise the interpreter would collect once more at its end


def _show_warning(message: Warning | str, *_place: object) -> None:
    """Print a warning of Python, such as one for a deprecated setting, in the form of this command's warnings."""
    from paddock.surfaces.cli.table import warn

    warn(str(message))


def restore_garbage_collection() -> None:
    """Restore normal garbage collection for long-lived commands, except for objects of imports."""
    gc.freeze()
    gc.set_threshold(*_DEFAULT_THRESHOLDS)
