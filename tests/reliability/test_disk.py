"""A full or read-only disk: nothing runs without its record, nothing is there by halves, and all goes on afterwards.

The file systems are small ones of memory, in a mount namespace of the test.
"""

import json
import os
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, run_command

OWN_MOUNTS = ["unshare", "--mount"]
if os.geteuid() != 0:
    OWN_MOUNTS.append("--map-root-user")

HEAD = """
set -eu
cd "$HOME"
echo 'console.log("ran"); return 1' > program.js
mount -t tmpfs -o size=200k none "$XDG_STATE_HOME"
say() { set +e; "$PADDOCK" "$@" 2>&1; echo "exit $?"; set -e; }
fill() { cat /dev/zero > "$XDG_STATE_HOME/filler" 2> /dev/null || true; }
say run ./program.js
"""
RAN = ["ran", "1", "exit 0"]


@pytest.fixture
def played(reachable: Path):
    """Play a script after `HEAD`; return its lines after those of the first run, and the ledger's directory."""

    def play(script: str) -> tuple[list[str], Path]:
        for name in ("home", "state", "tmp"):
            (reachable / name).mkdir()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(reachable / "home"),
            "XDG_STATE_HOME": str(reachable / "state"),
            "TMPDIR": str(reachable / "tmp"),
            "PADDOCK": PADDOCK,
        }
        done = run_command(None, *OWN_MOUNTS, "sh", "-c", HEAD + script, environment=environment)
        assert (done.stderr, done.returncode) == ("", 0)
        lines = done.stdout.splitlines()
        assert lines[:3] == RAN
        assert list((reachable / "tmp").iterdir()) == []
        return lines[3:], reachable / "state/paddock/audit"

    return play


def test_a_full_disk_stops_runs_and_the_next_one_goes_on(played) -> None:
    lines, ledger = played("""
fill
for n in 1 2 3 4; do say run ./program.js; done
rm "$XDG_STATE_HOME/filler"
say run ./program.js
say audit verify
""")
    cut = lines.index(next(line for line in lines if line.startswith("The audit ledger")))
    assert lines[:cut] == RAN * (cut // 3) + ["ran", "1"][: cut % 3]
    why = f"The audit ledger {ledger} cannot be written: "
    refused = lines[cut : lines.index("exit 1") + 1]
    assert refused[0].startswith(why)
    assert refused[0].endswith(
        "Nothing runs without its record. Free space on its file system or raise the quota."
    )
    assert refused[1:] == ["exit 1"]
    assert lines[-6:-3] == RAN
    assert lines[-3].startswith("ok: ")
    assert lines[-1] == "exit 0"


def test_a_read_only_record_stops_runs_and_can_be_verified(played) -> None:
    lines, ledger = played("""
mount -o remount,bind,ro "$XDG_STATE_HOME"
say run ./program.js
say audit verify
""")
    assert lines[:2] == [
        f"The audit ledger {ledger} cannot be written: Read-only file system. Nothing runs without its record. "
        "Mount its file system writable, or choose another state directory: set XDG_STATE_HOME.",
        "exit 1",
    ]
    assert lines[2].startswith("ok: ")
    assert lines[-1] == "exit 0"


def test_output_that_does_not_fit_is_told_and_leaves_nothing(played) -> None:
    code = 'open F, "/dev/urandom"; read F, $x, 150000; print unpack("H*", $x)'
    lines, _ = played(f"""
head -c 100000 /dev/zero > "$XDG_STATE_HOME/filler"
say exec perl --code '{code}' --json
find "$XDG_STATE_HOME/paddock" -name "*stdout*"
say audit verify
""")
    told = json.loads(lines[0])
    assert (told["status"], told["artifactHandle"]) == ("ok", None)
    assert lines[1] == "exit 0"
    assert lines[2].startswith("ok: ")  # nothing was found before it
    assert lines[-1] == "exit 0"


def test_what_does_not_fit_is_not_begun_and_can_be_made_later(played) -> None:
    lines, _ = played("""
mount -t tmpfs -o size=200k none "$TMPDIR"
cd "$TMPDIR"
mkdir -p .paddock/scripts .paddock/tools
cat /dev/zero > filler 2> /dev/null || true
say script new a
say tool new b
find . -name "a.ts" -o -name "b"
rm filler
say script new a > /dev/null
say tool new b > /dev/null
find . -name "a.ts" -size +0 -o -name "script.py" -size +0
cd /
umount "$TMPDIR"
""")
    place = lines[0].removesuffix(".paddock/scripts/a.ts: cannot be written: No space left on device")
    assert place.endswith("/tmp/")
    assert lines[1:4] == ["exit 1", "b: the tool cannot be written: No space left on device", "exit 1"]
    assert sorted(lines[4:]) == ["./.paddock/scripts/a.ts", "./.paddock/tools/b/script.py"]
