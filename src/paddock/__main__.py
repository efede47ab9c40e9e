"""`python -m paddock`: the command line, also where `paddock` is not on PATH."""

import sys

if __name__ == "__main__":
    if __spec__ is not None and not sys.flags.safe_path:
        # The current directory, where programs may have left what is called like something that is imported below.
        del sys.path[0]
    from paddock.cli import main

    main()
