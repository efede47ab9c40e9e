"""`python -m paddock`: the command line, also where `paddock` is not on PATH."""

from paddock.surfaces.cli import main

if __name__ == "__main__":
    main()
