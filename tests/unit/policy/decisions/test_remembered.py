"""What `Policy` remembers never shows: each request is decided as if it were the first."""

from itertools import product
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from paddock.engines.programs.recipe import executables
from paddock.gate.work import KINDS
from paddock.model.limits import LimitOverrides
from paddock.model.request import Caller, ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall
from paddock.policy.decisions.decision import Policy
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import GrantSettings, PolicySettings, Settings

from .deciding import decide

SETTINGS = Settings(
    grants=GrantSettings(servers=("git",)),
    policy=PolicySettings(
        rule=(
            Rule(effect="deny", workspace="/secret", kind="guest"),
            Rule(effect="deny", tool="git/push"),
            Rule(effect="deny", kind="sdk", method="vault.set"),
            Rule(effect="ask", tool="git/log", workspace="/w"),
            Rule(effect="ask", runtime="node", workspace="/w"),
            Rule(effect="deny", executable="python3", access="read-only"),
        )
    ),
)
WORKS = (
    *(
        GuestRun(source=source, profile=profile)
        for source, profile in product(("1", "x" * 51_201, "é" * 25_601), ("script", "execute", "compute"))
    ),
    *(ServerCall(server=server, tool="push") for server in ("git", "mail")),
    *(ServerCall(server="git", tool="log", read_only=hint) for hint in (None, False, True)),
    *(SdkCall(method=method) for method in ("vault.get", "vault.set", "sequence.run")),
    *(
        RuntimeRun(**{"runtime": "python", "code": "1", name: value})
        for name, value in (
            ("code", "2"),
            ("runtime", "node"),
            ("executable", "python3"),
            ("executable", "/x/python3"),
            ("cwd", "inside"),
            ("cwd", "../outside"),
            ("access", "workspace-write"),
            ("access", "none"),
            ("network", "full"),
            ("args", ("1",)),
            ("stdin", b"1"),
            ("file", "one.py"),
        )
    ),
)
VARIED: dict[str, tuple[Any, ...]] = {
    "workspace": (Path("/w"), Path("/secret")),
    "calls": ("run", "read_only", "dry_run"),
    "jit": (False, True),
    "depth": (0, 8),
    "caller": (None, Caller(method="vault.get", profile="script"), Caller(method="exec", profile="compute")),
    "limits": (
        LimitOverrides(),
        LimitOverrides(timeout_ms=None),
        LimitOverrides(timeout_ms=1000),
        LimitOverrides(sleep_ms=9),
        LimitOverrides(sleep_ms=10**9),
        LimitOverrides(code_bytes=1),
        LimitOverrides(timeout_ms=600_000),
        LimitOverrides(memory_bytes=1 << 40),
    ),
    "actor": ("local", "somebody"),
}

requests = st.builds(
    ExecutionRequest,
    id=st.sampled_from(("01", "02")),
    work=st.sampled_from(WORKS),
    **{name: st.sampled_from(values) for name, values in VARIED.items()},
)


@given(st.lists(requests, max_size=30))
def test_a_request_is_decided_as_if_it_were_the_first(sequence: list[ExecutionRequest]) -> None:
    policy = Policy(SETTINGS, KINDS, executables)
    for request in (*sequence, *sequence):
        assert policy.decide(request) == decide(request, SETTINGS, executables)


def test_every_difference_between_two_requests_is_seen() -> None:
    policy = Policy(SETTINGS, KINDS, executables)
    for work in WORKS:
        for name, values in VARIED.items():
            for value in values:
                fields = {"id": "01", "workspace": Path("/w"), "work": work, name: value}
                request = ExecutionRequest(**fields)
                assert policy.decide(request) == decide(request, SETTINGS, executables)


def test_a_program_that_is_too_large_is_none_that_was_allowed_before() -> None:
    policy = Policy(Settings(), KINDS)

    def allowed(source: str, **limits: int) -> bool:
        work = GuestRun(source=source)
        request = ExecutionRequest(workspace=Path("/w"), work=work, limits=LimitOverrides(**limits))
        return policy.decide(request).allowed

    assert [allowed(text) for text in ("1", "x" * 262_144, "\U0001f600" * 65_536, "é" * 131_072)] == [
        True
    ] * 4
    assert [allowed(text) for text in ("x" * 262_145, "\U0001f600" * 65_537, "é" * 131_073)] == [False] * 3
    assert allowed("1", code_bytes=5)
    assert not allowed("123456", code_bytes=5)
    assert not allowed("é" * 3, code_bytes=5)
