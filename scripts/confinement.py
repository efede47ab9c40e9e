"""Write docs/confinement.md, the table of attacks and tiers, from tests/escape/processes.

`python scripts/confinement.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "confinement.md"
TIERS = ("namespaces", "landlock")

HEAD = """\
# What confinement stops

<!-- Written by scripts/confinement.py from tests/escape/processes; `make check` compares. Change the attacks. -->

Every program that Paddock starts runs in one of three tiers. `namespaces` is bubblewrap with Landlock and a system call
filter inside, `landlock` is Landlock and the filter without namespaces, `unconfined` is neither and only where the
configuration says so. `paddock doctor` proves which of them this machine gives.

Each line is a program below `tests/escape/processes/attacks` that the tests run with a writable workspace: as root,
as an unprivileged user, in a user namespace that allows no other, and under the denials of Docker's default profile.
They also run unconfined, where those that an ordinary user could carry out must succeed.

| attack | namespaces | landlock |
|---|---|---|
"""


def table() -> str:
    """Return the rows, one for each attack."""
    rows: list[str] = []
    for path in sorted((ROOT / "tests/escape/processes/attacks").glob("*.py")):
        text = path.read_text()
        title = text.split("\n", 1)[0].strip('"').removesuffix(".")
        found = [re.search(rf"^{tier}: (.+)$", text, re.MULTILINE) for tier in TIERS]
        states = [match[1] if match else "?" for match in found]
        rows.append(f"| {title} | " + " | ".join("**open**" if s == "open" else s for s in states) + " |\n")
    return "".join(rows)


def main() -> int:
    """Write or check the page."""
    page = HEAD + table()
    if "--check" not in sys.argv:
        TARGET.write_text(page)
    elif not TARGET.exists() or TARGET.read_text() != page:
        print(
            "docs/confinement.md differs from tests/escape/processes/attacks: run python scripts/confinement.py",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
