"""Script tools: the id, the inputs, and the needs that `tool.yaml` declares."""

from paddock.gate.watchers import Watchers
from paddock.gate.work.ends import end_unless_stopped
from paddock.gate.work.kind import Context, Kind, list_host_facts, name_network, shorten_name
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.outcome import Decision, RawResult
from paddock.model.request import ExecutionRequest, ToolRun
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.kinds import FindExecutables, Judgement
from paddock.policy.decisions.programs import check_read_only
from paddock.policy.decisions.script_tools import judge_tool, match_tool
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field


class ScriptToolRuns(Kind[ToolRun]):
    """Runs script tools in the process sandbox."""

    def label(self, work: ToolRun) -> str:
        return f"tool {work.tool}"

    def identify(self, work: ToolRun) -> dict[str, Json]:
        return {"tool": work.tool, "prompt": work.prompt, "script_sha256": work.script_sha256}

    def matches(self, rule: Rule, request: ExecutionRequest, work: ToolRun) -> bool:
        return match_tool(rule, work)

    def judge(
        self, request: ExecutionRequest, work: ToolRun, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        terms, notes, objections = judge_tool(work, request.limits, settings)
        return Judgement({"tool": terms}, notes, [*objections, *check_read_only(request, work, settings)])

    def describe(self, request: ExecutionRequest, work: ToolRun) -> tuple[str, dict[str, Json]]:
        terms = f"workspace {work.access}, network {name_network(work)}"
        return f"run the script tool {work.tool} ({terms})", {"inputs": work.inputs, "env": work.env}

    def repeatable_name(self, work: ToolRun) -> tuple[str, ...]:
        return "tool", work.prompt, work.tool, work.script_sha256

    def list_facts(self, work: ToolRun, decision: Decision) -> dict[str, Field]:
        data = canonical(work.inputs)
        return {
            "name": shorten_name(work.tool),
            "prompt": shorten_name(work.prompt),
            "bytes_in": len(data),
            "arguments_sha256": hash_bytes(data),
            "script_sha256": work.script_sha256,
            "access": work.access,
            "network": work.network,
            **list_host_facts(work),
        }

    async def check(
        self, context: Context, request: ExecutionRequest, work: ToolRun, decision: Decision
    ) -> Decision | RawResult:
        return context.engines.scripts.check_tool(work) or decision

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: ToolRun,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        watch = context.watch_connections(request)
        running = context.engines.scripts.run_tool(request, work, decision, watch, watchers)
        return await end_unless_stopped(running, watchers.stop)
