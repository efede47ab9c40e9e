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


class Notifier:
    """Sends a message through the first available channel."""

    def __init__(
        self, channels: tuple[str, ...], environ: Mapping[str, str], command: Callable[[str], Tell | None]
    ) -> None:
        """Use `command` to find the runner of a command in the settings; it returns None for an unknown name."""
        self._channels = channels
        self._environ = environ
        self._command = command

    async def send_message(self, title: Json, body: Json, webhooks: Tell) -> dict[str, Json]:
        """Send a message and return `{channel}`. Raises SdkError if it is invalid, SdkFailed if it was not sent."""
        message: dict[str, Json] = {
            "title": _check_text("title", title, TITLE_CHARS),
            "body": _check_text("body", body, BODY_CHARS),
        }
        missing: list[str] = []
        for channel in self._channels:
            tell = webhooks if channel == "webhook" else self._command(channel)
            if channel == "desktop":
                tell = self._find_desktop()
            if tell is None:
                missing.append(channel)
            elif await tell(message) is not None:
                return {"channel": channel}
            else:
                missing.append(channel)
        tried = ", ".join(missing) or "none"
        raise SdkFailed(
            f"paddock.notify.send: there is no channel (tried: {tried}); install notify-send and run in a desktop "
            "session, register a webhook for `notification`, or name a command in `notify` under [sdk]",
            Status.UNAVAILABLE,
            _ERROR_NAME,
        )

    def _find_desktop(self) -> Tell | None:
        program = system_program("notify-send")
        if program is None or "DBUS_SESSION_BUS_ADDRESS" not in self._environ:
            return None
        environment = {name: self._environ[name] for name in _PASSED_VARIABLES if name in self._environ}

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
