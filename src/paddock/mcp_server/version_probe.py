"""Clients over stdio that probe for the newest revision, give up, and begin with the handshake of an older one.

The protocol library decides by the first request in which era a connection is served. After that it refuses
`initialize`. Some clients send `server/discover` first and wait a second for its answer. When the answer comes later,
they send `initialize` on the same connection. A connection on which only the probe was asked is therefore served anew
from its `initialize` on.
"""

from typing import TYPE_CHECKING

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from paddock.hub.stdio import MessageReader

if TYPE_CHECKING:
    from mcp.server.lowlevel.server import Server

    from paddock.hub.stdio import PipeWriter
    from paddock.mcp_server.stdio import LineReader

_PROBE_METHOD = "server/discover"
_HANDSHAKE_METHOD = "initialize"


class ProbedReader(MessageReader):
    """Messages of a client; they end before an `initialize` that follows probes alone, and begin again with it."""

    def __init__(self, reader: "LineReader") -> None:
        self._reader = reader
        self._methods: set[str] = set()
        """Methods of the requests until one that is no probe."""
        self.handshake: SessionMessage | None = None
        """The `initialize` before which they ended."""

    async def receive(self) -> SessionMessage | Exception:
        """Return the next message. Raises EndOfStream when the client has closed its end, or begins again."""
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
