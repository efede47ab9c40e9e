"""Check the types of the Python blocks of README and guides, as the type checker of a reader does.

The blocks are written to a temporary directory, each to one file, and basedpyright checks them in its mode `standard`.
Blocks that import frameworks of others are left out: the faults of their annotations are not ours.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OTHERS = {"client-libraries.md", "connect.md", "integrations.md", "python.md"}
"""Pages about frameworks of others, and the reference, whose blocks are signatures."""
SETTINGS = {"typeCheckingMode": "standard", "pythonVersion": "3.11", "reportMissingImports": "none"}
"""Ray is not installed here."""


def main() -> int:
    """Write the blocks and check them."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(SETTINGS))
        for page in pages:
            blocks = FENCE.findall(page.read_text(encoding="utf-8")) if page.name not in OTHERS else []
            for number, block in enumerate(blocks, 1):
                name = f"{page.stem}-{number}.py"
                (Path(folder) / name).write_text(block, encoding="utf-8")
        command = [
            Path(sys.executable).with_name("basedpyright"),
            "-p",
            folder,
            "--pythonpath",
            sys.executable,
        ]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
