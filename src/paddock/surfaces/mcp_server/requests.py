"""The requests in flight, and how they end when the server ends.

SIGTERM -> new requests are rejected -> requests in flight get a grace period -> calls are stopped, and answered
"""

import asyncio
import ctypes
from collections import Counter
from collections.abc import Generator, Hashable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED

from paddock.surfaces.mcp_server.list_changes import Context, read_session_id

if TYPE_CHECKING:
    from mcp.server.context import CallNext, HandlerResult

SERVER_ENDING = "This server is ending."
LISTEN_METHOD = "subscriptions/listen"
"""The method whose requests are streams, which last as long as the client wants."""

_QUIET_S = 1.0
"""Time without a request after which free memory is returned to the kernel, in seconds."""
_LIBC = ctypes.CDLL(None)


class InFlightRequests:
    """The requests in flight, by session and request id. One entry covers the handler and the HTTP exchange."""

    def __init__(self) -> None:
        self.leaving = False
        """Whether load balancers should send requests to other servers. They are still taken."""
        self.ending = False
        """Whether new requests are rejected."""
        self._in_flight: Counter[Hashable] = Counter()
        self._idle = asyncio.Event()
        self._idle.set()
        self._begun = 0
        self._watch: asyncio.TimerHandle | None = None

    def has_request(self, key: Hashable) -> bool:
        """Return whether a request is in flight."""
        return key in self._in_flight

    @contextmanager
    def in_flight(self, key: Hashable) -> Generator[None]:
        """Register a request as in flight during the context."""
        self._in_flight[key] += 1
        self._begun += 1
        self._idle.clear()
        if self._watch is None:
            self._watch_for_quiet(self._begun)
        try:
            yield
        finally:
            self._in_flight[key] -= 1
            if not self._in_flight[key]:
                del self._in_flight[key]
            if not self._in_flight:
                self._idle.set()

    async def handle_message(self, ctx: Context, call_next: "CallNext") -> "HandlerResult":
        """Handle one message of a client, as a middleware of the server. Raises MCPError when the server ends."""
        if ctx.request_id is None or ctx.method == LISTEN_METHOD:
            return await call_next(ctx)
        if self.ending and ctx.request is None:  # over HTTP it was checked before
            raise MCPError(code=CONNECTION_CLOSED, message=SERVER_ENDING)
        with self.in_flight((read_session_id(ctx), str(ctx.request_id))):
            return await call_next(ctx)

    async def wait_until_drained(self, seconds: float) -> bool:
        """Reject new requests; wait until none is in flight, and return whether that took at most `seconds`."""
        self.leaving = self.ending = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _watch_for_quiet(self, begun: int) -> None:
        """Return free memory if no request has begun since the last check; `begun` is the number at that check."""
        if begun == self._begun and not self._in_flight:
            self._watch = None
            return_free_memory()
        else:
            loop = asyncio.get_running_loop()
            self._watch = loop.call_later(_QUIET_S, self._watch_for_quiet, self._begun)


def return_free_memory() -> None:
    """Return the free pages of the heap to the kernel (malloc_trim(3)); has no effect without glibc.

    glibc returns only the end of a heap. Free pages in the middle made a server with mixed calls grow for hours.
    """
    if hasattr(_LIBC, "malloc_trim"):
        _LIBC.malloc_trim(ctypes.c_size_t(0))
