"""What each client library is asked to do. Runs in the environments of the libraries: standard library alone.

The first argument is JSON: `command`, `args` and `env` of the server over stdio, `url` and `token` over HTTP, and
`transports`. What came of the steps is written to standard output as JSON, by transport.
"""

import base64
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

TARGET: dict[str, Any] = json.loads(sys.argv[1])
ENVIRONMENT: dict[str, str] = TARGET["env"]
HEADERS = {"Authorization": f"Bearer {TARGET['token']}"}

CODE = ("execute_code", {"code": "return {answer: 6 * 7}"})
PROGRAM = ("run_program", {"language": "python", "code": "print(6 * 7)"})
IMAGE = ("call_tool", {"server": "everything", "tool": "get-tiny-image"})
ASKED = ("call_tool", {"server": "everything", "tool": "echo", "args": {"message": "as allowed"}})
SESSION = ("run_program", {"language": "python", "session": "new", "code": "x = 40"})
AGAIN = ("run_program", {"language": "python", "session": "new", "code": "print('kept', x + 2)"})
"""Runs in the session of the step before: `Visit.take` puts its handle in."""
STEPS = {
    "code": CODE,
    "program": PROGRAM,
    "image": IMAGE,
    "approval": ASKED,
    "session": SESSION,
    "again": AGAIN,
}
_HANDLE = re.compile(r"s_[0-9a-f]{48}")
ALLOWED = {"allow": "once"}
"""What the person enters into the form."""


def continue_session(text: str) -> None:
    """Let the last step run in the session whose handle is in a text, if there is one."""
    if handles := _HANDLE.findall(text):
        AGAIN[1]["session"] = handles[-1]


class Visit:
    """What came of the steps over one transport."""

    def __init__(self) -> None:
        self.tools: list[str] = []
        self.forms: list[str] = []
        self.answers: dict[str, dict[str, Any]] = {}

    def ask(self, message: str) -> dict[str, str]:
        """Take a question for the person, and return the answer."""
        self.forms.append(message)
        return ALLOWED

    def take(
        self, step: str, *, text: str, structured: object = None, images: tuple[str | bytes, ...] = ()
    ) -> None:
        """Take the answer of a step: its texts, its data, and its images as base64 or as bytes."""
        if step == "session":
            continue_session(f"{text} {structured}")
        whole = [each if isinstance(each, bytes) else base64.b64decode(each) for each in images]
        self.answers[step] = {
            "text": text,
            "structured": structured,
            "images": [each[:8].hex() for each in whole],
        }

    def take_blocks(self, step: str, blocks: Any, structured: object = None) -> None:
        """Take an answer as the official library has it."""
        text = "\n".join(block.text for block in blocks if block.type == "text")
        images = tuple(block.data for block in blocks if block.type == "image")
        self.take(step, text=text, structured=structured, images=images)

    def told(self) -> dict[str, Any]:
        """Return all of it as JSON."""
        return {"tools": self.tools, "forms": self.forms, "answers": self.answers}


async def visit_all(visit: Callable[[str, Visit], Awaitable[None]]) -> None:
    """Visit over each transport and write what came of it."""
    told: dict[str, Any] = {}
    for transport in TARGET["transports"]:
        seen = Visit()
        await visit(transport, seen)
        told[transport] = seen.told()
    write(told)


def write(told: dict[str, Any]) -> None:
    """Write what came of it and end, whatever threads and loops a library has left behind."""
    sys.stdout.write(json.dumps(told))
    sys.stdout.flush()
    os._exit(0)
