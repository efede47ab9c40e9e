"""The bootstrap script, which connects a guest's program and its worker; its files share one scope.

It runs once, before any guest code, in the context of the program. The files are put into one function, in the order of
`PIECES`. The script evaluates to the only function that the worker calls afterwards. The first call returns the buffer
that both sides share. The second call gets `post`, with which the bootstrap calls the worker during a turn.

Guest code shares the realm, so that the bootstrap must not trust a method that a program can replace. primordials.js
captures what is used later, and calls go through `apply`; arrays are filled by index, never by `push`.
"""

from pathlib import Path

_SCRIPTS = Path(__file__).parent.parent / "js"
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
    pieces = [(_SCRIPTS / "bootstrap" / f"{name}.js").read_text() for name in PIECES]
    return "\n".join(['"use strict";(function () {', *pieces, "})();\n//# sourceURL=paddock:glue\n"])


LIBRARIES = ("url", "hashes")
"""Libraries that load at their first use by a program; crypto.js has the same names in the same order."""


def libraries() -> tuple[bytes, ...]:
    """Return the sources of the vendored libraries; each is an ASCII expression: a function that makes its exports."""
    return tuple((_SCRIPTS / "vendor" / f"{name}.js").read_bytes() for name in LIBRARIES)
