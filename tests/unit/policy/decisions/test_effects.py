"""Which requests may change something that outlives them, and so must not run twice."""

from pathlib import Path

import pytest

from paddock.engines.programs.recipe import executables
from paddock.model.limits import Calls
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy.decisions.effects import has_effects, list_effects
from paddock.policy.settings.schema import (
    GrantSettings,
    RuntimeSettings,
    SandboxSettings,
    SdkSettings,
    Settings,
    ToolSettings,
)

from .deciding import decide

Work = GuestRun | RuntimeRun | SdkCall | ServerCall | ToolRun
WIDE = {
    "runtimes": RuntimeSettings(access="workspace-write", network="full"),
    "tools": ToolSettings(access="workspace-write", network="full"),
}
NEW = "new"


def effects(work: Work, calls: Calls = "run", **settings: object) -> list[str]:
    chosen = Settings.model_validate({**WIDE, **settings})
    request = ExecutionRequest(workspace=Path("/w"), work=work, calls=calls)
    decision = decide(request, chosen, executables)
    found = list(list_effects(request, decision, chosen))
    assert has_effects(request, decision, chosen) is bool(found)
    return list(found)


@pytest.mark.parametrize("access", ["none", "read-only"])
@pytest.mark.parametrize("network", ["none", "loopback"])
def test_programs_that_only_read_have_none(access: str, network: str) -> None:
    given = {"access": access, "network": network}
    assert effects(RuntimeRun.model_validate({"runtime": "python", "code": "1", **given})) == []
    assert effects(ToolRun.model_validate({"tool": "t", **given})) == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"access": "workspace-write"}, ["workspace"]),
        ({"network": "hosts"}, ["network"]),
        ({"network": "full"}, ["network"]),
        ({"access": "workspace-write", "network": "full"}, ["workspace", "network"]),
    ],
)
def test_programs_that_write_or_connect_have_some(given: dict[str, str], expected: list[str]) -> None:
    assert effects(RuntimeRun.model_validate({"runtime": "python", "code": "1", **given})) == expected
    assert effects(ToolRun.model_validate({"tool": "t", **given})) == expected


def test_a_program_in_a_session_changes_the_session() -> None:
    assert effects(RuntimeRun(runtime="python", code="1", session=NEW)) == ["session"]
    assert effects(GuestRun(source="1", session=NEW), "read_only") == ["session"]


def test_what_nothing_confines_may_change_everything() -> None:
    sandbox = SandboxSettings(minimum_tier="unconfined")
    assert effects(RuntimeRun(runtime="python", code="1"), sandbox=sandbox) == ["unconfined"]
    assert effects(ToolRun(tool="t"), sandbox=sandbox) == ["unconfined"]
    assert effects(GuestRun(source="1", profile="compute"), sandbox=sandbox) == []


def test_a_script_has_the_effects_of_what_it_may_call() -> None:
    work, alone = GuestRun(source="1"), GrantSettings(servers=())
    assert effects(work) == ["servers", "sdk"]
    assert effects(work, grants=alone) == ["sdk"]
    assert effects(work, grants=alone, sdk=SdkSettings(execute=())) == []
    assert effects(work, grants=alone, sdk=SdkSettings(script=())) == ["sdk"]
    assert effects(work, "read_only") == effects(work, "dry_run") == []


def test_a_computation_has_none() -> None:
    assert effects(GuestRun(source="1", profile="compute")) == []


def test_a_call_has_an_effect_unless_it_only_reads() -> None:
    assert effects(ServerCall(server="s", tool="t")) == ["servers"]
    assert effects(ServerCall(server="s", tool="t", read_only=False)) == ["servers"]
    assert effects(ServerCall(server="s", tool="t", read_only=True)) == []
    assert effects(ServerCall(server="s", tool="t"), "dry_run") == []
    assert effects(SdkCall(method="vault.set", arguments=("a", "b"))) == ["sdk"]
    assert effects(SdkCall(method="vault.get", arguments=("a",))) == []
