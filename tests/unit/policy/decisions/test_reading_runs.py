"""What a run that may only read is refused, and what programs of guests need of the machine."""

from pathlib import Path

import pytest

from paddock.engines.programs.recipe import executables
from paddock.model.limits import Calls
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy.settings.schema import GrantSettings, RuntimeSettings, SandboxSettings, Settings

from .deciding import decide

Work = GuestRun | RuntimeRun | SdkCall | ServerCall | ToolRun
WIDE = RuntimeSettings(access="workspace-write", network="full")
CHANGES = RuntimeRun(runtime="shell", code="1", access="workspace-write")
REACHES = RuntimeRun(runtime="shell", code="1", network="full")
READS = RuntimeRun(runtime="shell", code="1")
MAY_ONLY_READ = "this run may only read ({}); ask for read-only access and no network"


def reasons(work: Work, calls: Calls = "run", settings: Settings | None = None) -> tuple[str, ...]:
    found = decide(
        ExecutionRequest(workspace=Path("/w"), work=work, calls=calls),
        settings or Settings(runtimes=WIDE),
        executables,
    )
    assert found.allowed == (found.reasons == ())
    return found.reasons


@pytest.mark.parametrize("calls", ["read_only", "dry_run"])
def test_methods_that_change_something_are_refused_to_who_may_only_read(calls: Calls) -> None:
    work = SdkCall(method="vault.set", arguments=("a", "b"))
    told = f"paddock.vault.set changes something, but this run may only read ({calls}); use a run with calls = 'run'"
    assert reasons(work, calls) == (told,)
    assert reasons(work, "run", Settings(grants=GrantSettings(calls=calls))) == (told,)
    assert reasons(work) == reasons(SdkCall(method="vault.list"), calls) == ()


@pytest.mark.parametrize("calls", ["read_only", "dry_run"])
def test_programs_that_may_change_something_are_refused_to_who_may_only_read(calls: Calls) -> None:
    for work in (CHANGES, REACHES):
        assert reasons(work, calls) == (MAY_ONLY_READ.format(calls),)
        assert reasons(work) == ()
    assert reasons(READS, calls) == ()


def test_tools_of_servers_that_may_change_something_are_refused_to_who_may_only_read() -> None:
    def marked(*, read_only: bool | None) -> ServerCall:
        return ServerCall(server="git", tool="push", read_only=read_only)

    told = (
        "git/push is not marked as read-only by its server, but this run may only read; rehearse it with dry_run, or "
        "use a run with calls = 'run'"
    )
    assert reasons(marked(read_only=False), "read_only") == (told,)
    assert reasons(marked(read_only=True), "read_only") == ()
    # Nobody has asked the server yet: who asks it, decides once more.
    assert reasons(marked(read_only=None), "read_only") == ()
    assert reasons(marked(read_only=False), "dry_run") == reasons(marked(read_only=False)) == ()


def test_a_tier_that_guests_do_not_have_is_not_pretended() -> None:
    def asks_for(tier: str) -> Settings:
        return Settings(sandbox=SandboxSettings(minimum_tier=tier), runtimes=WIDE)

    told = (
        "guest workers run in the tier landlock, but sandbox.minimum_tier requires namespaces; set it to "
        "landlock in the paddock.toml that requires more"
    )
    assert reasons(GuestRun(source="1"), settings=asks_for("namespaces")) == (told,)
    for tier in ("landlock", "unconfined"):
        assert reasons(GuestRun(source="1"), settings=asks_for(tier)) == ()
    assert reasons(READS, settings=asks_for("namespaces")) == ()
    assert reasons(SdkCall(method="vault.list"), settings=asks_for("namespaces")) == ()


def test_s17_equal_programs_have_equal_hashes_whoever_started_them() -> None:
    def digest(work: Work, **fields: str) -> str:
        request = ExecutionRequest(workspace=Path("/w"), work=work, **fields)
        return decide(request, Settings(), executables).audit_hash

    ids = [{"id": "01"}, {"id": "02"}, {"id": "01", "parent": "03"}]
    assert len({digest(READS, **each) for each in ids}) == 1
    assert len({digest(GuestRun(source="1"), **each) for each in ids}) == 3
