"""Support clients over stdio that probe for the newest revision, give up, and then use an older handshake.

The protocol library chooses the revision of a connection by its first request. After that it refuses `initialize`. Some
clients send `server/discover` first and wait a second for its answer. If the answer comes later, they send `initialize`
on the same connection. Therefore a connection with only probes is served anew, starting at `initialize`.
"""

from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from paddock.engines.servers.calls.stdio import MessageReader

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from paddock.engines.servers.calls.stdio import PipeWriter
    from paddock.surfaces.mcp_server.stdio import LineReader

_PROBE_METHOD = "server/discover"
_HANDSHAKE_METHOD = "initialize"


class ProbedReader(MessageReader):
    """Messages of a client. They end before an `initialize` that follows only probes, and start again with it."""

    def __init__(self, reader: "LineReader") -> None:
        self._reader = reader
        self._methods: set[str] = set()
        """Methods of the requests before the first that is no probe."""
        self.handshake: SessionMessage | None = None
        """The `initialize` before which the messages ended."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has closed its end, or starts again."""
        if self.handshake is not None:
            message, self.handshake = self.handshake, None
            return message
        message = await self._reader.receive()
        if self._methods <= {_PROBE_METHOD} and isinstance(message, SessionMessage):
            request = message.message
            if isinstance(request, JSONRPCRequest):
                probed = bool(self._methods)
                self._methods.add(request.method)
                if probed and request.method == _HANDSHAKE_METHOD:
                    self.handshake = message
                    raise anyio.EndOfStream
        return message


async def serve_client(server: "Server[None]", reader: "LineReader", writer: "PipeWriter") -> None:
    """Serve one client until it closes its end."""
    options = server.create_initialization_options()
    messages = ProbedReader(reader)
    await server.run(messages, writer, options)
    if messages.handshake is not None:
        await server.run(messages, writer, options)
