"""What policy says about programs in language runtimes: spec 5.2 to 5.4."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.engines.programs.recipe import executables as known
from paddock.engines.programs.recipe import recipes
from paddock.model.limits import LimitOverrides
from paddock.model.outcome import Decision
from paddock.model.program import (
    RUNTIMES,
    OutputOptions,
    ProgramGrants,
    ProgramLimits,
    ProgramTerms,
    file_name,
)
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.settings.profiles import LimitSettings
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import RuntimeSettings, Settings

from .deciding import decide, refuse_allowed

WORKSPACE = Path("/w")


def request(runtime: str = "node", limits: LimitOverrides | None = None, **work: object) -> ExecutionRequest:
    given = {"code": "1", **work}
    return ExecutionRequest(
        workspace=WORKSPACE,
        work=RuntimeRun(runtime=runtime, **given),
        limits=limits or LimitOverrides(),
    )


def decision(asked: ExecutionRequest, **settings: object) -> Decision:
    return decide(asked, Settings(runtimes=RuntimeSettings(**settings)), known)


def reasons(asked: ExecutionRequest, **settings: object) -> tuple[str, ...]:
    """Return why a request is denied; nothing when it is allowed."""
    found = decision(asked, **settings)
    assert found.allowed == (found.reasons == ())
    return found.reasons


def test_a_plain_program_reads_its_workspace_and_nothing_more() -> None:
    found = decision(request("python"))
    assert (found.allowed, found.reasons, found.rule) == (True, (), "default")
    assert found.program == ProgramTerms(
        limits=ProgramLimits(
            timeout_ms=30_000, memory_bytes=1024**3, stdout_bytes=1024**2, stderr_bytes=256 * 1024
        ),
        grants=ProgramGrants(
            access="read-only", network="none", executables=("python3", "python"), environment=()
        ),
    )


def test_s1_switched_off() -> None:
    assert reasons(request(), enabled=False, allowed=()) == (
        "Runtime execution is disabled in configuration (runtime.enabled = false)",
    )


def test_s2_a_runtime_that_is_not_allowed() -> None:
    assert reasons(request(), allowed=("python", "go")) == (
        'Runtime "node" is not in the allowed runtimes list: [python, go]',
    )


def test_s3_an_executable_of_another_runtime() -> None:
    assert reasons(request(executable="powershell")) == (
        'Executable "powershell" is not compatible with runtime "node"',
    )


def test_s2_s3_both_are_told() -> None:
    assert reasons(request(executable="powershell"), allowed=("python",)) == (
        'Runtime "node" is not in the allowed runtimes list: [python]',
        'Executable "powershell" is not compatible with runtime "node"',
    )


def test_s4_an_executable_that_is_not_allowed() -> None:
    assert reasons(request(executable="node"), executables=("python3",)) == (
        'Executable "node" is not in the allowed executables list',
    )
    assert reasons(request(), executables=("python3",)) == (
        'Executable "node" is not in the allowed executables list',
    )


def test_s5_an_empty_list_allows_every_executable() -> None:
    assert reasons(request(executable="bun"), executables=()) == ()


def test_s6_the_allowed_executable_is_the_default_one() -> None:
    found = decision(request("shell", code="echo"), executables=("bash",))
    assert found.program is not None
    assert (found.allowed, found.program.grants.executables) == (True, ("bash",))


def test_s4_s6_only_what_is_allowed_is_tried() -> None:
    found = decision(request("node"), executables=("BUN",))
    assert found.program is not None
    assert found.program.grants.executables == ("bun",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (r"C:\Program Files\nodejs\node.exe", "node.exe"),
        (r'"C:\Program Files\nodejs\NODE.EXE"', "node.exe"),
        ("'/usr/bin/Rscript'", "rscript"),
        (" node ", "node"),
    ],
)
def test_s7_executables_are_compared_by_name(text: str, name: str) -> None:
    assert file_name(text) == name


@pytest.mark.parametrize(
    ("runtime", "executable", "fits"),
    [
        ("node", "bun", True),
        ("typescript", "node", False),
        ("python", "py", True),
        ("shell", "cmd", True),
        ("rust", "gcc", False),
        ("c", "cc", True),
        ("cpp", "c++", True),
        ("r", "Rscript", True),
    ],
)
def test_s8_which_executables_fit(runtime: str, executable: str, fits: bool) -> None:
    denied = f'Executable "{executable}" is not compatible with runtime "{runtime}"'
    assert reasons(request(runtime, executable=executable)) == (() if fits else (denied,))


@pytest.mark.parametrize("name", ["./node", "bin/node", "/w/node", "/usr/bin/node", "'/w/node'"])
def test_a_path_cannot_choose_what_the_workspace_holds(name: str) -> None:
    assert reasons(request(executable=name)) == (
        f'Executable "{name}" must be a name; Paddock searches for it on PATH',
    )


@pytest.mark.parametrize(
    "cwd", ["../x", "/etc", r"C:\W", "C:", "a/../b", r"..\x", r"\\host\share", "..", "/"]
)
def test_s9_a_working_directory_outside(cwd: str) -> None:
    assert reasons(request(cwd=cwd)) == (
        f'Relative CWD "{cwd}" contains path traversal or absolute path components',
    )


@pytest.mark.parametrize("cwd", [".", "a", "a/b", "a..b", "..a", "...", "a/"])
def test_s9_a_working_directory_inside(cwd: str) -> None:
    assert reasons(request(cwd=cwd)) == ()


def test_s13_a_longer_time_than_the_maximum() -> None:
    asked = request(limits=LimitOverrides(timeout_ms=30_001))
    assert reasons(asked) == ("Requested timeout (30001ms) exceeds maximum (30000ms)",)
    assert reasons(asked, timeout_ms=30_001) == ()


def test_s13_clamped_where_that_is_the_policy() -> None:
    settings = Settings(limits=LimitSettings(timeout_policy="clamp"))
    found = decide(request(limits=LimitOverrides(timeout_ms=600_000)), settings, known)
    assert found.program is not None
    assert (found.allowed, found.rule, found.program.limits.timeout_ms) == (
        True,
        "runtimes.timeout_ms",
        30_000,
    )
    assert found.reasons == (
        "Requested timeout (600000ms) exceeds maximum (30000ms); the maximum holds instead",
    )


def test_more_memory_than_the_maximum() -> None:
    asked = request(limits=LimitOverrides(memory_bytes=2048))
    assert reasons(asked, memory_bytes=2047) == (
        "Requested memory (2048 bytes) exceeds maximum (2047 bytes)",
    )


def test_a_compile_step_has_limits_of_its_own_if_it_asks_for_a_time() -> None:
    asked = LimitOverrides(timeout_ms=500, compile_timeout_ms=2000, memory_bytes=10, output_bytes=7)
    found = decision(request(limits=asked), memory_bytes=100)
    assert found.program is not None
    assert found.program.limits.model_dump(exclude={"stdout_bytes", "stderr_bytes"}, exclude_none=True) == {
        "timeout_ms": 500,
        "compile_timeout_ms": 2000,
        "memory_bytes": 10,
        "compile_memory_bytes": 100,
        "output_bytes": 7,
    }
    shared = decision(request(limits=LimitOverrides(timeout_ms=500)))
    assert shared.program is not None
    assert shared.program.limits.compile_timeout_ms is None
    assert reasons(request(limits=LimitOverrides(compile_timeout_ms=2000)), timeout_ms=1000) == (
        "Requested compile timeout (2000ms) exceeds maximum (1000ms)",
    )


def test_limits_of_scripts_are_no_limits_of_programs() -> None:
    assert reasons(request(limits=LimitOverrides(sleep_ms=1))) == ("Programs have no limit sleep_ms",)


def test_writing_and_the_network_must_be_granted() -> None:
    fix = "under [runtimes] in the paddock.toml of the user or the system"
    assert reasons(request(access="workspace-write")) == (
        "access workspace-write to the workspace is not granted (granted: read-only); "
        f'set `access = "workspace-write"` {fix}',
    )
    assert reasons(request(network="full")) == (
        f'network full is not granted (granted: loopback); set `network = "full"` {fix}',
    )
    assert reasons(request(network="loopback")) == ()
    assert reasons(request(network="hosts")) == (
        f'network hosts is not granted (granted: loopback); set `network = "hosts"` {fix}',
    )
    assert reasons(request(network="loopback"), network="none") == (
        f'network loopback is not granted (granted: none); set `network = "loopback"` {fix}',
    )
    assert (
        reasons(request(access="workspace-write", network="full"), access="workspace-write", network="full")
        == ()
    )
    assert reasons(request(access="none"), access="none") == ()


def test_a_directory_of_the_workspace_needs_access_to_it() -> None:
    assert reasons(request(access="none", cwd="src")) == ('Relative CWD "src" needs access to the workspace',)


RULES = (
    Rule(effect="allow", runtime="python", workspace="/w/crawler", network="full"),
    Rule(effect="allow", kind="runtime", network="none"),
    Rule(effect="deny", executable="bun", reason="no bun here"),
)


@pytest.mark.parametrize(
    ("workspace", "work", "told"),
    [
        ("/w/crawler", {"runtime": "python", "network": "full"}, ()),
        ("/w/crawler", {"runtime": "node"}, ()),
        ("/w", {"runtime": "node", "executable": "bun"}, ("no bun here",)),
        ("/w", {"runtime": "node", "executable": "node"}, ()),
        ("/w", {"runtime": "python", "network": "full"}, ("running a python program is not allowed by any of the policy rules",)),
        ("/w/crawler", {"runtime": "node", "network": "full"}, ("running a node program is not allowed by any of the policy rules",)),
    ],
)  # fmt: skip
def test_rules_grant_by_workspace(workspace: str, work: dict[str, str], told: tuple[str, ...]) -> None:
    settings = Settings(runtimes=RuntimeSettings(network="full"), policy=PolicySettings(rule=RULES))
    asked = ExecutionRequest(workspace=Path(workspace), work=RuntimeRun(code="1", **work))
    assert decide(asked, settings, known).reasons == told


def test_a_rule_about_an_executable_or_a_runtime_is_spelled_in_any_case() -> None:
    for rule, work in (
        (Rule(effect="deny", executable="Rscript"), {"runtime": "r", "executable": "Rscript"}),
        (Rule(effect="deny", executable="Rscript"), {"runtime": "r"}),
        (Rule(effect="deny", executable="BUN*"), {"runtime": "node", "executable": "bun"}),
        (Rule(effect="deny", runtime="Python"), {"runtime": "python"}),
    ):
        found = decide(request(**work), Settings(policy=PolicySettings(rule=(rule,))), known)
        assert found.reasons == (f"running a {work['runtime']} program is denied by policy rule 1",)


@pytest.mark.parametrize(
    ("rules", "names", "told"),
    [
        ((Rule(effect="deny", executable="python3"),), ("python",), ()),
        ((Rule(effect="ask", executable="python3"),), ("python",), ()),
        ((Rule(effect="allow", executable="python"),), ("python",), ()),
        (
            (Rule(effect="deny", executable="python*"),),
            ("python3", "python"),
            ("running a python program is denied by policy rule 1",),
        ),
        (
            (Rule(effect="deny", executable="python3"), Rule(effect="ask", executable="python")),
            ("python",),
            ("running a python program needs a person's approval, says policy rule 2",),
        ),
        (
            (Rule(effect="allow", executable="ipython"),),
            ("python3", "python"),
            ("running a python program is not allowed by any of the policy rules",),
        ),
        ((Rule(effect="deny", executable="python3", workspace="/elsewhere"),), ("python3", "python"), ()),
        ((Rule(effect="deny", executable="python3"), Rule(effect="deny", runtime="node")), ("python",), ()),
    ],
)
def test_who_names_no_executable_gets_none_that_rules_refuse(
    rules: tuple[Rule, ...], names: tuple[str, ...], told: tuple[str, ...]
) -> None:
    found = decide(request("python"), Settings(policy=PolicySettings(rule=rules)), known)
    assert found.program is not None
    assert (found.allowed, found.reasons) == (not told, told)
    assert found.program.grants.executables == names


def test_rules_about_executables_leave_the_answer_about_an_unknown_one_as_it_is() -> None:
    settings = Settings(policy=PolicySettings(rule=(Rule(effect="deny", executable="python3"),)))
    assert decide(request("python"), settings).allowed
    named = request("python", executable="python3")
    assert decide(named, settings, known).reasons == ("running a python program is denied by policy rule 1",)


@pytest.mark.parametrize(
    ("fields", "limits", "told"),
    [
        ({}, {"timeout_ms": 99}, "a program's timeout is 100 to 600000 ms, not 99"),
        ({}, {"timeout_ms": 600_001}, "a program's timeout is 100 to 600000 ms, not 600001"),
        ({"args": ("x",) * 101}, {}, "at most 100 items"),
        ({"code": "x" * 1_048_577}, {}, "at most 1048576 characters"),
        ({"stdin": b"x" * 16_777_217}, {}, "at most 16777216 bytes"),
        ({"output": {"query_terms": ["x"] * 11}}, {}, "at most 10 items"),
        ({"output": {"max_lines": 9}}, {}, "greater than or equal to 10"),
        ({"output": {"max_lines": 1001}}, {}, "less than or equal to 1000"),
        ({"runtime": "two words"}, {}, "should match pattern"),
        ({"args": ("a\0b",)}, {}, "holds a NUL character"),
        ({"cwd": "a\0b"}, {}, "holds a NUL character"),
        ({"args": ("x" * 131_072,)}, {}, "an argument is over 131071 bytes"),
        ({"args": ("x" * 131_071,) * 9}, {}, "the arguments are over 1048576 bytes"),
        (
            {"env": {"A": "x" * 131_070}},
            {},
            "the variable A is over 131071 bytes; pass its value as a file or on",
        ),
        (
            {"env": dict.fromkeys("ABCDEFGHI", "x" * 131069)},
            {},
            "the arguments and variables are over 1048576 bytes",
        ),
        ({"code": None}, {}, "there is nothing to run"),
    ],
)
def test_s14_bounds_are_named(fields: dict[str, object], limits: dict[str, int], told: str) -> None:
    work = {"kind": "runtime", "runtime": "node", "code": "1", **fields}
    with pytest.raises(ValidationError, match=re.escape(told)):
        ExecutionRequest.model_validate({"workspace": "/w", "work": work, "limits": limits})


def test_s14_the_last_of_everything_that_fits() -> None:
    fits = request(
        code="x" * 1_048_576,
        args=("x",) * 100,
        stdin=b"x" * 16_777_216,
        output=OutputOptions(query_terms=("x",) * 10, max_lines=1000),
        limits=LimitOverrides(timeout_ms=100),
    )
    assert reasons(fits) == ()


def test_s17_equal_requests_have_equal_hashes() -> None:
    first, second = decision(request()), decision(request())
    assert re.fullmatch("[0-9a-f]{64}", first.audit_hash)
    assert first == second
    others = [
        decision(request(), allowed=("python",)),
        decision(request(code="2")),
        decision(request(stdin=b"")),
        decision(request(args=("x",))),
        refuse_allowed(request(), first, "runtimes.max_jobs", "Concurrency limit reached (1/1 active jobs)"),
    ]
    assert len({first.audit_hash, *(other.audit_hash for other in others)}) == 6


def test_s53_a_shell_needs_code() -> None:
    with pytest.raises(ValidationError, match="Shell runtime requires the code parameter"):
        RuntimeRun(runtime="shell", args=("-c", "echo"))


def test_every_runtime_has_a_recipe() -> None:
    assert set(recipes()) == set(RUNTIMES)
