"""Write the pages of the reference from the source, so that they say what the source says.

`python scripts/reference.py` writes them; with `--check` it compares instead, and exits with 1 on a difference.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from pages import (
    answers,
    client_libraries,
    clients,
    commands,
    compat,
    llms,
    mcp_tools,
    python_api,
    readme,
    record,
    settings,
    troubleshooting,
)

ROOT = Path(__file__).resolve().parent.parent
PAGES: dict[str, Callable[[], str]] = {
    "README.md": readme.page,
    "docs/answers.md": answers.page,
    "docs/client-libraries.md": client_libraries.page,
    "docs/clients.md": clients.page,
    "docs/commands.md": commands.page,
    "docs/compat.md": compat.page,
    "docs/configuration.md": settings.page,
    "docs/mcp-tools.md": mcp_tools.page,
    "docs/python.md": python_api.page,
    "docs/record.md": record.page,
    "docs/troubleshooting.md": troubleshooting.page,
    "docs/llms.txt": llms.page,  # has a sentence of each page
}


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    only_check = parser.parse_args().check
    stale = 0
    for name, page in PAGES.items():
        target, text = ROOT / name, page()
        if not only_check:
            target.write_text(text, encoding="utf-8")
        elif not target.exists() or target.read_text(encoding="utf-8") != text:
            stale += 1
            print(f"{name} is not what the source says: run `python scripts/reference.py`", file=sys.stderr)
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
