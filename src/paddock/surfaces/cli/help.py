"""What the help pages of all commands have in common."""


def examples(*lines: str) -> str:
    """Return the end of a help page: command lines, one below the other as they are."""
    return "\n".join(["\b", "Examples:", *(f"  {line}" for line in lines)])
