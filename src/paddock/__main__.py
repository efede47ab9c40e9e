"""Run the command line as `python -m paddock`, which also works if `paddock` is not on PATH."""

import sys

if __name__ == "__main__":
    if __spec__ is not None and not sys.flags.safe_path:
        # Remove the current directory: a program may have left a file there that shadows a module imported below.
        del sys.path[0]
    from paddock.surfaces.cli import main

    main()
