"""Directories beside the workspace: who may name them, who has them, and what rules and records say of them."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from paddock.engines.programs.recipe import executables
from paddock.gate.work import KINDS
from paddock.gate.work.runtime import RuntimePrograms
from paddock.model.directories import GrantedDirectory, find_uncovered
from paddock.model.errors import ConfigurationError
from paddock.model.limits import Calls
from paddock.model.outcome import Decision, Outcome, Status, read_outcome, write_outcome
from paddock.model.program import Access
from paddock.model.request import ExecutionRequest, RuntimeRun
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.effects import list_effects
from paddock.policy.settings.merge import SettingsLayer, merge
from paddock.policy.settings.rules import PolicySettings, Rule
from paddock.policy.settings.schema import RuntimeSettings, Settings, WorkspaceSettings
from paddock.policy.settings.serve import ServeToken
from paddock.surfaces.tenants.narrowing import narrow_settings

DATA, OUT = (
    GrantedDirectory(path=Path("/data")),
    GrantedDirectory(path=Path("/out"), access="workspace-write"),
)
GIVEN = Settings(
    workspace=WorkspaceSettings(directory=(DATA, OUT)), runtimes=RuntimeSettings(access="workspace-write")
)


def decide(
    settings: Settings = GIVEN, calls: Calls = "run", **work: object
) -> tuple[ExecutionRequest, Decision]:
    policy = Policy(settings, KINDS, executables)
    program = RuntimeRun(runtime="shell", code="1", **work)
    request = policy.add_defaults(ExecutionRequest(workspace=Path("/w"), work=program, calls=calls))
    return request, policy.decide(request)


def given(decision: Decision) -> tuple[GrantedDirectory, ...]:
    assert decision.program is not None
    assert (decision.allowed, decision.reasons) == (True, ())
    return decision.program.grants.directories


@pytest.mark.parametrize("access", ["read-only", "workspace-write"])
def test_a_program_with_access_to_its_workspace_has_the_directories_of_the_settings(access: Access) -> None:
    request, decision = decide(access=access)
    assert given(decision) == (DATA, OUT)
    assert list(list_effects(request, decision, GIVEN)) == ["workspace"]


def test_a_program_without_access_to_its_workspace_has_none() -> None:
    request, decision = decide(access="none")
    assert given(decision) == ()
    assert list(list_effects(request, decision, GIVEN)) == []


@pytest.mark.parametrize("calls", ["read_only", "dry_run"])
def test_a_run_that_may_only_read_reads_them(calls: Calls) -> None:
    request, decision = decide(calls=calls)
    assert given(decision) == (DATA, GrantedDirectory(path=Path("/out")))
    assert list(list_effects(request, decision, GIVEN)) == []


@pytest.mark.parametrize(
    ("path", "access", "reason"),
    [
        ("/data", "read-only", ""),
        ("/data/sub", "read-only", ""),
        ("/out", "read-only", ""),
        ("/out/sub", "workspace-write", ""),
        ("/data", "workspace-write", "the directory /data (workspace-write) is not granted"),
        ("/database", "read-only", "the directory /database (read-only) is not granted"),
        ("/", "read-only", "the directory / (read-only) is not granted"),
    ],
)
def test_a_request_may_name_less_than_the_settings_give_and_not_more(
    path: str, access: str, reason: str
) -> None:
    _, decision = decide(directories=[{"path": path, "access": access}])
    fix = "add a [[workspace.directory]] to the paddock.toml of the user or the system"
    assert decision.reasons == ((f"{reason}; {fix}",) if reason else ())


@pytest.mark.parametrize("calls", ["run", "read_only", "dry_run"])
def test_any_run_may_have_a_directory_as_an_overlay(calls: Calls) -> None:
    overlay = GrantedDirectory(path=Path("/data"), access="overlay")
    request, decision = decide(Settings(workspace=WorkspaceSettings(directory=(overlay,))), calls=calls)
    assert given(decision) == (overlay,)
    assert decision.program is not None
    assert (decision.program.grants.has_overlay, decision.program.grants.writes_files) == (True, False)
    assert list(list_effects(request, decision, GIVEN)) == []


def test_a_directory_without_the_workspace_is_refused() -> None:
    _, decision = decide(access="none", directories=[DATA])
    assert decision.reasons == ("directories beside the workspace need access to the workspace",)


def test_rules_see_the_directories() -> None:
    rules = PolicySettings(rule=(Rule(effect="deny", directory="/o*", origin="user"),))
    denying = GIVEN.model_copy(update={"policy": rules})
    assert decide(denying)[1].allowed is False
    assert decide(denying, access="none")[1].allowed is True
    assert decide(denying, directories=[DATA])[1].allowed is True
    with pytest.raises(ValidationError, match=r'`directory` is only allowed with kind = "runtime"'):
        Rule(effect="deny", directory="/o*", kind="guest")


def test_persons_and_records_see_the_directories() -> None:
    request, decision = decide()
    work = request.work
    assert isinstance(work, RuntimeRun)
    terms = "workspace read-only, network none, directory /data (read-only), directory /out (workspace-write)"
    assert RuntimePrograms().describe(request, work)[0] == f"run a shell program ({terms})"
    facts = RuntimePrograms().list_facts(work, decision)
    assert facts["directories"] == ["/data (read-only)", "/out (workspace-write)"]
    assert work.sha256 != work.replace(directories=()).sha256
    plain = work.replace(directories=())
    assert "directories" not in RuntimePrograms().list_facts(plain, decision)


def test_an_outcome_without_directories_is_stored_as_before() -> None:
    """The version before refuses members that it does not know."""
    for settings, expected in ((Settings(), False), (GIVEN, True)):
        _, decision = decide(settings)
        outcome = Outcome(id="run-1", status=Status.OK, decision=decision)
        text = write_outcome(outcome)
        assert ('"directories"' in text) is expected
        assert read_outcome(text.encode()) == outcome


@pytest.mark.parametrize("path", ["data", "./data", "/data/../etc", ""])
def test_a_directory_is_an_absolute_path(path: str) -> None:
    with pytest.raises(ValidationError, match=r"write a path that begins with / or ~/, without \.\."):
        GrantedDirectory(path=Path(path))


def test_a_path_below_the_home_directory_is_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/u")
    assert GrantedDirectory(path=Path("~/data")).path == Path("/home/u/data")


def test_a_later_source_stays_within_the_file_of_the_user() -> None:
    def layer(name: str, *values: GrantedDirectory) -> SettingsLayer:
        return SettingsLayer(name, {"workspace.directory": values}, {"workspace.directory": name})  # pyright: ignore[reportArgumentType]

    merged = merge([layer("user", DATA, OUT), layer("flags", OUT)], owner_file="user")
    assert merged.settings.workspace.directory == (OUT,)
    with pytest.raises(ConfigurationError) as caught:
        merge([layer("user", DATA), layer("flags", DATA, OUT)], owner_file="user")
    assert str(caught.value) == (
        'flags: workspace.directory = ["/data (read-only)", "/out (workspace-write)"] allows more than '
        '["/data (read-only)"], which is what user allows; change user instead'
    )


def test_sessions_of_tokens_have_no_directory() -> None:
    narrowed = narrow_settings(GIVEN, ServeToken(name="alice", sha256="0" * 64))
    assert narrowed.workspace.directory == ()


def test_a_directory_covers_those_below_it_with_as_much_access() -> None:
    assert find_uncovered((), ()) is None
    assert find_uncovered((DATA, OUT), (OUT, DATA)) is None
    assert find_uncovered((DATA, OUT), (DATA,)) == OUT
