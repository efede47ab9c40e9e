"""Tiers are chosen by proof, and never silently degraded."""

import asyncio
import json
import os
import resource
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from paddock.confinement.sandbox import sandbox, tiers
from paddock.confinement.sandbox.child import namespaces
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.errors import EngineError
from paddock.model.outcome import SandboxFacts
from paddock.surfaces.cli.root import command

RISK = "programs that run as the same user can end each other's processes (Landlock before ABI 6)"


def test_both_tiers_are_proved_by_every_attempt_of_the_canary():
    for tier in ("namespaces", "landlock"):
        report = asyncio.run(tiers.prove(tier))
        assert (report.proved, report.why) == (True, "")
        assert len(report.attempts) == 21
        assert all(report.attempts.values())
        assert report.facts.tier == tier


def test_the_canary_succeeds_where_nothing_confines():
    """The control: what is refused in a tier is refused by it."""

    async def go(folder):
        return await tiers.attack(folder, KernelSandbox(SandboxFacts(tier="unconfined"), "unconfined"))

    with tempfile.TemporaryDirectory() as folder:
        attempts = asyncio.run(go(Path(folder)))
    worked = {name for name, refused in attempts.items() if not refused}
    assert worked >= {
        "read a file outside",
        "write a file outside",
        "truncate a file outside",
        "make a file outside",
        "open an internet socket",
        "open a unix socket",
        "open a netlink socket",
        "use kernel keys",
    }


def choose(minimum):
    """Return the tier of the sandbox that is chosen, and close it."""

    async def use():
        async with await tiers.choose(minimum) as sandbox:
            return sandbox.tier

    return asyncio.run(use())


def test_a_sandbox_has_the_fork_server_of_its_proof(monkeypatch):
    started = []

    class Started(sandbox.ForkServerClient):
        def __init__(self):
            super().__init__()
            started.append(self.pid)

    async def use():
        async with await tiers.choose("landlock") as chosen:
            await chosen.run(["/bin/true"])
            state = chosen.describe_state()
            return state.fork_server.pid, len(state.idle)

    monkeypatch.setattr(sandbox, "ForkServerClient", Started)
    assert (asyncio.run(use()), len(started)) == ((started[0], 1), 1)


def test_without_bubblewrap_the_next_tier_is_used_only_where_allowed(monkeypatch):
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    assert choose("landlock") == "landlock"
    with pytest.raises(EngineError) as caught:
        asyncio.run(tiers.choose("namespaces"))
    assert str(caught.value) == (
        "programs need at least the tier namespaces, which is not available on this machine: "
        "namespaces: /usr/bin/no-bwrap does not exist (fix: apt install bubblewrap)"
    )


def test_a_machine_that_gives_no_further_process_is_not_blamed_for_its_confinement(monkeypatch):
    class Full(tiers.KernelSandbox):
        async def run(self, *_, **__):
            raise EngineError("[Errno 11] Resource temporarily unavailable")

    monkeypatch.setattr(tiers, "KernelSandbox", Full)
    with pytest.raises(EngineError) as caught:
        asyncio.run(tiers.choose("namespaces"))
    assert str(caught.value) == (
        "programs need at least the tier namespaces, which is not available on this machine: namespaces: no further process "
        "or thread can be started: this user, or this control group, has reached its limit; end some of "
        "them, or raise the limit (ulimit -u; in a container, pids.max)"
    )


def test_a_tier_without_landlock_is_refused_not_weakened(monkeypatch):
    monkeypatch.setattr(tiers.landlock, "read_abi_version", lambda: 0)
    assert choose("landlock") == "namespaces"
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    with pytest.raises(EngineError, match="this kernel offers no Landlock"):
        asyncio.run(tiers.choose("landlock"))
    assert choose("unconfined") == "unconfined"


def test_doctor_says_what_is_proved(tmp_path):
    done = CliRunner().invoke(command, ["doctor", "--json", "--workspace", str(tmp_path)])
    assert done.exit_code == 0
    found = json.loads(done.stdout)
    assert found["sufficient"]
    assert found["effective"]["tier"] == "namespaces"
    assert [(tier["tier"], tier["proved"]) for tier in found["tiers"]] == [
        ("namespaces", True),
        ("landlock", True),
        ("unconfined", False),
    ]


def test_doctor_exits_with_1_below_the_minimum_and_names_the_fix(tmp_path, monkeypatch):
    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    arguments = ["doctor", "--workspace", str(tmp_path), "--set", "sandbox.minimum_tier=namespaces"]
    done = CliRunner().invoke(command, arguments)
    assert done.exit_code == 1
    assert (
        "layer bubblewrap\tmissing\t/usr/bin/no-bwrap does not exist\tapt install bubblewrap\n" in done.stdout
    )
    assert "tier: landlock; the minimum is namespaces\n" in done.stdout


def test_a_kernel_that_cannot_contain_signals_is_found_out_and_said_so(monkeypatch):
    """Landlock before ABI 6: what keeps jobs from Paddock is a pid namespace, or another user."""
    monkeypatch.setattr("paddock.confinement.sandbox.child.landlock.read_abi_version", lambda: 5)
    shared = asyncio.run(tiers.prove("landlock", 0))
    assert (shared.proved, shared.why) == (False, "the canary could signal Paddock")
    assert shared.fix == (
        "run Linux 6.12 or later (Landlock ABI 6), or install bubblewrap: apt install bubblewrap; "
        "as root, leave sandbox.job_user empty, or name a user that is not root"
    )
    apart = asyncio.run(tiers.prove("namespaces"))
    assert (apart.proved, RISK in apart.facts.residual) == (True, False)


@pytest.mark.usefixtures("as_root")
def test_a_kernel_whose_landlock_cannot_refuse_truncation_is_found_out(monkeypatch):
    """Landlock before ABI 3 has no right for truncate(2)."""
    monkeypatch.setattr("paddock.confinement.sandbox.child.landlock.read_abi_version", lambda: 2)
    found = asyncio.run(tiers.prove("landlock", 54321))
    assert (found.proved, found.why) == (False, "the canary could truncate a file outside")
    assert (
        found.fix == "run Linux 6.2 or later (Landlock ABI 3), or install bubblewrap: apt install bubblewrap"
    )
    assert asyncio.run(tiers.prove("namespaces", 54321)).proved


@pytest.mark.usefixtures("as_root")
def test_another_user_keeps_signals_from_the_server_where_the_kernel_cannot(monkeypatch):
    monkeypatch.setattr("paddock.confinement.sandbox.child.landlock.read_abi_version", lambda: 5)
    for job_user in (54321, None):
        other = asyncio.run(tiers.prove("landlock", job_user))
        assert (other.proved, other.facts.residual[0]) == (True, RISK)


@pytest.mark.usefixtures("as_root")
def test_whose_files_can_be_changed_in_the_weaker_tier_and_whom_programs_run_as(monkeypatch):
    owned = (
        "programs can change mode, times and attributes of outside files that their user owns (chmod, utime)"
    )
    roots = (
        "programs with a workspace are root without its powers (sandbox.job_user): they can change mode, times and "
        "attributes of every file that root owns (chmod, utime)"
    )

    async def prove_without_calls(tier, job_user, starter, *, supervised):
        report = await prove(tier, job_user, starter, supervised=supervised)
        fails = supervised and tier == "landlock" and job_user is not None
        return report.replace(proved=False, why="no listener") if fails else report

    def told(job_user):
        found = asyncio.run(tiers.examine("landlock", job_user))
        assert found.effective.tier == "landlock"
        return [risk for risk in found.effective.facts.residual if risk in (owned, roots)], found.users

    monkeypatch.setattr(namespaces, "BUBBLEWRAP", "/usr/bin/no-bwrap")
    assert told(54321)[0] == told(0)[0] == []  # the calls are supervised
    prove = tiers._prove
    monkeypatch.setattr(tiers, "_prove", prove_without_calls)
    default = (
        "programs run as user 65531 (the default of sandbox.job_user): in a workspace they read what every user may "
        "read, and a workspace of root's cannot be granted for writing; the tier namespaces, a workspace of that "
        "user, or "
        'job_user = "root" under [sandbox] allow it'
    )
    assert told(None) == ([], default)
    assert told(54321) == ([owned], "programs run as user 54321 (sandbox.job_user)")
    assert told(0) == (
        [roots],
        "programs with a workspace run as root without its powers, others as user 65531",
    )
    monkeypatch.setattr(tiers, "_is_an_account", lambda number: number == 65531)
    assert told(None) == ([owned], default)


@pytest.mark.parametrize("tier", ["namespaces", "landlock", "unconfined"])
def test_programs_that_do_not_become_the_user_of_the_settings_say_so(tier, monkeypatch):
    told = f"programs run as user {os.geteuid()}: only root of the machine can make them user 54321 (sandbox.job_user)"
    monkeypatch.setattr("paddock.confinement.sandbox.child.lockdown.is_mapped", lambda _: False)

    async def residual(job_user):
        async with await tiers.choose(tier, job_user=job_user) as sandbox:
            return sandbox.facts.residual, (await tiers.examine(tier, job_user)).effective.facts.residual

    for risks in asyncio.run(residual(54321)):
        assert risks[0] == told
    for job_user in (None, os.geteuid()):
        for risks in asyncio.run(residual(job_user)):
            assert "sandbox.job_user" not in " ".join(risks)


@pytest.mark.usefixtures("as_root")
def test_doctor_names_what_the_user_of_programs_cannot_get_at(open_path, monkeypatch):
    (open_path / "closed" / "bin").mkdir(parents=True)
    (open_path / "closed").chmod(0o700)
    monkeypatch.setenv("PATH", f"/usr/bin:{open_path}/closed/bin")
    (layer,) = tiers.find_job_user(54321)
    assert (layer.name, layer.available) == ("PATH of programs", False)
    assert layer.detail == f"programs run as user 54321, which cannot enter {open_path}/closed/bin of PATH"
    assert layer.fix == f"install toolchains outside of {open_path}/closed, for instance with apt"
    monkeypatch.setenv("PATH", "/usr/bin")
    (layer,) = tiers.find_job_user(54321)
    assert (layer.available, layer.detail) == (
        True,
        "programs run as user 54321, which can enter all of PATH",
    )


@pytest.mark.parametrize("hard_bytes", [resource.RLIM_INFINITY, 1_048_576])
def test_doctor_names_a_stack_limit_that_it_cannot_raise(hard_bytes, monkeypatch):
    monkeypatch.setattr("paddock.confinement.sandbox.child.lockdown.lift_stack_limit", lambda: None)
    monkeypatch.setattr("resource.getrlimit", lambda _: (65_536, hard_bytes))
    found = [(layer.name, layer.available, layer.detail, layer.fix) for layer in tiers.find_stack_limit()]
    limited = (
        "stack of programs",
        False,
        "the hard limit is 1048576 bytes, and Paddock cannot raise it; therefore a program with a larger stack is "
        "ended by SIGSEGV, although its memory limit allows more",
        "start Paddock where `ulimit -Hs` prints unlimited; under systemd, set LimitSTACK=infinity",
    )
    assert found == ([limited] if hard_bytes == 1_048_576 else [])


@pytest.mark.parametrize(
    ("granted", "state"),
    [("true", "a JavaScript program may be compiled on request"), ("false", "JavaScript is interpreted")],
)
def test_doctor_says_what_just_in_time_compilation_changes(granted, state):
    shown = CliRunner().invoke(command, ["doctor", "--set", f"grants.jit={granted}"]).output
    found = json.loads(
        CliRunner().invoke(command, ["doctor", "--json", "--set", f"grants.jit={granted}"]).output
    )
    assert found["jit"] == {"granted": granted == "true"}
    assert state in " ".join(shown.split())
    assert "long loops run 2 to 14 times faster" in " ".join(shown.split())
