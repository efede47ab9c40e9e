"""The sessions of a server, as `InterpreterSession` uses them."""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from urllib.parse import quote

from paddock.model.errors import PaddockError
from paddock.model.session import OpenSessions, SessionInfo
from paddock.model.work_files import OutputFile
from paddock.surfaces.client.arguments import encode_text
from paddock.surfaces.client.paddock import Paddock
from paddock.surfaces.client.remote.answers import MAX_FILE_BYTES, make_answer, make_answers, read_names
from paddock.surfaces.client.remote.connection import ApiConnection

PATH = "/v1/sessions"


class _Absent(PaddockError):
    """There is no such session or file."""


class RemoteSessions:
    """The sessions of one caller on a server."""

    def __init__(self, connection: Callable[[], ApiConnection], paddock: Paddock) -> None:
        """Use the connection of an open Paddock."""
        self._connection = connection
        self.paddock = paddock

    async def list_open(self) -> OpenSessions:
        """Return the open sessions, the oldest first, and the names of the replicas that did not answer."""
        value = await self._connection().fetch_json(PATH)
        return OpenSessions(make_answers(SessionInfo, value, "sessions"), read_names(value, "partial"))

    async def find_language(self, handle: str) -> str:
        """Return the language of an open session. Raises PaddockError if there is none."""
        value = await self._connection().fetch_json(_path(handle), absence=PaddockError)
        return make_answer(SessionInfo, value).language

    async def interrupt(self, handle: str) -> None:
        """Interrupt what a session executes now."""
        with suppress(_Absent):
            await self._connection().send("POST", f"{_path(handle)}/interrupt", absence=_Absent)

    async def close(self, handle: str) -> None:
        """Close a session. Does nothing if there is none."""
        with suppress(_Absent):
            await self._connection().send("DELETE", _path(handle), absence=_Absent)

    async def read_file(self, handle: str, path: str) -> bytes:
        """Return the content of a file."""
        return await self._send_for_file("GET", handle, path)

    async def remove_file(self, handle: str, path: str) -> None:
        """Remove a file."""
        await self._send_for_file("DELETE", handle, path)

    async def list_files(self, handle: str) -> tuple[OutputFile, ...]:
        """Return all files, each with a reader."""
        value = await self._connection().fetch_json(f"{_path(handle)}/files", absence=PaddockError)
        found = make_answers(OutputFile, value, "files")
        for file in found:
            where = _path(handle, file.path)
            file.attach_reader(partial(self._connection().read_now, where, MAX_FILE_BYTES, FileNotFoundError))
        return found

    async def _send_for_file(self, method: str, handle: str, path: str) -> bytes:
        where = _path(handle, path)
        try:
            return await self._connection().send(method, where, max_bytes=MAX_FILE_BYTES, absence=_Absent)
        except _Absent:
            await self.find_language(handle)  # raises where it is the session that is absent
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None


def _path(handle: str, file: str | None = None) -> str:
    path = f"{PATH}/{quote(handle, safe='')}"
    return (
        path if file is None else f"{path}/files/{quote(encode_text(file, 'path', 'replace it by U+FFFD'))}"
    )
