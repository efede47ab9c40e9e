"""The proxy of one job: accepts on the job's listening socket, within limits, and ends with the job."""

import asyncio
import contextlib
import errno
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

from paddock.confinement.network.connector import BudgetSpentError, Connector, Pace, ProxyTerms
from paddock.confinement.network.http_proxy import HttpProxy, serve_opened_tls
from paddock.confinement.network.socks import VERSION, open_socks_tunnel
from paddock.confinement.network.streams import ByteStream, IdleTimer
from paddock.confinement.network.tunnel import open_tls, run_tunnel
from paddock.model.network import HTTP_PORT

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_RETRY_S = 0.1
"""Time after which accepting is tried again if there is no descriptor or no memory, in seconds."""


@asynccontextmanager
async def open_proxy(listener: socket.socket, terms: ProxyTerms) -> AsyncGenerator[None]:
    """Serve a listening TCP socket for the duration of the block, and own it: it is closed at the end.

    No process of the job may have the listening socket. At the end, every connection is closed and reported.
    """
    listener.setblocking(False)
    with contextlib.suppress(OSError):  # a kernel without a choice
        # These connections never leave the machine. BBR, the default of some, paces what it sends with timers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    connector = Connector(terms)
    proxy = _Proxy(listener, terms, connector)
    accepting = asyncio.create_task(proxy.accept_connections())
    try:
        yield
    finally:
        accepting.cancel()
        await asyncio.gather(accepting, return_exceptions=True)
        listener.close()
        await proxy.close()
        await connector.close()


class _Proxy:
    def __init__(self, listener: socket.socket, terms: ProxyTerms, connector: Connector) -> None:
        self._listener = listener
        self._connector = connector
        self._idle_s = terms.limits.idle_timeout_ms / 1000
        self._slots = asyncio.Semaphore(terms.limits.max_connections)
        self._pace = Pace(terms.limits.max_rate)
        self._served: set[asyncio.Task[None]] = set()

    async def accept_connections(self) -> None:
        """Accept connections, each when a slot is free; until then they wait in the queue of the kernel."""
        while True:
            await self._slots.acquire()
            await self._pace.wait()
            try:
                client = await self._accept()
            except OSError as error:
                self._slots.release()
                if error.errno in _EXHAUSTED:
                    await asyncio.sleep(_RETRY_S)
                elif error.errno != errno.ECONNABORTED:
                    raise
                continue
            except BaseException:
                self._slots.release()
                raise
            task = asyncio.create_task(self._serve(client))
            self._served.add(task)
            task.add_done_callback(partial(self._end_served, client))

    async def _accept(self) -> socket.socket:
        """Return the next connection. Nothing is awaited after accept(2): a cancellation loses no connection."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                return self._listener.accept()[0]
            except BlockingIOError:
                ready = asyncio.Event()
                loop.add_reader(self._listener, ready.set)
                try:
                    await ready.wait()
                finally:
                    loop.remove_reader(self._listener)

    def _end_served(self, client: socket.socket, task: asyncio.Task[None]) -> None:
        client.close()  # here, because a task that is cancelled before it begins could not
        self._served.discard(task)
        self._slots.release()

    async def close(self) -> None:
        """End every connection."""
        tasks = list(self._served)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, connected: socket.socket) -> None:
        timer = IdleTimer(self._idle_s)

        def count(_number: int) -> None:
            timer.restart()

        client = ByteStream(connected, count, count)
        # What a peer does to its connection ends that connection, and concerns nothing else.
        with contextlib.suppress(OSError, EOFError, BudgetSpentError):
            async with timer.timeout:
                await self._serve_client(client, timer)

    async def _serve_client(self, client: ByteStream, timer: IdleTimer) -> None:
        first = await client.read(1)
        client.unread(first)
        if not first:
            return
        if first[0] != VERSION:
            await HttpProxy(client, self._connector, timer).serve()
            return
        host = await open_socks_tunnel(client, self._connector, timer)
        if host is None:
            return
        if host.authority.port == HTTP_PORT:
            await HttpProxy(client, self._connector, timer).serve_tunnel(host)
            return
        try:
            if host.decision.inspects:
                await open_tls(client, host, self._connector, timer, serve_opened_tls)
            else:
                await run_tunnel(client, host, timer)
        finally:
            host.close()
