"""`paddock.notify.send`: notify the person through the channels of the settings."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from paddock.foundation.files import system_program
from paddock.model.base import Json
from paddock.model.errors import SdkError, SdkFailed
from paddock.model.outcome import Status

TITLE_CHARS = 200
BODY_CHARS = 4_000
_ERROR_NAME = "NotifyError"
_PASSED_VARIABLES = (
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "HOME",
    "PATH",
    "LANG",
)

Tell = Callable[[dict[str, Json]], Awaitable[Json]]
"""Sends `{title, body}` to its channel."""


async def send_message(
    title: Json,
    body: Json,
    channels: tuple[str, ...],
    environ: Mapping[str, str],
    find_channel: Callable[[str], Tell | None],
) -> dict[str, Json]:
    """Send a message through the first available channel, and return `{channel}`.

    `find_channel` finds each of the `channels` except `desktop`; it returns None for one that is not available. Raises
    SdkError if the message is invalid, and SdkFailed if it was not sent.
    """
    message: dict[str, Json] = {
        "title": _check_text("title", title, TITLE_CHARS),
        "body": _check_text("body", body, BODY_CHARS),
    }
    for channel in channels:
        tell = _find_desktop(environ) if channel == "desktop" else find_channel(channel)
        if tell is not None and await tell(message) is not None:
            return {"channel": channel}
    tried = ", ".join(channels) or "none"
    raise SdkFailed(
        f"paddock.notify.send: there is no channel (tried: {tried}); install notify-send and run in a desktop "
        "session, register a webhook for `notification`, or name a command in `notify` under [sdk]",
        Status.UNAVAILABLE,
        _ERROR_NAME,
    )


def _find_desktop(environ: Mapping[str, str]) -> Tell | None:
    program = system_program("notify-send")
    if program is None or "DBUS_SESSION_BUS_ADDRESS" not in environ:
        return None
    environment = {name: environ[name] for name in _PASSED_VARIABLES if name in environ}

    async def tell(message: dict[str, Json]) -> Json:
        process = await asyncio.create_subprocess_exec(
            *(program, "--app-name=paddock", "--", message["title"], message["body"]),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env=environment,
        )
        try:
            code = await process.wait()
        except BaseException:
            process.kill()
            raise
        if code != 0:
            problem = f"paddock.notify.send: notify-send ended with {code}"
            raise SdkFailed(problem, Status.FAILED, _ERROR_NAME)
        return True

    return tell


def _check_text(what: str, value: Json, max_chars: int) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= max_chars or "\0" in value:
        raise SdkError(f"paddock.notify.send: {what} must be a text of 1 to {max_chars} characters")
    return value
