"""Decisions: limits, grants, rules, and the hash of it all."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs.recipe import executables
from paddock.model.approval import Answer, Verdict
from paddock.model.limits import Grants, GuestLimits, LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.request import Caller, ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy.decisions.guests import JIT_REFUSED
from paddock.policy.settings.profiles import LimitSettings
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import GrantSettings, Settings

from .deciding import apply_answer, decide

CLAMP = Settings(limits=LimitSettings(timeout_policy="clamp"))


def program(source: str = "1", **fields: object) -> ExecutionRequest:
    return ExecutionRequest(
        id="01", workspace=Path("/w"), work=GuestRun(source=source, profile="script"), **fields
    )


def call(server: str = "git", tool: str = "log", **fields: object) -> ExecutionRequest:
    return ExecutionRequest(
        id="01", workspace=Path("/w"), work=ServerCall(server=server, tool=tool), **fields
    )


def sdk(method: str) -> ExecutionRequest:
    return ExecutionRequest(id="01", workspace=Path("/w"), work=SdkCall(method=method))


def tool(name: str) -> ExecutionRequest:
    return ExecutionRequest(id="01", workspace=Path("/w"), work=ToolRun(tool=name))


def ruled(*rules: Rule) -> Settings:
    return Settings(policy=PolicySettings(rule=rules))


def without_hash(decision: Decision) -> Decision:
    return decision.model_copy(update={"audit_hash": ""})


def test_a_plain_request_gets_the_limits_of_its_profile() -> None:
    assert without_hash(decide(program(), Settings())) == Decision(
        allowed=True,
        reasons=(),
        limits=GuestLimits(timeout_ms=300_000),
        grants=Grants(jit=False, servers=("*",)),
        rule="default",
    )


def test_m14_x18_x19_code_size_is_counted_in_bytes() -> None:
    assert decide(program("x" * 51_200), Settings()).allowed
    assert decide(program("é" * 25_600), Settings()).allowed
    for source in ("x" * 51_201, "é" * 25_600 + "x"):
        decision = decide(program(source), Settings())
        assert (decision.allowed, decision.rule) == (False, "code-size")
        assert decision.reasons == ("Code size exceeds limit (51200 bytes)",)


def test_a_limit_over_the_ceiling_is_denied_by_name() -> None:
    decision = decide(program(limits=LimitOverrides(sleep_ms=30_001, memory_bytes=1)), Settings())
    assert (decision.allowed, decision.rule) == (False, "limits.sleep_ms")
    assert decision.reasons == (
        "sleep_ms = 30001 exceeds the maximum of 30000 (limits.script.sleep_ms); "
        "ask for less, or raise the maximum in paddock.toml",
    )


def test_a_limit_over_the_ceiling_is_clamped_where_that_is_the_policy() -> None:
    decision = decide(program(limits=LimitOverrides(timeout_ms=90_000_000)), CLAMP)
    assert (decision.allowed, decision.rule, decision.limits.timeout_ms) == (
        True,
        "limits.timeout_ms",
        86_400_000,
    )
    assert decision.reasons == (
        "timeout_ms = 90000000 exceeds the maximum of 86400000 (limits.script.max_timeout_ms); "
        "the maximum holds instead",
    )


def test_a_request_may_ask_for_more_wall_time_than_the_default() -> None:
    assert decide(program(limits=LimitOverrides(timeout_ms=600_000)), Settings()).limits.timeout_ms == 600_000


def test_a_low_ceiling_holds_for_who_asks_for_nothing() -> None:
    limits = LimitSettings.model_validate({"script": {"max_timeout_ms": 10}})
    assert decide(program(), Settings(limits=limits)).limits.timeout_ms == 10


def test_jit_is_denied_unless_granted() -> None:
    decision = decide(program(jit=True), Settings())
    assert (decision.allowed, decision.reasons, decision.grants.jit) == (False, (JIT_REFUSED,), False)
    granting = Settings(grants=GrantSettings(jit=True))
    assert decide(program(jit=True), granting).grants.jit
    assert not decide(program(), granting).grants.jit


def test_a_server_that_is_not_granted_is_denied() -> None:
    decision = decide(call(), Settings(grants=GrantSettings(servers=("time",))))
    assert (decision.allowed, decision.rule) == (False, "grants.servers")
    assert decision.reasons == (
        "server git is not granted (granted: time); name it in `servers` under [grants] in paddock.toml",
    )


def test_the_wall_time_of_a_call_is_that_of_servers() -> None:
    assert decide(call(), Settings()).limits.timeout_ms == 600_000
    decision = decide(call(limits=LimitOverrides(timeout_ms=600_001)), Settings())
    assert decision.reasons == (
        "timeout_ms = 600001 exceeds the maximum of 600000 (servers.call_timeout_ms); "
        "ask for less, or raise the maximum in paddock.toml",
    )


@pytest.mark.parametrize(
    ("rules", "request_", "reasons"),
    [
        ((Rule(effect="deny", tool="git/l*", reason="no logs"),), call(), ("no logs",)),
        (
            (Rule(effect="allow", server="git"), Rule(effect="deny", tool="*/log")),
            call(),
            ("git/log is denied by policy rule 2",),
        ),
        ((Rule(effect="allow", tool="git/log"),), call(), ()),
        (
            (Rule(effect="allow", tool="git/log"),),
            call("time"),
            ("time/log is not allowed by any of the policy rules",),
        ),
        ((Rule(effect="allow", tool="git/log"),), program(), ()),
        ((Rule(effect="deny", kind="guest"),), program(), ("running a program is denied by policy rule 1",)),
        ((Rule(effect="deny", kind="guest"),), call(), ()),
        ((Rule(effect="deny", tool="a*/b"),), call("a/c", "b"), ("a/c/b is denied by policy rule 1",)),
        ((Rule(effect="deny", tool="git/b"),), call("git", "a/b"), ()),
        ((Rule(effect="deny", tool="ab/c"),), call("a", "/c"), ()),
        ((Rule(effect="deny", server="time"),), call(), ()),
        ((Rule(effect="deny", server="gi?"),), call(), ("git/log is denied by policy rule 1",)),
        ((Rule(effect="deny", server="git", tool="*/push"),), call(), ()),
        (
            (Rule(effect="deny", workspace="/v"), Rule(effect="deny", workspace="/?")),
            call(),
            ("git/log is denied by policy rule 2",),
        ),
        ((Rule(effect="deny", jit=True),), program(), ()),
        ((Rule(effect="deny", method="vault.*"),), sdk("cir.query"), ()),
        (
            (Rule(effect="deny", method="vault.*"),),
            sdk("vault.get"),
            ("paddock.vault.get is denied by policy rule 1",),
        ),
        (
            (Rule(effect="deny", kind="sdk"),),
            sdk("vault.get"),
            ("paddock.vault.get is denied by policy rule 1",),
        ),
        ((Rule(effect="deny", script="c*"),), tool("count"), ("tool count is denied by policy rule 1",)),
        ((Rule(effect="deny", script="c"),), tool("count"), ()),
        (
            (Rule(effect="deny", tool="io.github.acme/git/lo*"),),
            call("io.github.acme/git"),
            ("io.github.acme/git/log is denied by policy rule 1",),
        ),
        (
            (Rule(effect="allow", tool="io.github.acme/git/*"),),
            call("io.github.acme/hg"),
            ("io.github.acme/hg/log is not allowed by any of the policy rules",),
        ),
        (
            (
                Rule(effect="allow", tool="git/*", origin="user"),
                Rule(effect="allow", tool="time/*", origin="workspace"),
            ),
            call(),
            ("git/log is not allowed by any of the workspace rules",),
        ),
    ],
)
def test_rules(rules: tuple[Rule, ...], request_: ExecutionRequest, reasons: tuple[str, ...]) -> None:
    decision = decide(request_, ruled(*rules))
    assert (decision.allowed, decision.reasons) == (not reasons, reasons)


def test_the_audit_hash_knows_identity_and_decision_but_no_payload() -> None:
    base = decide(program(), Settings()).audit_hash
    assert len(base) == 64
    assert decide(program(), Settings()).audit_hash == base
    payload = GuestRun(source="1", profile="script", input={"a": 1}, vars={"K": "v"})
    assert decide(program().model_copy(update={"work": payload}), Settings()).audit_hash == base
    assert decide(program("2"), Settings()).audit_hash != base
    assert decide(program(actor="other"), Settings()).audit_hash != base
    assert (
        decide(program(), CLAMP.model_copy(update={"grants": GrantSettings(servers=())})).audit_hash != base
    )
    assert decide(call(), Settings()).audit_hash != decide(call(tool="x"), Settings()).audit_hash


RULES = st.builds(
    Rule,
    effect=st.sampled_from(["allow", "deny"]),
    tool=st.sampled_from(["*/*", "git/*", "*/log", "x/y"]),
    origin=st.sampled_from(["system", "user"]),
)


@given(st.lists(RULES, max_size=5), st.lists(RULES, max_size=3))
def test_rules_of_a_further_file_never_allow_more(some: list[Rule], more: list[Rule]) -> None:
    ordered = sorted(some, key=lambda rule: rule.origin)
    added = [rule.model_copy(update={"origin": "workspace"}) for rule in more]
    if decide(call(), ruled(*ordered, *added)).allowed:
        assert decide(call(), ruled(*ordered)).allowed


@given(st.text(), st.builds(LimitOverrides, timeout_ms=st.none() | st.integers(1, 10**9)))
def test_an_effective_limit_is_never_over_the_ceiling(source: str, asked: LimitOverrides) -> None:
    for settings in (Settings(), CLAMP):
        assert decide(program(source, limits=asked), settings).limits.timeout_ms <= 86_400_000


def origin(effect: str, origin: str, **fields: str) -> Rule:
    return Rule.model_validate({"effect": effect, "origin": origin, "tool": "git/log", **fields})


@pytest.mark.parametrize(
    ("user", "workspace", "allowed", "asks"),
    [
        ("allow", "allow", True, 0),
        ("allow", "ask", False, 1),
        ("ask", "allow", False, 1),
        ("ask", "ask", False, 2),
        ("ask", "deny", False, 0),
        ("deny", "ask", False, 0),
        ("deny", "allow", False, 0),
    ],
)
def test_a_workspace_narrows_to_ask_and_to_deny_and_never_back(
    user: str, workspace: str, *, allowed: bool, asks: int
) -> None:
    decision = decide(call(), ruled(origin(user, "user"), origin(workspace, "workspace")))
    assert (decision.allowed, len(decision.asks)) == (allowed, asks)


def test_what_is_asked_about_counts_as_named_by_its_file() -> None:
    rules = (Rule(effect="allow", tool="git/log"), Rule(effect="ask", tool="git/push", reason="sure?"))
    settings = ruled(*rules)
    assert decide(call(), settings).allowed
    asking = decide(call(tool="push"), settings)
    assert (asking.allowed, asking.asks, asking.reasons, asking.rule) == (
        False,
        ("sure?",),
        ("sure?",),
        "policy rule 2",
    )
    assert decide(call(tool="reset"), settings).rule == "policy rules"


def test_each_file_asks_once_by_its_first_rule() -> None:
    rules = [Rule(effect="ask", server="git", reason=reason, origin="user") for reason in ("one", "two")]
    more = Rule(effect="ask", tool="git/*", origin="workspace")
    told = ("one", "git/log needs a person's approval, says workspace rule 1")
    assert decide(call(), ruled(*rules, more)).asks == told


def test_a_method_is_asked_about_once() -> None:
    found = decide(
        asked(SdkCall(method="vault.get"), "vault.get"), ruled(Rule(effect="ask", method="vault.*"))
    )
    assert found.asks == ("paddock.vault.get needs a person's approval, says policy rule 1",)


def test_a_rule_about_the_compiler_of_v8_concerns_who_asks_for_it() -> None:
    rule = Rule(effect="ask", jit=True)
    settings = Settings(grants=GrantSettings(jit=True), policy=PolicySettings(rule=(rule,)))
    assert decide(program(jit=True), settings).asks == (
        "running a program needs a person's approval, says policy rule 1",
    )
    assert decide(program(), settings).allowed


def test_what_is_refused_asks_nobody() -> None:
    granting = Settings(
        grants=GrantSettings(servers=("time",)), policy=PolicySettings(rule=(Rule(effect="ask", server="*"),))
    )
    decision = decide(call(), granting)
    assert (decision.allowed, decision.asks, decision.rule) == (False, (), "grants.servers")


def test_only_yes_turns_a_question_into_a_decision_that_allows() -> None:
    request = call()
    asking = decide(request, ruled(Rule(effect="ask", server="git")))
    verdicts: dict[Verdict, bool] = {
        "once": True,
        "run": True,
        "denied": False,
        "expired": False,
        "unasked": False,
    }
    for verdict, allowed in verdicts.items():
        decision = apply_answer(request, asking, Answer(verdict=verdict, told="so"))
        assert (decision.allowed, decision.asks, decision.answer) == (allowed, (), verdict)
        assert decision.reasons == ("so",)
        assert decision.audit_hash != asking.audit_hash


PYTHON = RuntimeRun(runtime="python", code="1")


def asked(work: GuestRun | RuntimeRun | ToolRun | SdkCall, method: str) -> ExecutionRequest:
    """Return what a program asks for through its SDK."""
    return ExecutionRequest(
        id="01", workspace=Path("/w"), work=work, caller=Caller(method=method, profile="script")
    )


@pytest.mark.parametrize(
    ("rules", "request_", "reasons"),
    [
        ((Rule(effect="deny", method="exec"),), asked(PYTHON, "exec"), ("paddock.exec is denied by policy rule 1",)),
        ((Rule(effect="deny", kind="sdk", reason="none"),), asked(ToolRun(tool="count"), "tool"), ("none",)),
        ((Rule(effect="deny", method="c*"),), asked(GuestRun(source="1"), "compute"), ("paddock.compute is denied by policy rule 1",)),
        ((Rule(effect="deny", method="exec"),), asked(GuestRun(source="1"), "script.run"), ()),
        ((Rule(effect="deny", method="exec"),), program(), ()),
        ((Rule(effect="deny", method="exec"),), asked(SdkCall(method="vault.get"), "vault.get"), ()),
        ((Rule(effect="allow", method="exec"),), asked(PYTHON, "exec"), ()),
        ((Rule(effect="deny", method="sequence.run"),), asked(SdkCall(method="sequence.run"), "temporal.fire"), ("paddock.sequence.run is denied by policy rule 1",)),
        ((Rule(effect="allow", method="vault.*"),), asked(PYTHON, "exec"), ("paddock.exec is not allowed by any of the policy rules",)),
        (
            (Rule(effect="allow", method="exec"), Rule(effect="allow", runtime="node")),
            asked(PYTHON, "exec"),
            ("running a python program is not allowed by any of the policy rules",),
        ),
        ((Rule(effect="ask", method="exec"),), asked(PYTHON, "exec"), ("paddock.exec needs a person's approval, says policy rule 1",)),
        ((Rule(effect="deny", workspace="/w"),), asked(PYTHON, "exec"), ("running a python program is denied by policy rule 1",)),
        ((Rule(effect="deny", kind="sdk", workspace="/v"),), asked(PYTHON, "exec"), ()),
    ],
)  # fmt: skip
def test_rules_about_methods_hold_for_those_that_run_other_work(
    rules: tuple[Rule, ...], request_: ExecutionRequest, reasons: tuple[str, ...]
) -> None:
    decision = decide(request_, ruled(*rules), executables)
    assert (decision.allowed, decision.reasons) == (not reasons, reasons)
