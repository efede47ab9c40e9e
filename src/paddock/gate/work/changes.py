"""What becomes of change sets: they are accepted into the workspace, discarded, or undone."""

import asyncio
from typing import Any, cast

from paddock.gate.change_sets import print_path
from paddock.gate.watchers import Watchers
from paddock.gate.work.kind import Context, Kind, shorten_names
from paddock.model.base import Json, count
from paddock.model.errors import ChangesError, ChangesNotFound
from paddock.model.limits import Grants, narrower
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.path_privacy import hide_paths
from paddock.model.request import ChangeSetRun, ExecutionRequest
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.kinds import FindExecutables, Judgement, Reason
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

_LABELS = {
    "accept": "accepting changes into the workspace",
    "discard": "discarding changes",
    "undo": "undoing accepted changes",
}
_MERGE_HINT = ", or merge text files with `paddock changes accept --merge`"
_PERSONS = frozenset({"cli", "library", "web"})
"""Surfaces that a person uses. Requests of all others come from agents."""
_NARROWING = frozenset({"workspace", "token"})
"""Sources of rules that cannot turn a question off."""


class ChangeSetRuns(Kind[ChangeSetRun]):
    """Writes to the workspace what a program changed in an overlay, all or nothing."""

    def label(self, work: ChangeSetRun) -> str:
        return _LABELS[work.action]

    def identify(self, work: ChangeSetRun) -> dict[str, Json]:
        return {"action": work.action, "set": work.id, "paths_sha256": _hash(work.paths), "merge": work.merge}

    def matches(self, rule: Rule, request: ExecutionRequest, work: ChangeSetRun) -> bool:
        return rule.changes in {None, "*", work.action}

    def judge(
        self, request: ExecutionRequest, work: ChangeSetRun, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        is_agent = not is_person(request)
        objections: list[Reason] = []
        # A person may accept what programs that only read have changed in overlays.
        calls = narrower(request.calls, settings.grants.calls) if is_agent else request.calls
        if calls != "run":
            what = f"{self.label(work)} changes something, but this run may only read ({calls})"
            objections.append(("grants.calls", f"{what}; use a run with calls = 'run'"))
        questions: list[Reason] = []
        if work.action != "discard" and is_agent and not self._is_allowed_by_owner(request, work, settings):
            questions.append(("changes", f"{self.label(work)} needs a person's approval"))
        return Judgement({"grants": Grants()}, [], objections, questions=tuple(questions))

    def describe(self, request: ExecutionRequest, work: ChangeSetRun) -> tuple[str, dict[str, Json]]:
        given: dict[str, Json] = {"id": work.id}
        if work.paths and not work.shown:  # what is shown has their beginning, and is bounded
            given["paths"] = list[Json](work.paths)
        if work.merge:
            given["merge"] = True
        if work.shown:
            given["difference"] = list[Json](work.shown)
        what = {"accept": "accept changes into the workspace", "discard": "discard changes"}
        return what.get(work.action, "undo accepted changes in the workspace"), given

    def hash_fields(self, work: ChangeSetRun) -> dict[str, Json]:
        # An answer holds for what was shown: what `undo` takes back depends on what is accepted by then.
        return {
            "action": work.action,
            "id": work.id,
            "paths": list[Json](work.paths),
            "merge": work.merge,
            "shown": list[Json](work.shown),
        }

    def list_facts(self, work: ChangeSetRun, decision: Decision) -> dict[str, Field]:
        facts: dict[str, Field] = {"action": work.action, "changes": work.id}
        return facts | ({"merge": True} if work.merge else {})

    def list_end_facts(self, work: ChangeSetRun, result: RawResult) -> dict[str, Field]:
        report = cast("dict[str, Any]", result.value if result.has_value else {})
        if "paths" not in report:  # it was discarded, or failed
            return {}
        paths = cast("list[str]", report["paths"])
        return {
            "path_count": len(paths),
            "left": len(report["left"]),
            "conflicts": len(report["conflicts"]),
            "paths": shorten_names(paths),
        }

    async def add_shown(
        self, context: Context, request: ExecutionRequest, work: ChangeSetRun
    ) -> ExecutionRequest | RawResult:
        """Return the request with the beginning of the difference."""
        try:
            shown = await asyncio.to_thread(context.engines.changes.preview, work, request.workspace)
        except ChangesError as error:
            return _fail(error, request)
        return request.model_copy(update={"work": work.model_copy(update={"shown": shown})})

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: ChangeSetRun,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        try:
            done = await context.engines.changes.carry_out(work, request.workspace, request.id)
        except ChangesError as error:
            return _fail(error, request)
        value = done.describe()
        conflicts = () if done.report is None else done.report.conflicts
        if not conflicts:
            return RawResult(status=Status.OK, value=value, has_value=True)
        first, can_merge = conflicts[0], value.get("can_merge", False)
        more = f" and {len(conflicts) - 1} more" if len(conflicts) > 1 else ""
        error = ErrorInfo(
            name="ChangesConflict",
            message=f"Nothing was written, because of {count(len(conflicts), 'conflict')}: "
            f"{print_path(first.path)}: {first.why}{more}",
            hint="name the other paths" + (_MERGE_HINT if can_merge else ""),
            phase="run",
        )
        return RawResult(status=Status.FAILED, value=value, has_value=True, error=error)

    def _is_allowed_by_owner(self, request: ExecutionRequest, work: ChangeSetRun, settings: Settings) -> bool:
        from paddock.policy.decisions.rules import match_request

        return any(
            rule.effect == "allow"
            and rule.changes is not None
            and rule.origin not in _NARROWING
            and match_request(rule, request, self)
            for rule in settings.policy.rule
        )


def is_person(request: ExecutionRequest) -> bool:
    """Return whether a person sent a request, and not an agent or a program."""
    return request.surface in _PERSONS and request.parent is None


def _fail(error: ChangesError, request: ExecutionRequest) -> RawResult:
    status = Status.INVALID if isinstance(error, ChangesNotFound) else Status.FAILED
    message = str(error) if is_person(request) else hide_paths(str(error), request.workspace)
    return RawResult(status=status, error=ErrorInfo(name=type(error).__name__, message=message, phase="run"))


def _hash(paths: tuple[str, ...]) -> str:
    return hash_bytes("\0".join(paths).encode("utf-8", "surrogatepass"))
