"""The MCP library's client session, asked for results as they came off the wire."""

import time
from typing import TYPE_CHECKING, Any, cast

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types import (
    REQUEST_TIMEOUT,
    ClientCapabilities,
    Implementation,
    InitializedNotification,
    InitializeResult,
    ServerCapabilities,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from opentelemetry.trace import get_current_span
from pydantic import ValidationError

from paddock.hub.call_errors import TRACE
from paddock.hub.stdio_rpc import StdioRpc

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

AUTH_STATUS = (401, 403)
_PROMPT_S = 2.0
"""Seconds within which a server that had started answers the handshake."""
MAX_PAGES = 1_000
"""Pages of one listing; a server that never ends its listing cannot hold us."""
LISTING_CHARS = 64 * 1024 * 1024
"""Characters of all pages but the last; then no further one is asked for."""


class Session(ClientSession):
    """A session whose answers are not validated: a faulty server stays usable, and a call costs half."""

    silent = False
    """Whether the server did not answer `server/discover`, and shook hands."""
    rpc: StdioRpc | None = None
    """A shorter way for our requests, which no trace goes along."""

    async def send_raw_request(self, method: str, params: dict[str, Any]) -> object:
        """Return the raw answer to a request in the agreed era. Raises MCPError."""
        data: dict[str, Any] = {"method": method, "params": params}
        options: CallOptions = {}
        self._stamp(data, options)
        if self.rpc is not None and not get_current_span().get_span_context().is_valid:
            return await self.rpc.send_request(
                method, data["params"], tell=options.get("cancel_on_abandon", True)
            )
        return cast("object", await self._dispatcher.send_raw_request(method, data["params"], options))

    async def agree_on_version(self, *, probe: bool) -> None:
        """Agree on a version: with `probe` ask for the stateless era; without, or if refused, shake hands.

        The library waits some seconds for an answer to the probe. A server that starts slowly, or that waits for a
        person to log in, is asked again when it refuses the handshake; so is one that was not asked.
        """
        late = False
        if probe:
            try:
                await self.discover()
            except (MCPError, ValidationError, RuntimeError) as error:
                trace = TRACE.get()
                late = isinstance(error, MCPError) and error.code == REQUEST_TIMEOUT
                if not late and trace is not None and trace.status in AUTH_STATUS:
                    raise
            else:
                return
        begun = time.monotonic()
        try:
            await self._shake_hands()
            # One that took long to start may answer the probe the next time.
            self.silent = late and time.monotonic() - begun < _PROMPT_S
        except (MCPError, RuntimeError) as refused:
            if probe and not late:
                raise
            try:
                await self.discover()
            except (MCPError, ValidationError, RuntimeError):
                raise refused from None

    def mind_headers(self, entries: list[Any]) -> list[Any]:
        """Note which arguments of listed tools go into headers, too; return the tools that may be called.

        One that wants an impossible header may not (SEP-2243).
        """
        kept: list[Any] = []
        for entry in entries:
            tool = cast("dict[str, object]", entry) if isinstance(entry, dict) else {}
            name, schema = tool.get("name"), tool.get("inputSchema")
            if find_invalid_x_mcp_header(schema) is not None:
                continue
            if isinstance(name, str):
                self._x_mcp_header_maps[name] = x_mcp_header_map(schema)
            kept.append(cast("object", entry))
        return kept

    def _build_capabilities(self, version: str) -> ClientCapabilities:
        """Offer forms to servers that may ask; no address is ever opened for one."""
        able = super()._build_capabilities(version)
        if able.elicitation is not None:
            able.elicitation.url = None
        return able

    async def _shake_hands(self) -> None:
        """Do the `initialize` exchange; of the server's answer only the version has to be right."""
        client = self._client_info.model_dump(by_alias=True, exclude_none=True)
        able = self._build_capabilities(LATEST_HANDSHAKE_VERSION).model_dump(by_alias=True, exclude_none=True)
        offer = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": able, "clientInfo": client}
        answer = await self.send_raw_request("initialize", offer)
        version = cast("dict[str, Any]", answer).get("protocolVersion") if isinstance(answer, dict) else None
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            known = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
            raise RuntimeError(f"it speaks protocol version {version!r}; Paddock speaks {known} and later")
        nobody = Implementation(name="", version="")
        self.adopt(
            InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=nobody)
        )
        await self.send_notification(InitializedNotification())
