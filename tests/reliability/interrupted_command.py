"""Interrupts commands at any moment, in a pid namespace of its own; prints what was wrong and how they ended as JSON.

unshare --pid --fork --mount-proc --kill-child python interrupted_command.py PLACE RUNS SEED
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from killed_server import ODD, below, reaped, temporary

from paddock.record.ledger.verify import verify

PADDOCK = Path(sys.executable).with_name("paddock")
COMMANDS = {
    "run": ("run", "./program.js"),
    "exec": ("exec", "perl", "--code", "fork() for 1 .. 2; print 'x'; sleep 3600"),
    "serve": ("serve", "mcp"),
    "tool": ("tool", "run", "wait"),
    "sequence": ("sequence", "run", "twice"),
}
TOOL = {
    "id": "wait",
    "name": "Wait",
    "script": "wait.sh",
    "runtime": "shell",
    "execution": {"confirm": False},
}
SEQUENCE = """
[[step]]
name = "one"
script = "program"
[[step]]
name = "two"
script = "program"
"""


def workspace(place: Path) -> Path:
    """Make what the commands work with."""
    for name in ("home", "tmp", "workspace/.paddock/tools/wait", "workspace/.paddock/sequences"):
        (place / name).mkdir(parents=True)
    made = place / "workspace"
    entry = {"command": sys.executable, "args": ["-I", "-S", str(ODD)]}
    (made / ".mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))
    program = "await servers.odd.call('echo', { text: 'a' }); await sleep(3_600_000); return 1"
    (made / "program.js").write_text(program)
    (made / ".paddock/scripts").mkdir()
    (made / ".paddock/scripts/program.js").write_text(program)
    (made / ".paddock/tools/wait/tool.yaml").write_text(json.dumps(TOOL))
    (made / ".paddock/tools/wait/wait.sh").write_text("sleep 3600 & sleep 3600; echo '{}'")
    (made / ".paddock/sequences/twice.toml").write_text(SEQUENCE)
    return made


def main(place: Path, runs: int, seed: int) -> None:
    """Interrupt every command `runs` times."""
    luck, problems, ends = random.Random(seed), [], {}
    folder, state = workspace(place), place / "home/.local/state/paddock"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "LANG": "C.UTF-8",
    }
    for name, arguments in COMMANDS.items():
        for run in range(runs):
            number = luck.choice((signal.SIGINT, signal.SIGTERM))
            process = subprocess.Popen(
                [PADDOCK, *arguments],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            time.sleep(luck.uniform(0, 3))
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            told = f"{name} {run} after {number.name}: ended {process.returncode}, said {out[-300:]!r} {err[-1500:]!r}"
            ends.setdefault(name, []).append(process.returncode)
            begun = b"cli" in err or b"Traceback" not in err  # else the interpreter was starting
            right = {128 + number, -number, *((0,) if name == "serve" else ())}
            if begun and (process.returncode not in right or b"Traceback" in err):
                problems.append(told)
            if late := reaped():
                problems.append(f"{late} processes lived on: {told}")
            if (state / "audit").exists():
                problems += [f"{finding}: {told}" for finding in verify(state / "audit").problems]
            problems += [
                f"left behind: {path}: {told}" for path in (*below(place / "tmp"), *temporary(state))
            ]
    print(json.dumps({"problems": problems, "ends": ends}))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
