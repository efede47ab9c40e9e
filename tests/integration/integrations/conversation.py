"""What a scripted model does with the tool of every framework, and what it is told: one table for all of them."""

import base64
import re
from typing import Any, NamedTuple

VISITS = "city,visits\nOslo,3\nRome,5\n"
FILES = {"visits.csv": VISITS}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
DRAW = (
    f"import base64; _ = open('plot.png', 'wb').write(base64.b64decode({base64.b64encode(PNG).decode()!r}))"
)
ENDLESS = "while True: pass"
SHORT_MS = 400
"""A timeout for programs that never end; it says nothing about the speed of the others."""
KILL = "import os; os.kill(os.getpid(), 9)"
LOST = "its interpreter has ended, with all variables and files"
AGAIN = "Set `restart` to true in the next call to get a new session with the files that were given."
DENIED = (
    "denied: network full is not granted (granted: loopback); "
    'set `network = "full"` under [runtimes] in the paddock.toml of the user or the system'
)


class Step(NamedTuple):
    """One call of a model, and what it is told."""

    arguments: dict[str, Any]
    told: str
    images: tuple[bytes, ...] = ()


STEPS = [
    Step({"code": "import csv; rows = list(csv.DictReader(open('visits.csv')))"}, "(no output)"),
    Step({"code": "sum(int(row['visits']) for row in rows)"}, "8"),
    Step({"code": DRAW}, f"file: plot.png (image/png, {len(PNG)} bytes)", (PNG,)),
    Step(
        {"code": "rows[9]"},
        "failed: IndexError: list index out of range\n  at line 1\nTraceback (most recent call last):\n"
        '  File "In [4]", line 1, in <module>\n    rows[9]\n    ~~~~^^^\nIndexError: list index out of range',
    ),
    Step(
        {"code": "open('new.txt').read()", "files": {"new.txt": "hello"}},
        "'hello'\nfile: new.txt (text/plain, 5 bytes)",
    ),
    Step({"code": KILL}, f"failed: The program was ended by SIGKILL\nThe session is lost: {LOST}. {AGAIN}"),
    Step({"code": "rows"}, f"lost: the session is lost, and nothing ran: {LOST}. {AGAIN}"),
    Step({"code": "'rows' in globals(), open('visits.csv').read(4)", "restart": True}, "(False, 'city')"),
]
HOSTILE = [
    Step({"code": "1", "files": {"../x": ""}}, "invalid: path: '../x' leads out of the working directory"),
    Step(
        {"code": "1", "files": {"/etc/x": ""}},
        "invalid: path: '/etc/x' is absolute; give a path relative to the working directory",
    ),
    Step({"code": "1", "files": {"a": "", "A": ""}}, "invalid: 'a' and 'A' differ in case alone; rename one"),
    Step({"code": "x" * 2_000_000}, "invalid: code: String should have at most 1048576 characters"),
    Step({"code": 7}, "invalid: code: must be a string"),
    Step({"code": "1", "files": "not JSON"}, "invalid: files: must be an object"),
    Step({"code": "1", "files": {"a": [1]}}, "invalid: files.a: must be a string"),
    Step(
        {"code": "1", "restart": "perhaps"},
        "invalid: restart: must be true or false",
    ),
    Step({}, "invalid: code: must be given"),
    Step(
        {"code": "1", "language": "cobol"},
        "invalid: language: is not an argument; there are code, files and restart",
    ),
    Step({"code": "6 * 7", "files": None, "restart": "false"}, "42"),
    Step({"code": "open('a').read()", "files": '{"a": "b"}'}, "'b'\nfile: a (text/plain, 1 byte)"),
]


def plain(text: str) -> str:
    """Return an answer without the marks that only some versions of Python put into a traceback."""
    return re.sub(r"^ *[~^]+\n", "", text, flags=re.MULTILINE)
