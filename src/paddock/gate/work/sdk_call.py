"""Methods of the SDK that Paddock itself answers, such as `vault.get`."""

from fnmatch import fnmatchcase

from paddock.gate.host_access import RequestHosts
from paddock.gate.watchers import Watchers
from paddock.gate.work.kind import Context, Kind, shorten_name
from paddock.model.base import Json
from paddock.model.canonical import canonical
from paddock.model.errors import SdkError, SdkFailed
from paddock.model.outcome import Decision, ErrorInfo, RawResult, Status
from paddock.model.request import ExecutionRequest, SdkCall
from paddock.policy.decisions.decision import hash_bytes
from paddock.policy.decisions.guests import call_limits, judge_program_or_call
from paddock.policy.decisions.kinds import FindExecutables, Judgement, Reason
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings
from paddock.record.ledger.sink import Field

LONG_CALLS = frozenset({"sequence.run", "temporal.fire"})
"""Methods that run further requests."""


class SdkCalls(Kind[SdkCall]):
    """Runs SDK methods with the services of the session."""

    def label(self, work: SdkCall) -> str:
        return f"paddock.{work.method}"

    def identify(self, work: SdkCall) -> dict[str, Json]:
        return {"method": work.method}

    def matches(self, rule: Rule, request: ExecutionRequest, work: SdkCall) -> bool:
        return fnmatchcase(work.method, rule.method or "*")

    def list_circumstances(
        self, request: ExecutionRequest, work: SdkCall, settings: Settings
    ) -> tuple[object, ...]:
        return (work.method,)

    def judge(
        self, request: ExecutionRequest, work: SdkCall, settings: Settings, catalogue: FindExecutables
    ) -> Judgement:
        key = "long_call_timeout_ms" if work.method in LONG_CALLS else "call_timeout_ms"
        profile = call_limits(settings, getattr(settings.sdk, key))
        terms = judge_program_or_call(request, settings, profile=profile, group=f"sdk.{key}")
        objections: list[Reason] = [*terms.refused]
        calls = terms.grants.calls
        if calls != "run" and not work.reads:
            what = f"{self.label(work)} changes something, but this run may only read ({calls})"
            objections.append(("grants.calls", f"{what}; use a run with calls = 'run'"))
        return Judgement({"limits": terms.limits, "grants": terms.grants}, terms.clamped, objections)

    def describe(self, request: ExecutionRequest, work: SdkCall) -> tuple[str, dict[str, Json]]:
        return f"call paddock.{work.method}", {"arguments": list(work.arguments)}

    def repeatable_name(self, work: SdkCall) -> tuple[str, ...]:
        return "sdk", work.method

    def list_facts(self, work: SdkCall, decision: Decision) -> dict[str, Field]:
        data = canonical(work.arguments)
        return {
            "name": shorten_name(work.method),
            "bytes_in": len(data),
            "arguments_sha256": hash_bytes(data),
        }

    async def check(
        self, context: Context, request: ExecutionRequest, work: SdkCall, decision: Decision
    ) -> Decision | RawResult:
        try:
            context.engines.sdk.check(work)
        except SdkError as error:
            return _make_misuse(error)
        return decision

    async def run(
        self,
        context: Context,
        request: ExecutionRequest,
        work: SdkCall,
        decision: Decision,
        watchers: Watchers,
    ) -> RawResult:
        limit_ms = decision.limits.timeout_ms
        hosts = RequestHosts(context.watch_connections(request))
        try:
            async with context.clock_of(request).limit(limit_ms / 1000):
                value = await context.engines.sdk.call(request, work, hosts.open_for_installation)
        except TimeoutError:
            text = f"paddock.{work.method} did not end within {limit_ms} ms"
            return RawResult(
                status=Status.TIMEOUT, error=ErrorInfo(name="Timeout", message=text, phase="call")
            )
        except SdkError as error:
            return _make_misuse(error)
        except SdkFailed as error:
            fault = ErrorInfo(name=error.name, message=str(error), phase="call")
            return RawResult(status=error.status, error=fault)
        return RawResult(status=Status.OK, value=value, has_value=value is not None)


def _make_misuse(error: SdkError) -> RawResult:
    fault = ErrorInfo(name="TypeError", message=str(error), phase="call")
    return RawResult(status=Status.INVALID, error=fault)
