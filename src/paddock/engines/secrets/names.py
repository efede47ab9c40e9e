"""What can be the name of a secret, and what can be its value."""

import re

from paddock.model.errors import NotASecret

NAME_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
VALUE_BYTES = 64 * 1024


def check_names(*names: str) -> None:
    """Raise NotASecret unless all can name a secret or a scope."""
    for name in names:
        if not NAME_PATTERN.fullmatch(name):
            raise NotASecret(
                f"{name[:40]!r} cannot name a secret or a scope; use 1 to 128 letters, digits, `_`, `.` and `-`"
            )


def check_value(value: str) -> None:
    """Raise NotASecret for a value that cannot be a secret."""
    size = len(value.encode("utf-8", "surrogatepass"))
    if not 0 < size <= VALUE_BYTES:
        raise NotASecret(f"a secret has 1 to {VALUE_BYTES} bytes, not {size}")
