"""Handle one call of a prompt: find its tools, ask where confirmation is needed, run the rest.

Repeating the same call within five minutes confirms it. `run` runs a tool through the gate; this module itself starts
nothing.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from pydantic import Field

from paddock.engines.script_tools.inputs import Inputs
from paddock.engines.script_tools.library import ScriptTool, ToolLibrary
from paddock.engines.script_tools.prompts import templates
from paddock.engines.script_tools.prompts.detection import PromptMatch, detect
from paddock.model.base import Json, Value
from paddock.model.numbers import dumps
from paddock.model.tool import ToolEnd

Run = Callable[[ScriptTool, Inputs], Awaitable[ToolEnd]]

LIFETIME_S = 300.0
_MAX_PENDING = 1_000
_FAILED = "Validation failed"
_NO_JSON = "Script did not return valid JSON output"


class PromptQuestion(Value):
    """One tool that waits for an answer."""

    tool_id: str
    tool_name: str
    message: str
    resume_command: str
    matched_params: tuple[str, ...]
    extracted_inputs: Inputs


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
        return request(self.questions, self.prompt) if self.questions else None

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
            verdict = judge_confirmation(end.output, success=end.success, error=end.error)
            reply.warnings.extend(verdict.warnings)
            if verdict.approved:
                reply.ends[tool.id] = end
                output = cast("dict[str, Json]", end.output) if isinstance(end.output, dict) else {}
                wanted = output.get("auto_execute")
                if isinstance(wanted, dict):  # a command to execute next, which Paddock does not have
                    other = cast("dict[str, Json]", wanted).get("tool")
                    reply.warnings.append(f"auto_execute of {other!r} was skipped: nothing here executes it")
            else:
                reply.errors[tool.id] = verdict.errors
        elif not match.needs_confirmation or self._approvals.approve(
            prompt, tool.id, match.inputs, tool.script_sha256
        ):
            reply.ends[tool.id] = await self._run(tool, match.inputs)
        else:
            reply.questions.append(
                question(match, name=tool.manifest.name, prompt=prompt, message=rule.confirm_message)
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


@dataclass(slots=True)
class PromptApprovals:
    """Calls that wait for confirmation; each confirmation allows one run. `clock` returns monotonic seconds."""

    clock: Callable[[], float]
    _pending: dict[str, float] = field(default_factory=dict[str, float], init=False)

    def approve(self, prompt: str, tool: str, inputs: Mapping[str, Json], script_sha256: str) -> bool:
        """Return whether this call may run: the same call was asked about within five minutes and has not run since.

        Otherwise it is now pending. The order of keys does not matter, but everything else in the inputs does, and so
        does the script: agreement to one script does not cover another.
        """
        now = self.clock()
        self._pending = {key: since for key, since in self._pending.items() if now - since < LIFETIME_S}
        call = dumps((prompt, tool, inputs, script_sha256), sort_keys=True)
        key = hashlib.sha256(call.encode("utf-8", "surrogatepass")).hexdigest()
        if key in self._pending:
            del self._pending[key]
            return True
        while len(self._pending) >= _MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._pending[key] = now
        return False


def question(match: PromptMatch, *, name: str, prompt: str, message: str | None) -> PromptQuestion:
    """Return the question about a match."""
    return PromptQuestion(
        tool_id=match.tool,
        tool_name=name,
        message=message or f"Execute {name}?",
        resume_command=f">>{prompt}",
        matched_params=match.matched,
        extracted_inputs=match.inputs,
    )


def request(questions: Sequence[PromptQuestion], prompt: str) -> dict[str, Json]:
    """Return the answer to a call whose tools need confirmation."""
    lines = "\n".join(f"- {each.tool_name}: {each.message}" for each in questions)
    tools = [
        {
            "toolId": each.tool_id,
            "toolName": each.tool_name,
            "message": each.message,
            "resumeCommand": each.resume_command,
            "matchedParams": list(each.matched_params),
            "extractedInputs": each.extracted_inputs,
        }
        for each in questions
    ]
    text = (
        "The following tools require confirmation before execution:\n"
        f"{lines}\nTo proceed, re-run the same command: >>{prompt}"
    )
    return {"type": "confirmation_required", "tools": tools, "resumeCommand": f">>{prompt}", "message": text}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of a tool with `autoApproveOnValid` on its own inputs."""

    approved: bool
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def judge_confirmation(output: Json, *, success: bool, error: str | None) -> Verdict:
    """Return whether a run approves itself: its JSON takes precedence over its exit code."""
    if not isinstance(output, dict):
        return Verdict(approved=False, errors=(_NO_JSON if success else error or _FAILED,))
    verdict = cast("dict[str, Json]", output)
    warnings, errors = _list_texts(verdict, "warnings"), _list_texts(verdict, "errors")
    if verdict.get("valid") is True:
        return Verdict(approved=True, warnings=warnings)
    return Verdict(approved=False, warnings=warnings, errors=errors or (_FAILED,))


def _list_texts(output: Mapping[str, Json], name: str) -> tuple[str, ...]:
    found = output.get(name)
    return tuple(map(str, cast("list[Json]", found))) if isinstance(found, list) else ()
