"""The glue between a guest's program and its worker: one script, in pieces that share a scope.

It runs once, before any guest code, in the context that the program gets. The pieces stand inside one function, in
the order of `PIECES`. The script evaluates to the one function that the worker calls from then on. Its first call
answers with the buffer that both sides see, and its second gets `post`, with which the glue calls the worker in the
middle of a turn.

Guest code shares the realm, so nothing in the glue may trust a method that a program can replace: what is used later
is captured first (primordials.js) and called through `apply`; arrays are filled by index, never by `push`.
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
    "program",
    "compute",
    "world",
)


def source() -> str:
    """Return the glue as one script."""
    pieces = [(_SCRIPTS / "bootstrap" / f"{name}.js").read_text() for name in PIECES]
    return "\n".join(['"use strict";(function () {', *pieces, "})();\n//# sourceURL=paddock:glue\n"])


LIBRARIES = ("url", "hashes")
"""What programs load when they first use it; crypto.js has the same names in the same order."""


def libraries() -> tuple[bytes, ...]:
    """Return the texts of the vendored libraries, each an expression of ASCII: a function that makes its exports."""
    return tuple((_SCRIPTS / "vendor" / f"{name}.js").read_bytes() for name in LIBRARIES)
