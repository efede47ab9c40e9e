"""The bootstrap script, which connects a guest's program and its worker; its files share one scope.

It runs once, before any guest code, in the context of the program. The files are put into one function, in the order of
`PIECES`. The script evaluates to the only function that the worker calls afterwards. The first call returns the buffer
that both sides share. The second call gets `post`, with which the bootstrap calls the worker during a turn.

Guest code shares the realm, so that the bootstrap must not trust a method that a program can replace. primordials.js
captures what is used later, and calls go through `apply`; arrays are filled by index, never by `push`.
"""

import ctypes
import mmap
import os

_SCRIPTS = f"{os.path.dirname(os.path.dirname(__file__))}/js"  # pathlib would be copied by every fork
PIECES = (
    "primordials",
    "exchange",
    "numbers",
    "stacks",
    "reports",
    "inspect",
    "console",
    "random",
    "timers",
    "events",
    "text",
    "clone",
    "crypto",
    "performance",
    "clock",
    "arguments",
    "calls",
    "sdk",
    "servers",
    "decorators",
    "session",
    "program",
    "compute",
    "world",
)


def source() -> str:
    """Return the bootstrap as one script."""
    pieces = [read_script(f"bootstrap/{name}.js").decode() for name in PIECES]
    return "\n".join(['"use strict";(function () {', *pieces, "})();\n//# sourceURL=paddock:glue\n"])


def read_script(name: str) -> bytes:
    """Return a file of the folder `js`."""
    with open(f"{_SCRIPTS}/{name}", "rb") as file:
        return file.read()


LIBRARIES = ("url", "hashes")
"""Libraries that load at their first use by a program; crypto.js has the same names in the same order."""

Library = ctypes.Array[ctypes.c_char]
"""The source of a vendored library: an ASCII expression, a function that makes its exports."""


def libraries() -> tuple[Library, ...]:
    """Return the vendored libraries as mappings of their files, of which a fork copies nothing."""
    return tuple(_map(f"vendor/{name}.js") for name in LIBRARIES)


def _map(name: str) -> Library:
    with open(f"{_SCRIPTS}/{name}", "rb") as file:
        mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return (ctypes.c_char * len(mapping)).from_buffer(mapping)
