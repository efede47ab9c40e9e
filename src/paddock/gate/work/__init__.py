"""The kinds of work, one file each.

`kind` is the interface; `guest`, `runtime`, `script_tool`, `server_call` and `sdk_call` implement it. `ends` is
shared by them. In requests and records, `tool` is a script tool, and `server` a tool of a server.
"""

from collections.abc import Mapping
from typing import Any

from paddock.gate.work.guest import GuestPrograms
from paddock.gate.work.kind import Kind
from paddock.gate.work.runtime import RuntimePrograms
from paddock.gate.work.script_tool import ScriptToolRuns
from paddock.gate.work.sdk_call import SdkCalls
from paddock.gate.work.server_call import ServerCalls
from paddock.model.request import ExecutionRequest

KINDS: Mapping[str, Kind[Any]] = {
    "guest": GuestPrograms(),
    "server": ServerCalls(),
    "runtime": RuntimePrograms(),
    "tool": ScriptToolRuns(),
    "sdk": SdkCalls(),
}
"""All kinds, by the `kind` of their requests."""


def kind_of(request: ExecutionRequest) -> Kind[Any]:
    """Return the kind of a request."""
    return KINDS[request.work.kind]
