"""The MCP library's client session, used for raw results."""

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

from paddock.engines.servers.calls.call_errors import TRACE
from paddock.engines.servers.calls.stdio_rpc import StdioRpc

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions

AUTH_STATUS = (401, 403)
_PROMPT_S = 2.0
"""Maximum time in which a running server answers the handshake, in seconds."""
MAX_PAGES = 1_000
"""Maximum number of pages of one listing, so that a listing always ends."""
LISTING_CHARS = 64 * 1024 * 1024
"""Maximum characters of all pages; beyond it no further page is requested."""
METHOD_LIST_CHARS = 16 * 1024 * 1024
"""The same for a list of resources or prompts: a program gets it at once."""


class RawSession(ClientSession):
    """A session that does not validate answers: a faulty server stays usable, and a call costs half."""

    _declared: frozenset[str] = frozenset()
    silent = False
    """Whether the server ignored `server/discover` and then shook hands."""
    rpc: StdioRpc | None = None
    """The direct path for our requests. It carries no trace context."""

    @property
    def capabilities(self) -> frozenset[str]:
        """What the server declares, such as `resources`; empty before the handshake."""
        if self.discover_result is None:
            return self._declared
        return frozenset(self.discover_result.capabilities.model_dump(by_alias=True, exclude_none=True))

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

        The library waits some seconds for an answer to the probe. If the handshake is refused, the probe is repeated
        for a server that starts slowly or waits for a login, and sent to one that was not probed.
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
            # A server that started slowly may answer the probe the next time.
            self.silent = late and time.monotonic() - begun < _PROMPT_S
        except (MCPError, RuntimeError) as refused:
            if probe and not late:
                raise
            try:
                await self.discover()
            except (MCPError, ValidationError, RuntimeError):
                raise refused from None

    def mind_headers(self, entries: list[Any]) -> list[Any]:
        """Record which arguments of listed tools are also sent as headers; return the tools that may be called.

        A tool that needs an impossible header may not be called (SEP-2243).
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
        """Offer forms to servers that may ask; addresses are never opened."""
        able = super()._build_capabilities(version)
        if able.elicitation is not None:
            able.elicitation.url = None
        return able

    async def _shake_hands(self) -> None:
        """Exchange `initialize`; only the version in the server's answer must be valid."""
        client = self._client_info.model_dump(by_alias=True, exclude_none=True)
        able = self._build_capabilities(LATEST_HANDSHAKE_VERSION).model_dump(by_alias=True, exclude_none=True)
        offer = {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": able, "clientInfo": client}
        answer = await self.send_raw_request("initialize", offer)
        fields = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
        version, declared = fields.get("protocolVersion"), fields.get("capabilities")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS:
            known = ", ".join(HANDSHAKE_PROTOCOL_VERSIONS)
            raise RuntimeError(f"it speaks protocol version {version!r}; Paddock speaks {known} and later")
        if isinstance(declared, dict):
            self._declared = frozenset(cast("dict[str, Any]", declared))
        nobody = Implementation(name="", version="")
        self.adopt(
            InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=nobody)
        )
        await self.send_notification(InitializedNotification())
