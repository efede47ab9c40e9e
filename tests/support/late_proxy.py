"""A proxy before a server on loopback, which passes each answer on late, or nothing, and remembers what was asked."""

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Self


class LateProxy:
    """Listens on loopback. Answers of the server behind it are `delay_s` late.

    What contains the text `swallowed` never reaches the server: the connection stays open, and nothing answers. What
    contains a text that `hold` names reaches it after `release`.
    """

    def __init__(self, port: int, delay_s: float = 0.0) -> None:
        self._behind = port
        self.delay_s = delay_s
        self.swallowed = b""
        self._held: bytes | None = None
        self._released = asyncio.Event()
        self.port = 0
        self._asked, self._answered = bytearray(), bytearray()
        self._connections: set[asyncio.Task[None] | None] = set()
        """Otherwise the loop alone would know them, by weak references."""
        self._passing = asyncio.Event()
        self._passing.set()
        self._started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def count(self, text: str) -> int:
        """Return how often a text was sent to the server."""
        return self._asked.count(text.encode())

    def count_answered(self, text: str) -> int:
        """Return how often a text was passed on to clients."""
        return self._answered.count(text.encode())

    def hang(self) -> None:
        """Pass nothing on any more. All connections stay open, and further ones are accepted."""
        self._loop.call_soon_threadsafe(self._passing.clear)

    def go_on(self) -> None:
        """Pass on what was sent meanwhile, and all that follows."""
        self._loop.call_soon_threadsafe(self._passing.set)

    def hold(self, text: bytes = b"") -> None:
        """Hold back what contains a text, by default everything."""
        self._held = text

    def release(self) -> None:
        """Pass on everything that was held back, and hold back nothing any more."""
        self._held = None
        self._loop.call_soon_threadsafe(self._let_pass)

    def _let_pass(self) -> None:
        self._released.set()
        self._released = asyncio.Event()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.go_on()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        own = asyncio.current_task()
        while connections := [each for each in asyncio.all_tasks() if each is not own]:
            await asyncio.sleep(
                0
            )  # a task that is cancelled before it begins would leave its connection open
            for each in connections:
                each.cancel()
            await asyncio.wait(connections)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, writers = asyncio.current_task(), [writer]
        self._connections.add(task)
        try:
            behind, to_behind = await asyncio.open_connection("127.0.0.1", self._behind)
            writers.append(to_behind)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._ask(reader, to_behind))
                both.create_task(self._answer(behind, writer))
        except* (OSError, asyncio.CancelledError):
            pass
        finally:
            for each in writers:
                each.close()
                with contextlib.suppress(OSError):
                    await each.wait_closed()  # otherwise the loop may be closed before them
            self._connections.discard(task)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            self._asked += data
            await self._passing.wait()
            while self._held is not None and self._held in data:
                await self._released.wait()
            if not self.swallowed or self.swallowed not in data:
                writer.write(data)
        writer.write_eof()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await asyncio.sleep(self.delay_s)
            await self._passing.wait()
            writer.write(data)
            self._answered += data
        writer.write_eof()
