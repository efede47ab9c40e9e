"""Large answers: the memory of all of them is bounded, however slowly their clients take them.

A file that finds no room is refused, and can be asked for again. An outcome cannot: what has run has run. It is sent in
any case, and while there is no room nothing further is started.
"""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from fastapi import Response

from paddock.model.limits import MIB
from paddock.surfaces.http_server.asgi import Receive, Scope, Send
from paddock.surfaces.http_server.problems import SERVER_BUSY, Problem

MAX_SENT_BYTES = 256 * MIB
"""Maximum size of all answers that are being sent, in bytes. Outcomes of what already runs may exceed it."""
_BUSY = "Too many large answers are being sent just now."


class Downloads:
    """Memory for answers that are being sent, shared by all requests of a server."""

    def __init__(self, max_bytes: int = MAX_SENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used = 0

    def check_room(self) -> None:
        """Raise Problem if nothing further may be started."""
        if self._used >= self._max_bytes:
            raise Problem(SERVER_BUSY, f"{_BUSY} Nothing was started; send it again later.")

    def respond(self, data: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
        """Return the answer with a file. Sending it raises Problem while others use the memory."""
        return _Download(self, data, {**(headers or {}), "Content-Type": media_type}, refuses=True)

    def respond_outcome(self, data: bytes, headers: Mapping[str, str] | None = None) -> Response:
        """Return the answer with an outcome, as JSON."""
        return _Download(self, data, {**(headers or {}), "Content-Type": "application/json"}, refuses=False)

    @contextmanager
    def hold(self, size: int, *, refuses: bool) -> Generator[None]:
        """Count an answer during the context. Raises Problem for one that finds no room, if that `refuses`."""
        if refuses and self._used + size > self._max_bytes:
            raise Problem(SERVER_BUSY, f"{_BUSY} Ask for it again later.")
        self._used += size
        try:
            yield
        finally:
            self._used -= size


class _Download(Response):
    """An answer that counts until its client has taken it."""

    def __init__(
        self, downloads: Downloads, data: bytes, headers: Mapping[str, str], *, refuses: bool
    ) -> None:
        super().__init__(data, headers=headers)
        self._downloads = downloads
        self._refuses = refuses

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._downloads.hold(len(self.body), refuses=self._refuses):
            await super().__call__(scope, receive, send)
