"""Script tools of the workspace as MCP tools; they may be added and removed while the server runs."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from paddock.gate.script_tool_service import make_tool_run, open_library
from paddock.model.base import Json
from paddock.model.outcome import Outcome
from paddock.model.request import ExecutionRequest, ToolRun
from paddock.model.texts import cut_text
from paddock.policy.settings.schema import ToolSettings
from paddock.surfaces.mcp_server.overflow import OverflowStore
from paddock.surfaces.mcp_server.replies import build_answer, render_value_text
from paddock.surfaces.mcp_server.toolbox import Arguments, McpCaller, McpTool, ToolAnswer, text_block
from paddock.surfaces.rendering.program_response import list_notes
from paddock.surfaces.rendering.terminal import make_encodable

if TYPE_CHECKING:
    from paddock.gate.open_paddock import OpenPaddock

POLL_INTERVAL_S = 2.0
"""Interval between checks of the directories, in seconds."""

_MAX_DESCRIPTION_CHARS = 1000
"""Maximum length of a listed description, in characters: the model reads it at every turn."""
_MAX_SCHEMA_CHARS = 16 * 1024
"""Maximum size of a listed schema, in characters. A larger one is not listed; the tool itself checks its inputs."""
_MAX_DEPTH = 64
"""Maximum depth of structured data for clients; the libraries of some give up at 255."""


class ScriptTools:
    """The enabled script tools of a workspace. Results have at most `cap` characters; `rest` stores larger ones."""

    def __init__(
        self,
        opened: "OpenPaddock",
        settings: ToolSettings,
        workspace: Path,
        cap: int,
        overflow: OverflowStore,
    ) -> None:
        self._gate = opened.gate
        self._outgoing = opened.outgoing
        self._overflow = overflow
        self._workspace = workspace
        self._cap = cap
        self._library = open_library(settings, workspace)
        self._looking = threading.Lock()
        self._listed: list[tuple[str, str, dict[str, Json]]] | None = None
        self._tools: tuple[McpTool, ...] = ()
        self._changed = False

    async def list_tools(self) -> tuple[McpTool, ...]:
        """Return the tools as they are now, by name."""
        found = await asyncio.to_thread(self._read_listing)
        if found != self._listed:
            self._changed = self._changed or self._listed is not None
            self._listed, self._tools = found, tuple(self._build_tool(*each) for each in found)
        return self._tools

    async def watch_changes(self) -> AsyncGenerator[None]:
        """Yield soon after a check has found other tools than the check before."""
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            await self.list_tools()
            if self._changed:
                self._changed = False
                yield

    def _read_listing(self) -> list[tuple[str, str, dict[str, Json]]]:
        with self._looking:
            return self._library.listing()

    def _build_run(self, name: str, inputs: Mapping[str, Json]) -> ToolRun:
        with self._looking:
            return make_tool_run(self._library, name, inputs)

    def _build_tool(self, name: str, description: str, schema: dict[str, Json]) -> McpTool:
        async def run(arguments: Arguments, caller: McpCaller) -> ToolAnswer:
            request = ExecutionRequest(
                actor=caller.actor,
                surface="mcp",
                workspace=self._workspace,
                work=await asyncio.to_thread(self._build_run, name, arguments),
            )
            outcome = await caller.execute(self._gate, request)
            given = await self._build_answer(outcome, name)
            notes = [text_block(note) for note in list_notes(outcome)]
            return replace(given, content=[*given.content, *notes]) if notes else given

        shown = self._outgoing.text(make_encodable(description))
        return McpTool(
            name=name,
            title=name,
            description=cut_text(shown, _MAX_DESCRIPTION_CHARS) or "A script tool of this workspace.",
            input_schema=self._list_schema(schema),
            run=run,
            checks=False,
        )

    def _list_schema(self, schema: dict[str, Json]) -> dict[str, Json]:
        """Return a schema for clients; one beyond the limits says only that arguments are an object."""
        if not _is_shallow(schema) or len(json.dumps(schema, ensure_ascii=False)) > _MAX_SCHEMA_CHARS:
            return {"type": "object"}
        return {**cast("dict[str, Json]", self._outgoing.json(schema)), "type": "object"}

    async def _build_answer(self, outcome: Outcome, name: str) -> ToolAnswer:
        """Return what a script printed, as text and, for an object, as data; or why there is no result."""
        if not outcome.ok:
            shown = build_answer(outcome, self._cap, single=True)
            data = cast("dict[str, Json]", shown.structured)
            return (
                await self._overflow.add_handle(outcome, shown, what=name, data=data)
                if "truncated" in data
                else shown
            )
        text = render_value_text(outcome.value) if outcome.has_value else "(the script printed nothing)"
        if len(text) <= self._cap:
            value = outcome.value
            is_data = isinstance(value, dict) and _is_shallow(value)  # pyright: ignore[reportUnknownArgumentType]
            return ToolAnswer([text_block(text)], cast("Json", value) if is_data else None)
        return await self._overflow.add_handle(
            outcome, ToolAnswer([text_block(cut_text(text, self._cap))]), what=name
        )


def _is_shallow(value: Json) -> bool:
    """Return whether a value is within the maximum depth for clients."""
    level: list[Json] = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        ]
        if not level:
            return True
    return False
