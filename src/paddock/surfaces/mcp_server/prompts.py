"""Prompts for people: how to write programs, and the saved scripts. Completes their arguments."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult

from paddock.engines.servers.typescript import render_signature
from paddock.model.base import Json
from paddock.model.errors import ScriptNotFound
from paddock.model.printable import make_printable
from paddock.model.texts import cut_text
from paddock.surfaces.mcp_server.resources import SavedScripts, filter_by_prefix, render_guide
from paddock.surfaces.mcp_server.toolbox import Inquire
from paddock.surfaces.mcp_server.tools.discovery import SEARCH_WAIT_S

if TYPE_CHECKING:
    from paddock.gate.servers import ServerService
    from paddock.policy.redaction.outgoing import OutgoingRedaction

_CHOICE = "script"


class UnknownPromptError(ValueError):
    """The prompt or script does not exist; the text lists the existing ones."""


class Prompts:
    """The prompts of a session; texts have at most `cap` characters."""

    def __init__(
        self, servers: "ServerService", outgoing: "OutgoingRedaction", workspace: Path, cap: int
    ) -> None:
        self._servers = servers
        self._outgoing = outgoing
        self._scripts = SavedScripts(workspace)
        self._cap = cap

    def list_entries(self) -> list[dict[str, Json]]:
        """Return the prompts for `prompts/list`."""
        server = {"name": "server", "description": "Add the tools of this server", "required": False}
        name = {
            "name": "name",
            "description": "Name of the script; choose one if left out",
            "required": False,
        }
        return [
            {
                "name": "write-program",
                "title": "Write a program",
                "description": "How to write programs for execute_code, with the tools of a server if you like.",
                "arguments": [server],
            },
            {
                "name": "run-script",
                "title": "Run a saved script",
                "description": "Run a script of this workspace with execute_code.",
                "arguments": [name],
            },
        ]

    async def build_messages(
        self, name: str, arguments: Mapping[str, str], inquire: Inquire | None
    ) -> list[dict[str, Json]]:
        """Return the messages of a prompt; ask its person for missing arguments. Raises UnknownPromptError."""
        text = await self._build_text(name, arguments, inquire)
        return [{"role": "user", "content": {"type": "text", "text": text}}]

    def complete_argument(self, argument: str, begun: str) -> list[str]:
        """Return the possible values of an argument with a prefix."""
        match argument:
            case "server":
                return filter_by_prefix(self._servers.config.servers, begun)
            case "name":
                return filter_by_prefix(self._scripts.list_files(), begun)
            case _:
                return []

    async def _build_text(self, name: str, arguments: Mapping[str, str], inquire: Inquire | None) -> str:
        match name:
            case "write-program":
                text = render_guide()
                if server := arguments.get("server"):
                    text += await self._render_tools(server)
            case "run-script":
                text = self._read_script(arguments.get("name") or await self._ask_for_script(inquire))
            case _:
                raise UnknownPromptError(
                    f"there is no prompt {name[:100]}; there are write-program and run-script"
                )
        return cut_text(self._outgoing.text(text), self._cap)

    async def _render_tools(self, server: str) -> str:
        listing = await self._servers.catalog.list_tools(server, patience_s=SEARCH_WAIT_S)
        lines = [
            render_signature(tool, self._servers.catalog.find_observed_type(tool)) for tool in listing.tools
        ]
        notes = [f"note: {why}" for why in listing.notes.get(server, ())]
        return "\n".join(
            [f"\n## Tools of {server}\n", *(lines or [listing.failures.get(server, "none")]), *notes, ""]
        )

    async def _ask_for_script(self, inquire: Inquire | None) -> str:
        """Return the script that a person chooses; empty if no person can be asked, or none is chosen."""
        names = filter_by_prefix(self._scripts.list_files(), "")
        if not names or inquire is None:
            return ""
        choices = [{"const": name, "title": make_printable(name)} for name in names]
        schema = {
            "type": "object",
            "properties": {_CHOICE: {"type": "string", "oneOf": choices}},
            "required": [_CHOICE],
        }
        params = ElicitRequestFormParams(message="Which script should run?", requested_schema=schema)
        try:
            given = (await inquire({_CHOICE: ElicitRequest(params=params)})).get(_CHOICE)
        except MCPError:
            return ""
        chosen = (given.content or {}).get(_CHOICE) if isinstance(given, ElicitResult) else None
        return chosen if isinstance(chosen, str) else ""

    def _read_script(self, name: str) -> str:
        scripts = self._scripts.list_files()
        if name not in scripts:
            what = f"there is no script {name[:100]}" if name else "name a script"
            raise UnknownPromptError(f"{what}; there are {', '.join(scripts) or 'none'}")
        path = scripts[name]
        try:
            source = self._scripts.read_source(name, path)
        except ScriptNotFound as problem:
            raise UnknownPromptError(str(problem)) from None
        wish = "Run this program with execute_code and tell me what it returns."
        return f"{wish}\n\n```{path.suffix[1:]}\n{source}\n```\n"
