"""Paddock's side of the process with the model (`sentence_worker.py` says what the two send each other)."""

import asyncio
import json
import socket
import struct
from array import array
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from paddock.confinement.sandbox import interpreter
from paddock.confinement.sandbox.child import preflight
from paddock.engines.servers.catalog.vectors import VECTOR_BYTES, ToolTexts, is_vector
from paddock.model.errors import ConfigurationError, EngineError

if TYPE_CHECKING:
    import subprocess

_LENGTH = struct.Struct("<I")
_START_TIMEOUT_S = 120.0
"""Maximum time to load the model, in seconds: a busy machine reads 100 MB of libraries slowly."""
_ANSWER_TIMEOUT_S = 60.0
"""Maximum time for one answer, in seconds. The process has a low priority."""
_MAX_FAILURE_BYTES = 8_192
_MAX_SIMILARITY = 1.01
_BROKEN = (OSError, EOFError, ValueError)
"""What reading from a process raises that has ended, is too slow, or breaks the protocol."""


class SentenceProcess:
    """A running process with the model. It answers one request after the other; `start` creates it."""

    def __init__(
        self,
        process: "subprocess.Popen[bytes]",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, folders: Sequence[str]) -> "SentenceProcess":
        """Start the process, with packages from `folders`, and wait until the model is loaded.

        Raises ConfigurationError if the packages or the model cannot be used, EngineError if the process cannot run.
        """
        if lacking := preflight.powers_lacking(preflight.FOR_GUESTS):
            raise EngineError(lacking)
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=ours)
            number = theirs.fileno()
            try:
                process = interpreter.start(
                    "paddock.engines.servers.catalog.sentence_worker", str(number), *folders, keep=number
                )
            except BaseException:
                writer.close()
                raise
        started = cls(process, reader, writer)
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                failure = await started._receive(_MAX_FAILURE_BYTES)
            if failure:  # the text of our own process, before it has read anything
                raise ConfigurationError(failure.decode("utf-8", "replace"))  # noqa: TRY301 - closes too
        except BaseException as problem:
            await started.close()
            if isinstance(problem, _BROKEN):
                raise EngineError("the process of semantic search did not start") from problem
            raise
        return started

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def embed_tool(self, texts: ToolTexts) -> bytes:
        """Return the vector of a tool. Raises EngineError, after which the process has ended."""
        answer = await self._ask(b"T" + json.dumps(texts).encode(), VECTOR_BYTES)
        if not is_vector(answer):
            await self.close()
            raise EngineError("the process of semantic search returned no vector")
        return answer

    async def compare_texts(self, texts: Sequence[str], vectors: bytes) -> list[Sequence[float]]:
        """Return the similarity of each text to each of `vectors`, -1 to 1.

        Raises EngineError, after which the process has ended.
        """
        count = len(vectors) // VECTOR_BYTES
        written = json.dumps(texts).encode()
        answer = await self._ask(
            b"Q" + _LENGTH.pack(len(written)) + written + vectors, 4 * count * len(texts)
        )
        numbers = array("f", answer)
        if not all(-_MAX_SIMILARITY <= number <= _MAX_SIMILARITY for number in numbers):
            await self.close()
            raise EngineError("the process of semantic search returned no similarities")
        return [numbers[at : at + count] for at in range(0, len(numbers), count or 1)] or [array("f")] * len(
            texts
        )

    async def close(self) -> None:
        """End the process at once, whatever it does."""
        self._process.kill()
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
        await asyncio.to_thread(self._process.wait)

    async def _ask(self, request: bytes, size: int) -> bytes:
        """Return the answer of `size` bytes to a request."""
        # A caller that is cancelled before its turn leaves nothing behind, with up to 12 MB. Later it leaves no answer
        # for the next one: the exchange is always finished.
        await self._turn.acquire()
        exchange = asyncio.create_task(self._exchange(request, size))
        exchange.add_done_callback(lambda _: self._turn.release())
        return await asyncio.shield(exchange)

    async def _exchange(self, request: bytes, size: int) -> bytes:
        try:
            async with asyncio.timeout(_ANSWER_TIMEOUT_S):
                self._writer.write(_LENGTH.pack(len(request)) + request)
                await self._writer.drain()
                answer = await self._receive(size)
            if len(answer) != size:
                raise ValueError("an answer of another size")
        except _BROKEN as problem:
            await self.close()
            raise EngineError("the process of semantic search has ended or did not answer") from problem
        return answer

    async def _receive(self, size: int) -> bytes:
        """Return the next frame. Raises ValueError if it is larger than `size`, EOFError at the end."""
        (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
        if length > size:
            raise ValueError("an answer of another size")
        return await self._reader.readexactly(length)
