"""Ask before a tool runs automatically; repeating the same call within five minutes confirms it."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from paddock.engines.script_tools.inputs import Inputs
from paddock.engines.script_tools.prompts.detection import PromptMatch
from paddock.model.base import Json, Value
from paddock.model.numbers import dumps

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


@dataclass(slots=True)
class PromptApprovals:
    """Calls that wait for confirmation; each confirmation allows one run. `clock` returns monotonic seconds."""

    clock: Callable[[], float]
    _pending: dict[str, float]

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self._pending = {}

    def approve(self, prompt: str, tool: str, inputs: Mapping[str, Json], script_sha256: str) -> bool:
        """Return whether this call may run: the same call was asked about within five minutes and has not run since.

        Otherwise it is now pending. The order of keys does not matter, but everything else in the inputs does, and so
        does the script: agreement to one script does not cover another.
        """
        now = self.clock()
        self._pending = {key: since for key, since in self._pending.items() if now - since < LIFETIME_S}
        key = _call_key(prompt, tool, inputs, script_sha256)
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


def _call_key(*call: str | Mapping[str, Json]) -> str:
    text = dumps(call, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
