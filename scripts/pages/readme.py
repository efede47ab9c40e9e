"""README.md with the figures of docs/benchmarks.md: each stands between the name of its line and an empty comment."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIGURE = re.compile(r"<!-- (?P<line>[^>]+) -->[^<\n]*<!-- -->")
_ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|", re.MULTILINE)


def page() -> str:
    """Return the page with the figures of today. Raises ValueError for a line that the benchmarks do not have."""
    measured = dict(_ROW.findall((ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")))

    def figure(found: re.Match[str]) -> str:
        line = found["line"]
        if line not in measured:
            raise ValueError(f"README.md has a figure of {line!r}, and docs/benchmarks.md no such line")
        return f"<!-- {line} -->{spoken(measured[line])}<!-- -->"

    return FIGURE.sub(figure, (ROOT / "README.md").read_text(encoding="utf-8"))


def spoken(figure: str) -> str:
    """Return a figure as a sentence has it: a bare share as a percentage."""
    number, _, unit = figure.strip().partition(" ")
    return f"{float(number):.0%}" if not unit else f"{number} {unit}"
