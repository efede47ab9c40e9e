"""Parts of pages that stay current: server-sent events with HTML (HTML Living Standard, section 9.2)."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable

from starlette.responses import StreamingResponse

EVERY_S = 1.0
"""Time between two looks, in seconds."""
_MAX_S = 60.0
"""Maximum time of one stream, in seconds. Then the browser connects again, if its login still holds."""
_PING_S = 15.0
"""Time without a change after which a comment is sent, in seconds."""


def send_events(
    name: str, make_part: Callable[[], Awaitable[str]], has_ended: asyncio.Event | None = None
) -> StreamingResponse:
    """Return an answer that sends a part of a page as an event whenever it has changed.

    Once `has_ended` is set, the event `ended` follows the part and is the last one: the page closes its connection.
    """
    return StreamingResponse(
        _yield_events(name, make_part, has_ended),
        media_type="text/event-stream",
        headers={"X-Accel-Buffering": "no"},
    )


async def _yield_events(
    name: str, make_part: Callable[[], Awaitable[str]], has_ended: asyncio.Event | None
) -> AsyncGenerator[bytes]:
    began = sent = time.monotonic()
    yield b"retry: 1000\n\n"
    last = ""
    while time.monotonic() < began + _MAX_S:
        part = await make_part()
        if part != last:
            lines = "".join(f"data: {line}\n" for line in part.splitlines())
            yield f"event: {name}\n{lines}\n".encode()
            last, sent = part, time.monotonic()
        elif time.monotonic() > sent + _PING_S:
            yield b": nothing has changed\n\n"
            sent = time.monotonic()
        if has_ended is not None and has_ended.is_set():
            yield b"event: ended\ndata:\n\n"
            return
        await asyncio.sleep(EVERY_S)
