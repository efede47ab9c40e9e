"""The command line. What a program needs comes up while the rest of Paddock is imported."""

import gc
import os
import sys

_COLLECT_AFTER = 200_000
"""Objects made before garbage is looked for: imports make many, and looking takes a tenth of their time."""
_USUAL = gc.get_threshold()

_OUR_FAULT = 125
"""That of `paddock exec`, whose lower ones are a program's; `surfaces.cli.exec` has it, too."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as under a shell: 128 and the number of the signal."""

UNREAD = 141
"""Exit code when nobody reads standard output any more: what a shell shows of SIGPIPE."""


def main() -> None:
    """Run the command line with the arguments of the process."""
    gc.set_threshold(_COLLECT_AFTER)
    # What other packages bring along shall not see what is validated; to look for it takes 3 to 9 ms.
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"
    _open_what_is_closed()
    try:
        if sys.argv[1:2] in (["run"], ["compute"]) and not {"-h", "--help"} & {*sys.argv}:
            from paddock.surfaces.cli.head_start import run  # noqa: PLC0415 - only for programs

            run(sys.argv[1:])
        else:
            from paddock.surfaces.cli.root import command  # noqa: PLC0415 - after the start of a program

            command(prog_name="paddock")
    except KeyboardInterrupt:  # while something is imported
        sys.exit(INTERRUPTED)
    except RuntimeError:
        if os.environ.get("HOME", os.path.expanduser("~")).startswith("/"):  # noqa: PTH111 - `Path` raises for nobody's
            raise
        # As in a container with a user of its own: what looks for the home directory then raises no error of its own.
        told = (
            f"There is no home directory of user {os.geteuid()}: set HOME to a directory that belongs to it."
        )
        print(told, file=sys.stderr)  # noqa: T201 - click is not there yet
        sys.exit(_OUR_FAULT if sys.argv[1:2] == ["exec"] else 1)
    finally:
        gc.freeze()  # the interpreter would look through everything once more before it ends


def stay() -> None:
    """Have garbage looked for as often as in any process, but not in what imports have made: for what lives long."""
    gc.freeze()
    gc.set_threshold(*_USUAL)


def _open_what_is_closed() -> None:
    """Open standard streams that were closed on `/dev/null`.

    Else the next file that is opened gets the number of one, and what is printed goes into it.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            device = os.open(os.devnull, os.O_RDWR)
            if device == number:
                # A child without it would open something else in its place.
                os.set_inheritable(number, True)  # noqa: FBT003 - it takes no names
            else:
                os.dup2(device, number)
                os.close(device)
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - for the whole process
