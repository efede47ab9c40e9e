"""The key of a call: the same key starts at most once among all replicas of a cluster."""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.request import RequestKey

KEY = "paddock/key"
"""Its name in `_meta` of `tools/call`."""
_KEY_PATTERN = re.compile(r"[!-~]{1,255}", re.ASCII)


def read_call_key(meta: Mapping[str, Any] | None, name: str, arguments: Json) -> RequestKey | None:
    """Return the key of a call of a tool; None without one. Raises MCPError if it is not valid."""
    key = (meta or {}).get(KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not _KEY_PATTERN.fullmatch(key):
        raise MCPError(
            code=INVALID_PARAMS,
            message=f"`{KEY}` is 1 to 255 printable ASCII characters without spaces. Send a new random one, such as a "
            "UUID, for each new call.",
        )
    return RequestKey(name=key, digest=hashlib.sha256(canonical(["mcp", name, arguments])).digest())
