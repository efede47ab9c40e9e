"""Answers that are files: the memory of all of them is bounded, however slowly their clients take them."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from fastapi import Response

from paddock.http_api.problems import SERVER_BUSY, Problem
from paddock.mcp_server.http.abandoned import Receive, Scope, Send
from paddock.model.limits import MIB

MAX_SENT_BYTES = 256 * MIB
"""Maximum size of all files that are being sent, in bytes."""


class Downloads:
    """Memory for files that are being sent, shared by all requests of a server."""

    def __init__(self, max_bytes: int = MAX_SENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used = 0

    def respond(self, data: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> Response:
        """Return the answer with a file. Sending it raises Problem while others use the memory."""
        return _Download(self, data, {**(headers or {}), "Content-Type": media_type})

    @contextmanager
    def hold(self, size: int) -> Generator[None]:
        """Count a file during the context. Raises Problem."""
        if self._used + size > self._max_bytes:
            raise Problem(
                SERVER_BUSY, "Too many large files are being sent just now. Ask for it again later."
            )
        self._used += size
        try:
            yield
        finally:
            self._used -= size


class _Download(Response):
    """A file that counts until its client has taken it."""

    def __init__(self, downloads: Downloads, data: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(data, headers=headers)
        self._downloads = downloads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._downloads.hold(len(self.body)):
            await super().__call__(scope, receive, send)
