"""A caller's own audit sink, sandbox and artifact store: what they do, and what hostile ones cannot do."""

import asyncio
import tempfile
from pathlib import Path

import pytest

from paddock import (
    BlockingPaddock,
    LedgerError,
    OutputQuery,
    Paddock,
    ProcessResult,
    SandboxFacts,
    Settings,
    Status,
    prove_sandbox,
)
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.capture import HeadAndTail
from paddock.testing import FakeSandbox, MemoryArtifacts, MemoryAudit

SECRET = "sk-live-0123456789abcdef"
UNCONFINED = {"minimum_tier": "unconfined"}


pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def open_workspace():
    """A workspace that every user may enter; pytest's own folders are closed to others."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder).resolve()


def test_a_sink_keeps_the_record_instead_of_the_ledger(workspace, tmp_path):
    sink = MemoryAudit()
    with BlockingPaddock(workspace, audit=sink) as opened:
        outcome = opened.execute("return 6 * 7")
        assert [each.id for each in opened.find_records(event="finished")] == [outcome.audit]
        assert opened.find_records("nothing") == []
        assert len(opened.find_records(limit=1)) == 1
    assert [record.event for record in sink.records] == ["started", "finished"]
    assert not (tmp_path / "XDG_STATE_HOME" / "paddock" / "audit").exists()
    sink.append("decided", "still-open", {})


def test_nothing_is_verified_in_a_ledger_that_has_no_record(workspace):
    settings = Settings(sdk={"execute": ["*"]})
    with BlockingPaddock(workspace, audit=MemoryAudit(), settings=settings) as opened:
        outcome = opened.execute("await paddock.ledger.verify()")
    assert outcome.error.message == (
        "paddock.ledger.verify checks Paddock's own ledger; this session records in MemoryAudit"
    )


class Raises(MemoryAudit):
    """Fails at one event, with a text that nobody may see."""

    def __init__(self, event):
        super().__init__()
        self.event = event

    def claim(self, request, fields, *, parent=None):
        if self.event == "started":
            raise RuntimeError(SECRET)
        return super().claim(request, fields, parent=parent)

    def append(self, event, request, fields, *, parent=None):
        if event == self.event:
            raise RuntimeError(SECRET)
        return super().append(event, request, fields, parent=parent)


@pytest.mark.parametrize("event", ["started", "finished"])
def test_a_sink_that_raises_is_a_record_that_cannot_be_written(workspace, event, caplog):
    with (
        BlockingPaddock(workspace, audit=Raises(event)) as opened,
        pytest.raises(LedgerError) as caught,
    ):
        opened.execute("return 1")
    assert str(caught.value) == "the audit sink Raises failed: RuntimeError"
    assert SECRET not in caplog.text
    assert "the audit sink Raises raised RuntimeError in " in caplog.text


def test_without_a_claim_nothing_runs(workspace):
    settings = Settings(runtimes={"access": "workspace-write"})
    workspace.chmod(0o777)
    with (
        BlockingPaddock(workspace, audit=Raises("started"), settings=settings) as opened,
        pytest.raises(LedgerError),
    ):
        opened.exec("shell", "touch ran", access="workspace-write")
    assert not (workspace / "ran").exists()


def test_a_sink_that_gives_no_id_has_written_nothing(workspace):
    class Silent(MemoryAudit):
        def claim(self, request, fields, *, parent=None):
            return None

    with BlockingPaddock(workspace, audit=Silent()) as opened, pytest.raises(LedgerError) as caught:
        opened.execute("return 1")
    assert (
        str(caught.value) == "the audit sink Silent gave no id of a record, so nothing shows that it has one"
    )


def test_a_call_that_cannot_be_recorded_is_not_made(workspace):
    class NoChildren(MemoryAudit):
        def claim(self, request, fields, *, parent=None):
            if parent:
                raise ValueError(SECRET)
            return super().claim(request, fields, parent=parent)

    with BlockingPaddock(workspace, audit=NoChildren()) as opened:
        outcome = opened.execute("return await paddock.compute('emit(1)').catch(e => e.message)")
    assert outcome.value == "the call cannot be recorded, so it was not made"


def test_a_store_keeps_output_without_secrets(workspace, tmp_path):
    store = MemoryArtifacts()
    with BlockingPaddock(workspace, artifacts=store) as opened:
        handle = opened.exec("shell", f"echo token={SECRET}").check().program.artifact
        found = opened.query(OutputQuery(artifact_handle=handle, query_terms=("token",)))
    assert [excerpt.content for excerpt in found.excerpts] == ["token=[REDACTED:api-key]"]
    assert {name for _, name in store.objects} == {"manifest.json", "stdout.gz", "stderr.gz"}
    assert not (tmp_path / "XDG_STATE_HOME" / "paddock" / "artifacts").exists()


@pytest.mark.parametrize("method", ["begin", "put", "groups", "last_sweep"])
def test_a_store_that_fails_costs_no_outcome(workspace, method):
    class Broken(MemoryArtifacts):
        pass

    def fail(*_args, **_named):
        raise ValueError("no")

    store = Broken()
    setattr(Broken, method, property(fail, lambda *_: None) if method == "last_sweep" else fail)
    with BlockingPaddock(workspace, artifacts=store) as opened:
        program = opened.exec("shell", "echo out").check().program
    assert program.stdout.text == "out\n"
    kept = method in {"groups", "last_sweep"}
    assert (program.artifact is not None) is kept
    assert program.not_kept == ("" if kept else "output could not be kept: cannot write the artifact: no")


def test_a_store_that_answers_with_anything_is_no_manifest(workspace):
    store = MemoryArtifacts()
    with BlockingPaddock(workspace, artifacts=store) as opened:
        handle = opened.exec("shell", "echo out").check().program.artifact
        store.objects[handle, "manifest.json"] = b"[" * 100_000
        found = opened.query(OutputQuery(artifact_handle=handle, query_terms=("out",)))
        assert [excerpt.content for excerpt in found.excerpts] == ["out"]
        store.objects[handle, "stdout.gz"] = b"no gzip file"
        with pytest.raises(Exception, match=r"corrupt|damaged|gzip"):
            opened.query(OutputQuery(artifact_handle=handle, query_terms=("out",)))


def test_a_sandbox_below_the_minimum_runs_nothing(workspace):
    sandbox = FakeSandbox()
    with BlockingPaddock(workspace, sandbox=sandbox) as opened:
        outcome = opened.exec("shell", "echo out")
    assert (outcome.status, outcome.error.message) == (
        Status.UNAVAILABLE,
        "programs need at least the tier landlock, and the sandbox FakeSandbox gives unconfined: pass another one, or "
        "lower sandbox.minimum_tier in the settings",
    )
    assert sandbox.commands == []


def test_the_outcome_and_the_record_say_which_sandbox_ran(workspace):
    sandbox, sink = FakeSandbox(lambda _command, stdin: (0, stdin * 2)), MemoryAudit()
    settings = Settings(sandbox=UNCONFINED)
    with BlockingPaddock(workspace, settings=settings, sandbox=sandbox, audit=sink) as opened:
        outcome = opened.exec("shell", "cat", stdin="twice").check()
    assert outcome.program.stdout.text == "twicetwice"
    assert outcome.sandbox == SandboxFacts(tier="unconfined", layers=("sandbox FakeSandbox",))
    assert sink.records[-1].fields["tier"] == "unconfined"
    assert sink.records[-1].fields["layers"] == ("sandbox FakeSandbox",)


class Plain:
    """Runs programs as any other child, and says that it confines them."""

    tier = "namespaces"
    facts = SandboxFacts(tier="namespaces", layers=("nothing",))

    def user(self, grants):
        return None

    async def take_slot(self, grants, limits):
        return FakeSandbox().take_slot(grants, limits)

    async def run(self, argv, grants=None, limits=None, streams=None, *, slot=None, stop=None):
        cwd = grants.workspace if grants and grants.workspace else tempfile.gettempdir()
        process = await asyncio.create_subprocess_exec(
            *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=cwd
        )
        streams = []
        for data in await process.communicate():
            kept = HeadAndTail(100_000)
            kept.take(data)
            streams.append(kept.make_captured())
        status = Status.OK if process.returncode == 0 else Status.FAILED
        return ProcessResult(status=status, stdout=streams[0], stderr=streams[1], sandbox=self.facts)


def test_a_sandbox_that_only_says_that_it_confines_is_not_used(workspace, monkeypatch):
    monkeypatch.setenv("OWN_VARIABLE", SECRET)
    with BlockingPaddock(workspace, sandbox=Plain()) as opened:
        outcome = opened.exec("shell", "touch ran", access="none")
    assert outcome.status is Status.UNAVAILABLE
    told = "the sandbox Plain is not used, because its tier namespaces is not proved: the canary could "
    assert outcome.error.message.startswith(told)
    worked = set(outcome.error.message.removeprefix(told).split(", "))
    assert worked >= {
        "read a file outside",
        "write a file outside",
        "truncate a file outside",
        "make a file outside",
        "reach a server of this machine",
        "see a variable of Paddock",
        "change a protected path",
    }


def test_the_report_of_a_sandbox_says_what_the_canary_could_do():
    report = asyncio.run(prove_sandbox(Plain()))
    assert (report.proved, report.attempts["read a file outside"]) == (False, False)

    async def main():
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
            return await prove_sandbox(sandbox)

    report = asyncio.run(main())
    assert (report.proved, report.why, set(report.attempts.values())) == (True, "", {True})


@pytest.mark.parametrize("tier", ["landlock", "namespaces"])
def test_programs_script_tools_and_languages_run_in_the_callers_sandbox(open_workspace, tier):
    workspace = open_workspace
    folder = workspace / ".paddock" / "tools" / "answer"
    folder.mkdir(parents=True)
    (folder / "tool.yaml").write_text(
        "id: answer\nname: Answer\ndescription: d\nruntime: shell\nscript: s.sh\n"
    )
    (folder / "s.sh").write_text("echo 42")

    async def main():
        async with KernelSandbox(SandboxFacts(tier=tier, layers=("mine",)), tier) as sandbox:
            async with Paddock(workspace, sandbox=sandbox) as opened:
                ran = await opened.exec(
                    "python", "import sys; print(sys.stdin.read())", stdin="in", access="none"
                )
                tool = await opened.tool("answer")
            again = await sandbox.run(["/bin/true"])  # it is the caller's to close
            return ran, tool, again

    ran, tool, again = asyncio.run(main())
    assert (ran.status, ran.program.stdout.text) == (Status.OK, "in\n")
    assert ran.sandbox.layers == ("sandbox KernelSandbox", "mine")
    assert (tool.status, tool.tool.output, tool.sandbox.layers[0]) == (Status.OK, 42, "sandbox KernelSandbox")
    assert again.status is Status.OK


class Weakening:
    """Proves a tier, and runs programs in another one afterwards."""

    def __init__(self, inner):
        self.inner, self.facts, self.tier, self.user, self.take_slot = (
            inner,
            inner.facts,
            inner.tier,
            inner.user,
            inner.take_slot,
        )
        self.proved = False

    async def run(self, argv, *args, **named):
        result = await self.inner.run(argv, *args, **named)
        self.proved = self.proved or argv == ["/bin/true"]
        return result.replace(sandbox=SandboxFacts(tier="none")) if self.proved else result


def test_a_sandbox_that_becomes_weaker_is_told_and_not_used_again(workspace):
    async def main():
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as inner:
            sandbox = Weakening(inner)
            report = await prove_sandbox(inner)
            assert report.proved
            async with Paddock(workspace, sandbox=sandbox) as opened:
                sandbox.proved = False
                one = await opened.exec("shell", "echo 1", access="none")
                two = await opened.exec("shell", "echo 2", access="none")
            return one, two

    one, two = asyncio.run(main())
    told = (
        "the sandbox Weakening ran a program in the tier none, though it had proved landlock; no further program runs "
        "in it"
    )
    assert (one.status, one.sandbox.tier, one.sandbox.layers) == (
        Status.ERROR,
        "none",
        ("sandbox Weakening",),
    )
    assert (two.status, two.error.message) == (Status.UNAVAILABLE, told)


def test_a_sandbox_that_raises_says_nothing_of_what_it_was_given(workspace, caplog):
    class Fails(FakeSandbox):
        async def run(self, argv, *_args, **_named):
            raise RuntimeError(f"{argv} {SECRET}")

    settings = Settings(sandbox=UNCONFINED)
    with BlockingPaddock(workspace, sandbox=Fails(), settings=settings) as opened:
        outcome = opened.exec("shell", "echo 1")
    assert (outcome.status, outcome.error.message) == (
        Status.UNAVAILABLE,
        "the sandbox Fails failed: RuntimeError",
    )
    assert SECRET not in caplog.text


def test_no_program_of_a_callers_sandbox_gets_at_paddocks_own_files(tmp_path):
    sandbox = FakeSandbox()
    settings = Settings(sandbox=UNCONFINED, runtimes={"access": "workspace-write"})
    with BlockingPaddock(tmp_path, sandbox=sandbox, settings=settings) as opened:
        for access in ("read-only", "workspace-write"):
            outcome = opened.exec("shell", "echo 1", access=access)
            assert (outcome.status, "Paddock keeps its own files" in outcome.error.message) == (
                Status.INVALID,
                True,
            )
        assert sandbox.commands == []
        assert opened.exec("shell", "echo 1", access="none").ok


def test_javascript_needs_no_sandbox_of_the_caller(workspace):
    with BlockingPaddock(workspace, sandbox=FakeSandbox()) as opened:
        assert opened.execute("return 1").check().sandbox.tier == "landlock"
