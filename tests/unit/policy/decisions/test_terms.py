"""What is granted once a request may run: each limit and each grant is that of the settings, or less."""

from pathlib import Path

import pytest

from paddock.engines.programs.recipe import executables
from paddock.model.limits import GuestLimits, LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.program import ProgramGrants, ProgramLimits, ProgramTerms
from paddock.model.request import Caller, ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.model.tool import ToolTerms
from paddock.policy.decisions.decision import MAX_NESTING
from paddock.policy.settings.profiles import LimitSettings
from paddock.policy.settings.schema import (
    GrantSettings,
    RuntimeSettings,
    SdkSettings,
    ServerSettings,
    Settings,
    ToolSettings,
)

from .deciding import decide, refuse_allowed

Work = GuestRun | RuntimeRun | SdkCall | ServerCall | ToolRun

RUNTIMES = RuntimeSettings(
    timeout_ms=700,
    memory_bytes=1001,
    stdout_bytes=2001,
    stderr_bytes=3001,
    environment=("HOST",),
    access="workspace-write",
    network="full",
)
TOOLS = ToolSettings(
    timeout_ms=50,
    max_timeout_ms=700,
    memory_bytes=1001,
    output_bytes=2001,
    environment=("HOST",),
    access="workspace-write",
    network="full",
)


def judged(work: Work, settings: Settings, **fields: object) -> Decision:
    return decide(ExecutionRequest(id="01", workspace=Path("/w"), work=work, **fields), settings, executables)


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ({}, {"timeout_ms": 700, "memory_bytes": 1001}),
        ({"timeout_ms": 700, "memory_bytes": 1001}, {"timeout_ms": 700, "memory_bytes": 1001}),
        ({"timeout_ms": 200, "memory_bytes": 100}, {"timeout_ms": 200, "memory_bytes": 100}),
    ],
)
def test_a_program_gets_what_the_settings_say_or_less(asked: dict[str, int], limits: dict[str, int]) -> None:
    work = RuntimeRun(runtime="ruby", code="1", access="workspace-write", network="full")
    found = judged(work, Settings(runtimes=RUNTIMES), limits=LimitOverrides(**asked))
    assert (found.allowed, found.reasons) == (True, ())
    assert found.program == ProgramTerms(
        limits=ProgramLimits(stdout_bytes=2001, stderr_bytes=3001, **limits),
        grants=ProgramGrants(
            access="workspace-write", network="full", executables=("ruby",), environment=("HOST",)
        ),
    )


def test_a_program_that_asks_for_more_gets_the_maximum_or_nothing() -> None:
    work, asked = RuntimeRun(runtime="ruby", code="1"), LimitOverrides(timeout_ms=701, memory_bytes=1002)
    told = (
        "Requested timeout (701ms) exceeds maximum (700ms)",
        "Requested memory (1002 bytes) exceeds maximum (1001 bytes)",
    )
    found = judged(work, Settings(runtimes=RUNTIMES), limits=asked)
    assert (found.allowed, found.reasons) == (False, told)
    clamping = Settings(runtimes=RUNTIMES, limits=LimitSettings(timeout_policy="clamp"))
    found = judged(work, clamping, limits=asked)
    assert (found.allowed, found.reasons) == (
        True,
        tuple(f"{text}; the maximum holds instead" for text in told),
    )
    assert found.program is not None
    assert (found.program.limits.timeout_ms, found.program.limits.memory_bytes) == (700, 1001)


@pytest.mark.parametrize(
    ("asked", "timeout_ms", "limits"),
    [
        ({}, None, (50, 1001, 2001)),
        ({}, 60.4, (60, 1001, 2001)),
        ({}, 0.2, (1, 1001, 2001)),
        ({}, 700, (700, 1001, 2001)),
        ({"timeout_ms": 10, "memory_bytes": 20, "output_bytes": 30}, 60, (10, 20, 30)),
        ({"memory_bytes": 1002, "output_bytes": 2002}, None, (50, 1001, 2001)),
    ],
)
def test_a_script_tool_gets_what_the_settings_say_or_less(
    asked: dict[str, int], timeout_ms: float | None, limits: tuple[int, int, int]
) -> None:
    work = ToolRun(tool="count", timeout_ms=timeout_ms, access="workspace-write", network="full")
    found = judged(work, Settings(tools=TOOLS), limits=LimitOverrides(**asked))
    assert (found.allowed, found.reasons, found.rule) == (True, (), "default")
    timeout_ms, memory_bytes, output_bytes = limits
    assert found.tool == ToolTerms(
        timeout_ms=timeout_ms,
        memory_bytes=memory_bytes,
        output_bytes=output_bytes,
        access="workspace-write",
        network="full",
        environment=("HOST",),
    )


def test_p29_a_script_tool_that_wants_more_time_gets_the_maximum_and_is_told() -> None:
    found = judged(ToolRun(tool="count", timeout_ms=701), Settings(tools=TOOLS))
    assert found.tool is not None
    assert (found.allowed, found.rule, found.tool.timeout_ms) == (True, "tools.max_timeout_ms", 700)
    assert found.reasons == ("the timeout of 701 ms is over tools.max_timeout_ms, which holds instead",)


def test_a_script_tool_is_refused_what_it_declares_beyond_the_grants() -> None:
    work = ToolRun(tool="count", access="workspace-write", network="full")
    where = "under [tools] in the paddock.toml of the user or the system"
    found = judged(work, Settings())
    assert (found.allowed, found.rule, found.reasons) == (
        False,
        "tools.access",
        (
            "tool count declares workspace: workspace-write, but at most read-only is allowed; "
            f"set `access` {where}",
            f"tool count declares network: full, but loopback is allowed; set `network` {where}",
        ),
    )
    off = judged(work, Settings(tools=ToolSettings(enabled=False)))
    assert (off.allowed, off.rule, off.reasons) == (
        False,
        "tools.enabled",
        ("Script tools are disabled in configuration (tools.enabled = false)",),
    )


@pytest.mark.parametrize("calls", ["read_only", "dry_run"])
def test_a_script_tool_that_may_change_something_is_refused_to_who_may_only_read(calls: str) -> None:
    told = (f"this run may only read ({calls}); ask for read-only access and no network",)
    for fields in ({"access": "workspace-write"}, {"network": "full"}):
        work = ToolRun.model_validate({"tool": "count", **fields})
        assert judged(work, Settings(tools=TOOLS), calls=calls).reasons == told
        granting = Settings(tools=TOOLS, grants=GrantSettings.model_validate({"calls": calls}))
        assert judged(work, granting).reasons == told
    assert judged(ToolRun(tool="count", access="read-only"), Settings(), calls=calls).allowed


@pytest.mark.parametrize(
    ("method", "timeout_ms"), [("vault.get", 11), ("sequence.run", 22), ("temporal.fire", 22)]
)
def test_a_method_may_take_as_long_as_the_settings_say(method: str, timeout_ms: int) -> None:
    settings = Settings(sdk=SdkSettings(call_timeout_ms=11, long_call_timeout_ms=22))
    work = SdkCall(method=method)
    assert judged(work, settings).limits.timeout_ms == timeout_ms
    assert judged(work, settings, limits=LimitOverrides(timeout_ms=timeout_ms)).allowed
    key = "sdk.call_timeout_ms" if timeout_ms == 11 else "sdk.long_call_timeout_ms"
    assert judged(work, settings, limits=LimitOverrides(timeout_ms=23)).reasons == (
        f"timeout_ms = 23 exceeds the maximum of {timeout_ms} ({key}); ask for less, or raise the maximum in paddock.toml",
    )


def test_a_call_of_a_server_may_take_as_long_as_the_settings_say() -> None:
    settings = Settings(servers=ServerSettings(call_timeout_ms=900_000))
    work = ServerCall(server="git", tool="log")
    assert judged(work, settings).limits.timeout_ms == 900_000
    assert judged(work, settings, limits=LimitOverrides(timeout_ms=900_000)).allowed


def test_a_computation_may_emit_up_to_the_ceiling_and_calls_nobody() -> None:
    limits = LimitSettings.model_validate(
        {"compute": {"output_bytes": 10, "max_output_bytes": 20, "timeout_ms": 5, "max_timeout_ms": 7}}
    )
    work = GuestRun(source="1", profile="compute")
    found = judged(work, Settings(limits=limits))
    assert (found.limits.output_bytes, found.limits.timeout_ms, found.grants.servers) == (10, 5, ())
    found = judged(work, Settings(limits=limits), limits=LimitOverrides(output_bytes=20, timeout_ms=7))
    assert (found.allowed, found.limits.output_bytes, found.limits.timeout_ms) == (True, 20, 7)
    found = judged(work, Settings(limits=limits), limits=LimitOverrides(output_bytes=21))
    assert found.reasons == (
        "output_bytes = 21 exceeds the maximum of 20 (limits.compute.max_output_bytes); "
        "ask for less, or raise the maximum in paddock.toml",
    )


@pytest.mark.parametrize(
    ("asked", "granted", "left"),
    [
        ("run", "run", "run"),
        ("run", "read_only", "read_only"),
        ("read_only", "dry_run", "dry_run"),
        ("dry_run", "read_only", "dry_run"),
    ],
)
def test_calls_are_the_fewer_of_those_asked_for_and_those_granted(
    asked: str, granted: str, left: str
) -> None:
    settings = Settings(grants=GrantSettings.model_validate({"calls": granted, "servers": ("git",)}))
    found = judged(GuestRun(source="1"), settings, calls=asked)
    assert (found.grants.calls, found.grants.servers) == (left, ("git",))
    assert judged(ServerCall(server="git", tool="log"), settings, calls=asked).grants.calls == left


def test_a_limit_at_its_ceiling_is_granted_as_it_is() -> None:
    found = judged(GuestRun(source="1"), Settings(), limits=LimitOverrides(sleep_ms=30_000))
    assert (found.allowed, found.reasons, found.limits) == (True, (), GuestLimits(code_bytes=262_144))


def test_what_is_nested_as_deep_as_may_be_runs_and_nothing_deeper() -> None:
    assert judged(GuestRun(source="1"), Settings(), depth=MAX_NESTING).allowed
    found = judged(GuestRun(source="1"), Settings(), depth=8)
    assert (found.allowed, found.rule, found.reasons) == (
        False,
        "depth",
        ("running a program is nested more than 7 deep; a script or a sequence that runs itself never ends",),
    )


@pytest.mark.parametrize(("profile", "granted"), [("script", "vault.*"), ("execute", "vault.get")])
def test_a_method_is_granted_to_a_profile_by_name(profile: str, granted: str) -> None:
    sdk = SdkSettings.model_validate({"script": (), "execute": (), profile: ("health.check", granted)})

    def found(method: str, whose: str) -> Decision:
        caller = Caller.model_validate({"method": method, "profile": whose})
        return judged(SdkCall(method=method), Settings(sdk=sdk), caller=caller)

    assert found("vault.get", profile).allowed
    for method, whose in (
        ("notify.send", profile),
        ("vault.get", {"script": "execute", "execute": "script"}[profile]),
        ("vault.get", "compute"),
    ):
        refused = found(method, whose)
        assert (refused.allowed, refused.rule, refused.reasons) == (
            False,
            f"sdk.{whose}",
            (
                f"paddock.{method} is not granted to programs of the profile {whose}; "
                f"name it in `{whose}` under [sdk] in paddock.toml",
            ),
        )


def test_what_the_moment_refuses_is_refused_by_its_rule() -> None:
    request = ExecutionRequest(workspace=Path("/w"), work=RuntimeRun(runtime="ruby", code="1"))
    allowed = decide(request, Settings(runtimes=RUNTIMES), executables)
    refused = refuse_allowed(request, allowed, "runtimes.max_jobs", "too many")
    changes = {"allowed": False, "rule": "runtimes.max_jobs", "reasons": ("too many",)}
    assert refused == allowed.model_copy(update={**changes, "audit_hash": refused.audit_hash})
    assert refused.audit_hash != allowed.audit_hash


@pytest.mark.parametrize(
    ("work", "others"),
    [
        (
            ServerCall(server="a", tool="b"),
            [ServerCall(server="c", tool="b"), ServerCall(server="a", tool="c")],
        ),
        (SdkCall(method="a"), [SdkCall(method="b")]),
        (
            ToolRun(tool="a", prompt="b", script_sha256="c"),
            [
                ToolRun(tool="x", prompt="b", script_sha256="c"),
                ToolRun(tool="a", prompt="x", script_sha256="c"),
                ToolRun(tool="a", prompt="b", script_sha256="x"),
            ],
        ),
        (
            GuestRun(source="1", name="a", profile="script"),
            [
                GuestRun(source="1", name="b", profile="script"),
                GuestRun(source="2", name="a", profile="script"),
                GuestRun(source="1", name="a", profile="execute"),
            ],
        ),
    ],
)
def test_the_audit_hash_tells_requests_apart(work: Work, others: list[Work]) -> None:
    hashes = [judged(each, Settings()).audit_hash for each in (work, *others)]
    hashes += [judged(work, Settings(), **{name: "x"}).audit_hash for name in ("actor", "surface", "parent")]
    assert len({*hashes}) == len(hashes)
