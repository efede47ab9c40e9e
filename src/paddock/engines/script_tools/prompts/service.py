"""Handle one call of a prompt: find its tools, ask where confirmation is needed, run the rest.

`run` runs a tool through the gate; this module itself starts nothing.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

from pydantic import Field

from paddock.engines.script_tools.inputs import Inputs
from paddock.engines.script_tools.library import ScriptTool, ToolLibrary
from paddock.engines.script_tools.prompts import confirmation, templates
from paddock.engines.script_tools.prompts.confirmation import PromptApprovals, PromptQuestion
from paddock.engines.script_tools.prompts.detection import PromptMatch, detect
from paddock.model.base import Json, Value
from paddock.model.tool import ToolEnd

Run = Callable[[ScriptTool, Inputs], Awaitable[ToolEnd]]


class PromptReply(Value):
    """The result of a call of a prompt.

    Its property `confirmation` is the text for the person who must confirm, or None. Its property `variables` contains
    the variables of the prompt's template: `tool_<id>`, and `tool_<id>_result` of successful tools.
    """

    prompt: str
    """The prompt that was called."""
    ends: dict[str, ToolEnd] = Field(default_factory=dict[str, ToolEnd])
    """Results of the confirmed tools that ran, by id."""
    questions: list[PromptQuestion] = Field(default_factory=list[PromptQuestion])
    """Tools that wait until the same call is repeated."""
    warnings: list[str] = Field(default_factory=list[str])
    """Warnings of tools, and actions that they requested and Paddock does not support."""
    errors: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """By id: why a tool that judges its own inputs refused."""

    @property
    def confirmation(self) -> dict[str, Json] | None:
        """The text for the person who must confirm; None if no tool waits."""
        return confirmation.request(self.questions, self.prompt) if self.questions else None

    @property
    def variables(self) -> dict[str, Json]:
        """The variables of a template of the prompt."""
        return templates.variables(self.ends)


class PromptService:
    """Handles calls of prompts. It remembers pending confirmations for five minutes of `clock`."""

    def __init__(self, library: ToolLibrary, run: Run, clock: Callable[[], float]) -> None:
        self._library = library
        self._run = run
        self._approvals = PromptApprovals(clock)

    async def call(self, prompt: str, arguments: Mapping[str, Json]) -> PromptReply:
        """Handle a call with the tools of a prompt and of the workspace."""
        tools = self._visible_tools(prompt)
        matches = detect(arguments, [(tool.manifest, tool.schema.document) for tool in tools.values()])
        reply = PromptReply(prompt=prompt)
        for match in matches:
            await self._run_tools(prompt, tools[match.tool], match, reply)
        return reply

    async def _run_tools(self, prompt: str, tool: ScriptTool, match: PromptMatch, reply: PromptReply) -> None:
        rule = tool.manifest.execution
        if match.needs_confirmation and rule.auto_approve_on_valid:
            end = await self._run(tool, match.inputs)
            verdict = confirmation.judge_confirmation(end.output, success=end.success, error=end.error)
            reply.warnings.extend(verdict.warnings)
            if verdict.approved:
                reply.ends[tool.id] = end
                reply.warnings.extend(_warn_of_skipped(end))
            else:
                reply.errors[tool.id] = verdict.errors
        elif not match.needs_confirmation or self._approvals.approve(
            prompt, tool.id, match.inputs, tool.script_sha256
        ):
            reply.ends[tool.id] = await self._run(tool, match.inputs)
        else:
            reply.questions.append(
                confirmation.question(
                    match, name=tool.manifest.name, prompt=prompt, message=rule.confirm_message
                )
            )

    def _visible_tools(self, prompt: str) -> dict[str, ScriptTool]:
        """Return the tools for a prompt, by id: its own, then the workspace's; none of other prompts."""
        usable = [
            tool
            for tool in self._library.all()
            if isinstance(tool, ScriptTool) and tool.prompt in ("", prompt)
        ]
        found: dict[str, ScriptTool] = {}
        for tool in sorted(usable, key=lambda tool: not tool.prompt):
            found.setdefault(tool.id, tool)
        return found


def _warn_of_skipped(end: ToolEnd) -> list[str]:
    """Return a warning for a command that a tool wants to be executed next; Paddock has no such command."""
    wanted = cast("dict[str, Json]", end.output).get("auto_execute") if isinstance(end.output, dict) else None
    if not isinstance(wanted, dict):
        return []
    return [
        f"auto_execute of {cast('dict[str, Json]', wanted).get('tool')!r} was skipped: nothing here executes it"
    ]
