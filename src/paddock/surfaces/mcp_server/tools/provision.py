"""The tool `provision_server`: lists servers and those that can be enabled. A person must allow each change."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Required, TypedDict, cast

from paddock.model.approval import YES
from paddock.model.base import Json
from paddock.model.errors import ConfigurationError
from paddock.model.outcome import Status
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.output_schemas import build_schema
from paddock.surfaces.mcp_server.replies import compact
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    McpCaller,
    McpTool,
    ToolAnswer,
    build_refusal,
    object_schema,
    text_block,
)
from paddock.surfaces.rendering import answers

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

PROVISION_SERVER = (
    "Use this when no server has the tool you need. Lists servers and, by `intent`, more to enable."
)
NEXT_SESSION = "It counts from the next session on."
NOTHING_FITS = "nothing in the registry's list fits; try other words"
NO_LIST = "there is no registry's list here to offer from; a person fetches one: paddock servers refresh"
_SECRET_FIELDS = frozenset({"env", "headers"})
"""Fields of a servers-file entry that may contain secrets."""
_TEXT: dict[str, Json] = {"type": "string"}


class ServerFacts(TypedDict):
    """A configured server."""

    name: str
    enabled: bool


class OfferFacts(TypedDict):
    """A server that could be enabled."""

    name: str
    description: str
    confidence: float
    trusted: bool


class ServersAnswer(TypedDict, total=False):
    """The answer of `provision_server`."""

    status: Required[answers.ChangeStatus]
    servers: list[ServerFacts]
    offers: list[OfferFacts]
    note: str
    command: answers.Command
    truncated: answers.Truncated
    error: answers.ErrorFields


class ProvisionTools:
    """The tool, on the servers of one session; results have at most `cap` characters."""

    def __init__(self, opened: "OpenPaddock", workspace: Path, cap: int) -> None:
        self._servers = opened.servers
        self._approvals = opened.gate.approvals
        self._workspace = workspace
        self._cap = cap

    async def provision_server(self, arguments: Arguments, caller: McpCaller) -> ToolAnswer:
        """List servers, or make a change that the caller's person allows; otherwise say what the person must do."""
        action, name = arguments.get("action", "status"), arguments.get("name")
        if action == "status":
            return self._report_status(arguments.get("intent") or name)
        if name is None:
            return build_refusal(Status.INVALID, "InvalidArguments", f"`name` is needed to {action} a server")
        enabled = self._servers.provisioning.list_configured().get(name)
        if enabled is (action == "enable"):
            return _render_answer(
                {"status": "ok", "servers": [{"name": name, "enabled": action == "enable"}]}, self._cap
            )
        if enabled is None and (refused := self._explain_unfit(action, name)):
            return refused
        if caller.present:
            return await self._ask_and_apply(action, name, caller)
        command = shlex.join(["paddock", "servers", action, name])
        text = f"a person must do this; ask them to run: {command}\n{NEXT_SESSION}"
        error: answers.ErrorFields = {"name": "ApprovalNeeded", "message": text}
        data: ServersAnswer = {"status": "denied", "error": error, "command": command}
        return ToolAnswer([text_block(f"denied\n{text}")], data, is_error=True)

    async def _ask_and_apply(self, action: str, name: str, caller: McpCaller) -> ToolAnswer:
        """Ask the client's person, and make exactly the change that they saw."""
        provisioning = self._servers.provisioning
        entry = provisioning.find_entry(name)
        shown = {key: value for key, value in entry.items() if key not in _SECRET_FIELDS}
        for key in _SECRET_FIELDS & entry.keys():
            if isinstance(value := entry[key], dict):
                shown[f"names in {key}"] = sorted(cast("dict[str, Json]", value))
        answer = await self._approvals.confirm(
            f"{action} the server {name}",
            {"file": str(provisioning.file_of(name)), "entry": shown},
            "a person decides which servers are enabled",
            actor=caller.actor,
            surface="mcp",
            workspace=str(self._workspace),
            asker=caller.asker,
        )
        if answer.verdict not in YES:
            return build_refusal(Status.DENIED, "ApprovalDenied", answer.told)
        if provisioning.find_entry(name) != entry:
            return build_refusal(
                Status.DENIED, "ApprovalDenied", f"{name} changed while a person was asked; ask again"
            )
        change = (provisioning.enable_server if action == "enable" else provisioning.disable_server)(
            name, approved=True
        )
        server: ServerFacts = {"name": change.name, "enabled": action == "enable"}
        return _render_answer({"status": "ok", "servers": [server], "note": NEXT_SESSION}, self._cap)

    def _report_status(self, intent: str | None) -> ToolAnswer:
        provisioning = self._servers.provisioning
        configured = provisioning.list_configured().items()
        known: list[ServerFacts] = [{"name": name, "enabled": enabled} for name, enabled in configured]
        data: ServersAnswer = {"status": "ok", "servers": known}
        if intent and intent.strip():
            data["offers"] = [
                {
                    "name": each.offer.name if each.offer.is_unique else each.offer.address,
                    "description": each.offer.description,
                    "confidence": each.confidence,
                    "trusted": each.trusted,
                }
                for each in provisioning.answer_intent(intent).matches
            ]
            if not data["offers"]:
                data["note"] = NOTHING_FITS if provisioning.has_list() else NO_LIST
        return _render_answer(data, self._cap)

    def _explain_unfit(self, action: str, name: str) -> ToolAnswer | None:
        """Return why a server that is not configured cannot be enabled; None if it can."""
        if action == "disable":
            return build_refusal(Status.INVALID, "UnknownServer", f"there is no server {name[:200]!r}")
        try:
            found = self._servers.provisioning.find_offer(name)
        except ConfigurationError as unknown:
            return build_refusal(Status.INVALID, "UnknownServer", str(unknown))
        if found.allowed:
            return None
        text = f"{name} is not trusted; only a person can change that, in the list of trusted servers"
        return build_refusal(Status.DENIED, "Untrusted", text)


def build_provision_tool(opened: "OpenPaddock", workspace: Path, cap: int) -> McpTool:
    """Return `provision_server`."""
    return McpTool(
        name="provision_server",
        title="Find or enable a server",
        description=PROVISION_SERVER,
        input_schema=object_schema(
            [], name=_TEXT, intent=_TEXT, action={"enum": ["status", "enable", "disable"]}
        ),
        run=ProvisionTools(opened, workspace, cap).provision_server,
        output_schema=build_schema(ServersAnswer),
        annotations={"destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
    )


def _render_answer(data: ServersAnswer, cap: int) -> ToolAnswer:
    """Return the servers as text and as data; offers that do not fit are left out of both."""
    offers = data.get("offers")
    while len(text := compact(data)) > cap and offers:
        offers.pop()
        data["truncated"] = True
    if len(text) > cap:
        data = {"status": "ok", "truncated": True}
    return ToolAnswer([text_block(f"ok\n{cut_text(text, cap)}")], data)
