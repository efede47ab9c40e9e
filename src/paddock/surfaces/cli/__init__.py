"""The command line. What a program needs comes up while the rest of Paddock is imported."""

import gc
import sys

_COLLECT_AFTER = 200_000
"""Objects made before garbage is looked for: imports make many, and looking takes a tenth of their time."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, as under a shell: 128 and the number of the signal."""


def main() -> None:
    """Run the command line with the arguments of the process."""
    gc.set_threshold(_COLLECT_AFTER)
    try:
        if sys.argv[1:2] in (["run"], ["compute"]) and not {"-h", "--help"} & {*sys.argv}:
            from paddock.surfaces.cli.head_start import run  # noqa: PLC0415 - only for programs

            run(sys.argv[1:])
        else:
            from paddock.surfaces.cli.root import command  # noqa: PLC0415 - after the start of a program

            command(prog_name="paddock")
    except KeyboardInterrupt:  # while something is imported
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()  # the interpreter would look through everything once more before it ends
