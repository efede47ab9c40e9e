"""Console lines on their way to who listens: in order, without secrets, long ones a slice at a time."""

import asyncio
import re

import pytest

from paddock.gate.work.guest import relay_console
from paddock.model.errors import PaddockError
from paddock.model.outcome import ConsoleLine
from paddock.policy.redaction.known import KnownSecrets
from paddock.policy.redaction.outgoing import OutgoingRedaction
from paddock.policy.settings.schema import RedactionPattern, RedactionSettings

LONG = "acme-x " * 20_000
OUTGOING = OutgoingRedaction(
    RedactionSettings(patterns=(RedactionPattern(pattern="acme-[a-z]+", name="acme"),)), KnownSecrets()
)


def log(text: str) -> ConsoleLine:
    return ConsoleLine(level="log", text=text)


async def relay(hear, *texts: str) -> int:
    """Hand lines on; return how many the listener had heard when the last was taken."""
    heard = 0

    def count(line: ConsoleLine) -> None:
        nonlocal heard
        heard += 1
        hear(line)

    async with relay_console(OUTGOING, count) as take:
        for text in texts:
            take(log(text))
        return heard


def test_lines_behind_a_long_one_wait_for_it():
    lines: list[ConsoleLine] = []
    heard = asyncio.run(relay(lines.append, "acme-a", LONG, "acme-b", LONG, "c"))
    clean = "[REDACTED:acme] " * 20_000
    assert heard == 1
    assert lines == [log(text) for text in ("[REDACTED:acme]", clean, "[REDACTED:acme]", clean, "c")]


def test_nobody_listens():
    async def take() -> object:
        async with relay_console(OUTGOING, None) as console:
            return console

    assert asyncio.run(take()) is None


def test_a_listener_that_fails_ends_the_request():
    def fail(line: ConsoleLine) -> None:
        raise BrokenPipeError(line.level)

    with pytest.raises(BrokenPipeError, match=r"^log$"):
        asyncio.run(relay(fail, "short"))
    message = "the listener for console lines failed (BrokenPipeError)"
    with pytest.raises(PaddockError, match=f"^{re.escape(message)}$"):
        asyncio.run(relay(fail, LONG, "short"))
