"""What a process that does not serve wrote for people is told, wherever it wrote it, without the stack."""

import asyncio
import sys

from paddock.hub.config import StdioServer
from paddock.model.errors import ServerUnavailable

from .conftest import failure


def told(hub, program, **options):
    async def main():
        async with hub(StdioServer("s", sys.executable, ("-I", "-S", "-c", program), **options)) as h:
            return str(await failure(h.call("s", "t", {}), ServerUnavailable))

    return asyncio.run(main())


def test_the_message_of_a_long_stack_is_told(hub):
    program = r"""
import sys
print("noise\n" * 2000, "throw err;\n\nError: Cannot find module 'x'\n", "    at load (node:1:1)\n" * 40, file=sys.stderr)
sys.exit(1)
"""
    lines = [*["noise"] * 7, " throw err;", "Error: Cannot find module 'x'"]
    begin = (
        "Failed to connect to server s: Server s exited with status 1 without an answer. Its stderr ends: "
    )
    words = told(hub, program)
    assert words.startswith(begin)
    assert words.removeprefix(begin).splitlines()[-2:] == lines[-2:]
    assert len(words.splitlines()) == 10


def test_what_went_to_standard_output_is_told_too(hub):
    assert told(hub, "print('usage: s --token TOKEN'); raise SystemExit(2)") == (
        "Failed to connect to server s: Server s exited with status 2 without an answer. Its output ends: usage: s "
        "--token TOKEN"
    )


def test_one_that_never_answers_says_what_it_waits_for(hub):
    program = "import sys; print('waiting for the database', file=sys.stderr, flush=True); sys.stdin.read()"
    assert told(hub, program, timeout_ms=5000) == (
        "Failed to connect to server s: Server s did not finish the handshake within 5000 ms. Correct its `command`, "
        "or raise its `timeoutMs`. Its stderr ends: waiting for the database"
    )
