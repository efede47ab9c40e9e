"""Write docs/paddock.svg, the picture of a terminal: the commands below are run, and what they print is drawn.

`python scripts/picture.py` writes it; with `--check` it compares instead, and exits with 1 on a difference.
"""

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from install_servers import install

TARGET = Path(__file__).resolve().parent.parent / "docs" / "paddock.svg"
PROGRAM = """\
const zones = ["Asia/Tokyo", "America/Lima"];
return Promise.all(zones.map(async (zone) => {
  const { target } = await servers.time.convert_time({
    source_timezone: "UTC", time: "12:00", target_timezone: zone,
  });
  return `${zone} ${target.datetime.slice(11, 16)}`;
}));
"""
RULES = """\
[[policy.rule]]
effect = "deny"
tool = "time/get_*"
reason = "what time it is here is nobody's business"
"""
SCENE = (
    "cat zones.ts",
    "paddock run ./zones.ts",
    "echo 'await sleep(0); for (;;) {}' | paddock run - --timeout 0.5",
    "echo 'return await servers.time.get_current_time({timezone: \"UTC\"})' | paddock run -",
    'paddock exec python -c \'import shutil; shutil.rmtree("/etc")\' 2>/dev/null || echo "exit code $?"',
    "paddock audit verify | grep -o '^ok: [0-9]* records'",
)
CALM = ("cat", "paddock run", "paddock audit")
"""How commands begin that are not refused anything."""
WIDTH = 92
_FONTS = re.compile(r"\s*@font-face \{\{.*?\}\}", re.DOTALL)
"""Fonts that the template would fetch; without them it is drawn in the reader's own."""


def main() -> int:
    """Write or check the picture."""
    drawn = picture()
    if "--check" not in sys.argv:
        TARGET.write_text(drawn)
    elif not TARGET.exists() or TARGET.read_text() != drawn:
        print(
            "docs/paddock.svg is not what these commands print: run `python scripts/picture.py`",
            file=sys.stderr,
        )
        return 1
    return 0


def picture() -> str:
    """Return the terminal after all commands, as SVG."""
    terminal = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    with TemporaryDirectory() as home:
        workspace = Path(home) / "workspace"
        workspace.mkdir()
        command, *arguments = install().time
        servers = {"mcpServers": {"time": {"command": command, "args": arguments}}}
        (workspace / ".mcp.json").write_text(json.dumps(servers))
        (workspace / "zones.ts").write_text(PROGRAM)
        (workspace / "paddock.toml").write_text(RULES)
        for line in SCENE:
            terminal.print(Text.assemble(("$ ", "bold green"), (line, "bold")))
            terminal.print(Text(typed(line, workspace, home), style="" if line.startswith(CALM) else "red"))
    return terminal.export_svg(
        title="paddock", code_format=_FONTS.sub("", CONSOLE_SVG_FORMAT), unique_id="paddock"
    )


def typed(line: str, workspace: Path, home: str) -> str:
    """Return what a command prints, in the order in which it prints it."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": home,
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
    }
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=workspace,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
