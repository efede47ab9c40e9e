"""The kinds of work, one file each.

`kind` is the interface; `guest`, `runtime`, `script_tool`, `server_call`, `sdk_call`, `replay` and `changes`
implement it.
`ends` is shared by them. In requests and records, `tool` is a script tool, and `server` a tool of a server.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from paddock.gate.work.kind import Kind
from paddock.model.request import ExecutionRequest

_CLASSES = {
    "guest": "guest.GuestPrograms",
    "server": "server_call.ServerCalls",
    "runtime": "runtime.RuntimePrograms",
    "tool": "script_tool.ScriptToolRuns",
    "sdk": "sdk_call.SdkCalls",
    "replay": "replay.Replays",
    "changes": "changes.ChangeSetRuns",
}
"""File and class of all kinds, by the `kind` of their requests."""


class _Kinds(dict[str, Kind[Any]]):
    """Imports the file of a kind at its first request: a command runs one of them."""

    def __missing__(self, name: str) -> Kind[Any]:
        file, _, kind = _CLASSES[name].partition(".")
        made = self[name] = getattr(import_module(f"{__name__}.{file}"), kind)()
        return made


KINDS: Mapping[str, Kind[Any]] = _Kinds()
"""The kinds, to be looked up by the `kind` of a request."""


def kind_of(request: ExecutionRequest) -> Kind[Any]:
    """Return the kind of a request."""
    return KINDS[request.work.kind]
