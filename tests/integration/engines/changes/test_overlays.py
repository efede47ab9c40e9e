"""Programs in an overlay of their workspace: what they see, what becomes of it, and what they try."""

import asyncio
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.overlays import BOUNDS, LIMITS, OverlayEnd, open_sandbox, run_in_overlay
from tests.support.processes import PATIENCE_S

from paddock.confinement.sandbox.child.hiding import HidingRules
from paddock.confinement.sandbox.fork_server import Jail
from paddock.confinement.sandbox.protocol import Streams
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.changes.capture import CaptureLimits, CaptureRules, Overlaid, capture_changes
from paddock.engines.changes.opening import OpenedSlot, OverlayBounds, OverlayRun
from paddock.model.limits import MIB
from paddock.model.outcome import RawResult, SandboxFacts, Status
from paddock.model.process import ProcessGrants, ProcessLimits
from paddock.record.changes.store import ChangeStore

TIERS = ["namespaces", "landlock"]


class Place:
    """A workspace with a store of change sets beside it."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "work,space:1"
        self.workspace.mkdir()
        self.store = ChangeStore(folder / "store")

    def run(self, tier: str, script: str, *, own: tuple[str, ...] = (), **options: object) -> OverlayEnd:
        """Run a shell script in an overlay, and return its end."""
        ended = self.try_to_run(tier, script, own=own, **options)
        assert isinstance(ended, OverlayEnd), ended
        return ended

    def try_to_run(
        self, tier: str, script: str, *, own: tuple[str, ...] = (), **options: object
    ) -> OverlayEnd | RawResult:
        """Run a shell script in an overlay; return a result if there can be no overlay."""

        async def run() -> OverlayEnd | RawResult:
            async with open_sandbox(tier, own=own) as sandbox:
                argv = ["/bin/sh", "-c", script]
                return await run_in_overlay(sandbox, self.workspace, argv, self.store, **options)

        return asyncio.run(run())

    def names(self) -> list[str]:
        """Return the paths in the workspace."""
        return sorted(str(path.relative_to(self.workspace)) for path in self.workspace.rglob("*"))


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Place(Path(folder).resolve())


@pytest.mark.parametrize("tier", TIERS)
def test_the_workspace_stays_and_the_changes_are_listed(tier: str, place: Place) -> None:
    for name in ("kept", "changed", "gone"):
        (place.workspace / name).write_text(name)
    ended = place.run(
        tier, "cat kept; echo new > made; echo more >> changed; rm gone; touch kept; chmod 755 kept"
    )
    assert (ended.result.status, ended.result.stdout.text) == (Status.OK, "kept")
    assert ended.change_list == [
        ("modified", "changed"),
        ("deleted", "gone"),
        ("mode", "kept"),
        ("added", "made"),
    ]
    assert ended.changes.method == {"namespaces": "overlayfs", "landlock": "copy"}[tier]
    assert {name: (place.workspace / name).read_text() for name in place.names()} == {
        name: name for name in ("changed", "gone", "kept")
    }


@pytest.mark.parametrize("tier", TIERS)
def test_hidden_files_and_paddocks_own_are_neither_read_nor_changed_nor_deleted(
    tier: str, place: Place
) -> None:
    own = place.workspace / "state"
    for path in (".env", "deep/.env", "state/vault", "deep/other"):
        (place.workspace / path).parent.mkdir(exist_ok=True)
        (place.workspace / path).write_text("SECRET")
    script = "cat .env deep/.env state/vault; rm -rf .env deep state; echo x > .env; mkdir -p state; echo x > state/y"
    ended = place.run(tier, script, own=(str(own),))
    assert ended.result.stdout.text == ""
    assert ended.change_list == [("deleted", "deep/other")]
    assert place.names() == [".env", "deep", "deep/.env", "deep/other", "state", "state/vault"]


def test_what_was_not_copied_is_not_shown_by_its_replacement(place: Place) -> None:
    (place.workspace / "conf").mkdir()
    (place.workspace / "conf/secret").write_text("SECRET")
    (place.workspace / ".env").symlink_to("conf/secret")
    (place.workspace / "other").hardlink_to(place.workspace / "conf/secret")
    ended = place.run("landlock", "ls conf; echo x > conf/secret; echo x > other; echo x > plain")
    assert ended.result.stdout.text == ""
    assert ended.change_list == [("added", "plain")]
    assert sorted(ended.changes.left_out) == [".env", "conf/secret", "other"]
    assert [*place.store.directory.glob("*/before/*")] == []


@pytest.mark.parametrize("tier", TIERS)
def test_protected_paths_and_links_that_lead_out_are_marked(tier: str, place: Place) -> None:
    script = (
        "git init -q . 2>/dev/null || mkdir -p .git/hooks; echo x > .git/hooks/pre-commit; echo {} > .mcp.json;"
        "mkdir .cursor; echo {} > .cursor/mcp.json; ln -s ../../etc out; ln -s made inside; ln -s /etc root; echo > made"
    )
    changes = {change.path: change for change in place.run(tier, script).changes.changes}
    found = {path: (change.protected, change.outward) for path, change in changes.items()}
    assert {
        path: found[path] for path in (".git/hooks/pre-commit", ".mcp.json", ".cursor/mcp.json", "made")
    } == {
        ".git/hooks/pre-commit": (True, False),
        ".mcp.json": (True, False),
        ".cursor/mcp.json": (True, False),
        "made": (False, False),
    }
    assert (found["out"], found["root"], found["inside"]) == ((False, True), (False, True), (False, False))


@pytest.mark.parametrize("tier", TIERS)
def test_pipes_sockets_and_names_without_end_are_left_out(tier: str, place: Place) -> None:
    (place.workspace / "file").write_text("x")
    script = "mkfifo pipe; rm file; mkfifo file; echo x > plain; mkdir closed; echo y > closed/in; chmod 0 plain closed"
    ended = place.run(tier, script)
    assert ended.change_list == [("added", "closed"), ("added", "closed/in"), ("added", "plain")]
    assert sorted(ended.changes.left_out) == ["file", "pipe"]
    assert [change.after.mode for change in ended.changes.changes if change.after] == [0, 0o644, 0]


@pytest.mark.parametrize("tier", TIERS)
def test_a_set_beyond_its_limits_is_incomplete(tier: str, place: Place) -> None:
    few = CaptureLimits(MIB, 10)
    ended = place.run(tier, "truncate -s 200M sparse", limits=few)
    assert ended.changes.incomplete == "it changed files of more than 1,048,576 bytes (overlay.bytes)"
    ended = place.run(tier, "seq 2000 | xargs touch", limits=few)
    assert (len(ended.changes.changes), ended.changes.incomplete) == (
        10,
        "it changed more than 10 paths (overlay.changes)",
    )


@pytest.mark.parametrize("tier", TIERS)
def test_what_is_written_counts_as_scratch(tier: str, place: Place) -> None:
    limits = ProcessLimits(timeout_ms=round(1000 * PATIENCE_S), scratch_bytes=20 * MIB)
    ended = place.run(tier, "head -c 60M /dev/zero > big; sleep 100", process_limits=limits)
    assert (ended.result.status, ended.result.limit) == (Status.OUTPUT_LIMIT, "scratch")
    assert ended.changes.incomplete == "the program was ended when it wrote too much (scratch)"


def test_a_removed_file_that_is_open_counts_as_scratch(place: Place) -> None:
    limits = ProcessLimits(timeout_ms=round(1000 * PATIENCE_S), scratch_bytes=20 * MIB)
    script = "exec 3> big; rm big; head -c 60M /dev/zero >&3; sleep 100"
    ended = place.run("namespaces", script, process_limits=limits)
    assert (ended.result.status, ended.result.limit) == (Status.OUTPUT_LIMIT, "scratch")


def test_a_program_reaches_neither_the_upper_directory_nor_the_lower_one(place: Place) -> None:
    (place.workspace / "folder").mkdir()
    (place.workspace / "folder/file").write_text("lower")
    script = """
    cd $TMPDIR/..; ls .overlay; cat .overlay/0/upper/made; touch .overlay/x; rmdir .overlay; mv .overlay other
    chmod 777 .overlay; umount .overlay "$OLDPWD"; mount -o remount,rw .overlay; rm -rf .overlay
    cd "$OLDPWD"; umount . ; echo changed > folder/file
    for fd in /proc/self/fd/* /proc/1/fd/* /proc/1/root; do ls $fd/upper $fd/folder; done
    """
    ended = place.run("namespaces", f"({script}) 2>/dev/null; true")
    assert (ended.result.stdout.text, ended.change_list) == ("", [("modified", "folder/file")])
    assert (place.workspace / "folder/file").read_text() == "lower"


def test_a_forged_mark_of_an_opaque_directory_deletes_nothing(place: Place) -> None:
    (place.workspace / "folder").mkdir()
    (place.workspace / "folder/file").write_text("x")
    code = (
        "import os\n"
        "os.mkdir('made')\n"
        "for path in ('folder', 'made'):\n"
        "    for name in ('user.overlay.opaque', 'user.overlay.redirect', 'user.overlay.metacopy', 'user.other'):\n"
        "        try: os.setxattr(path, name, b'y')\n"
        "        except OSError: pass\n"
    )
    (place.workspace / "program.py").write_text(code)
    ended = place.run("namespaces", "/usr/bin/python3 -I -S program.py; cat folder/file")
    assert (ended.result.stdout.text, ended.change_list) == ("x", [("added", "made")])


def test_a_granted_directory_in_the_workspace_stays_read_only(place: Place) -> None:
    library = place.workspace / "library"
    library.mkdir()
    (library / "code").write_text("x")

    async def run() -> tuple[str, str]:
        grants = ProcessGrants(workspace=place.workspace, access="overlay", readable=(library,))
        async with open_sandbox("namespaces") as sandbox:
            argv = ["/bin/sh", "-c", "cat library/code; touch library/new made; ls"]
            result = await sandbox.run(argv, grants)
            return result.stdout.text, result.stderr.text

    stdout, stderr = asyncio.run(run())
    assert stdout == "xlibrary\nmade\n"
    assert "library/new" in stderr


def test_each_run_has_an_overlay_of_its_own_also_in_a_prepared_jail(place: Place) -> None:
    async def run() -> list[str]:
        grants = ProcessGrants(workspace=place.workspace, access="overlay")
        texts: list[str] = []
        async with open_sandbox("namespaces", spares=1) as sandbox:
            for number in range(4):
                result = await sandbox.run(["/bin/sh", "-c", f"ls; touch made-{number}"], grants)
                texts.append(f"{result.status} {result.stdout.text}")
                await sandbox.finish_refills()
                (place.workspace / "later").touch()
            assert len(sandbox.describe_state().prepared[0]) == 1
        return texts

    assert asyncio.run(run()) == ["ok ", "ok later\n", "ok later\n", "ok later\n"]
    assert place.names() == ["later"]


def test_a_file_that_changed_during_the_run_is_noted(place: Place) -> None:
    (place.workspace / "file").write_text("old")
    (place.workspace / "go").touch()

    async def run() -> OverlayEnd | RawResult:
        async with open_sandbox("namespaces") as sandbox:
            script = "echo new > file; echo written; until grep -q now go; do sleep 0.01; done"
            written = asyncio.Event()
            task = asyncio.create_task(
                run_in_overlay(
                    *(sandbox, place.workspace, ["/bin/sh", "-c", script], place.store),
                    streams=Streams(stdout=lambda _: written.set()),
                )
            )
            await asyncio.wait_for(written.wait(), PATIENCE_S)
            (place.workspace / "file").write_text("other")
            (place.workspace / "go").write_text("now")
            return await task

    ended = asyncio.run(run())
    assert isinstance(ended, OverlayEnd)
    assert [(each.path, each.changed_meanwhile) for each in ended.changes.changes] == [("file", True)]


@pytest.mark.parametrize("tier", TIERS)
def test_changes_to_a_workspace_that_was_replaced_during_the_run_cannot_be_accepted(
    tier: str, place: Place
) -> None:
    other = place.workspace.parent / "other"
    other.mkdir()
    for folder, text in ((place.workspace, "seen"), (other, "never seen")):
        (folder / "file").write_text(text)

    def replace(_: bytes) -> None:
        if other.exists():
            place.workspace.rename(other.parent / "aside")
            other.rename(place.workspace)

    # Its output is read before its changes are.
    ended = place.run(tier, "echo mine > file; echo written", streams=Streams(stdout=replace))
    assert (ended.change_list, ended.changes.incomplete) == (
        [("modified", "file")],
        "the directory was replaced by another one during the run",
    )


def test_a_workspace_that_cannot_be_copied_is_refused(place: Place) -> None:
    for number in range(5):
        (place.workspace / f"file-{number}").write_text("x" * 1000)
    few = place.try_to_run("landlock", "true", bounds=OverlayBounds(MIB, 3))
    large = place.try_to_run("landlock", "true", bounds=OverlayBounds(3000, 100))
    assert isinstance(few, RawResult)
    assert isinstance(large, RawResult)
    start = "This machine has no overlay for the workspace, so that it would be copied, and it has more than "
    end = (
        "; raise that setting, work in a smaller directory, or make the tier namespaces available (paddock doctor "
        "says how)"
    )
    assert [(each.status, each.error.message if each.error else "") for each in (few, large)] == [
        (Status.DENIED, f"{start}3 files and directories (overlay.copy_files){end}"),
        (Status.DENIED, f"{start}3,000 bytes (overlay.copy_bytes){end}"),
    ]


@pytest.mark.parametrize("tier", TIERS)
def test_a_workspace_may_hold_scratch(tier: str, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = place.workspace / "tmp"
    scratch.mkdir()
    scratch.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    (place.workspace / "file").write_text("x")
    ended = place.run(tier, "echo new > file; cat file")
    assert (ended.result.stdout.text, ended.change_list) == ("new\n", [("modified", "file")])


def test_only_other_names_among_the_changes_are_links(place: Place) -> None:
    (place.workspace / "known").write_text("x")
    script = "echo a > one; ln one two; ln known other"
    ended = place.run("namespaces", script)
    assert [(change.path, change.linked_to) for change in ended.changes.changes] == [
        ("one", None),
        ("other", None),
        ("two", "one"),
    ]


@pytest.mark.parametrize("tier", TIERS)
def test_a_program_whose_supervisor_was_killed_leaves_neither_changes_nor_files(
    tier: str, place: Place
) -> None:
    (place.workspace / "file").write_text("x")
    scratch = place.workspace.parent / "scratch"
    scratch.mkdir(mode=0o755)

    async def run() -> tuple[Status, list[str]]:
        taken: list[Overlaid] = []
        grants, limits = ProcessGrants(workspace=place.workspace, access="overlay"), ProcessLimits()
        overlay = OverlayRun(BOUNDS, lambda overlaid, _: taken.append(overlaid))
        async with open_sandbox(tier, scratch_root=scratch) as sandbox:
            opened = await overlay.open(sandbox, grants, limits)
            assert isinstance(opened, OpenedSlot)
            assert isinstance(opened.slot, Jail)
            grants, slot, overlays = opened
            began = asyncio.Event()
            streams = Streams(stdout=lambda _: began.set())
            argv = ["/bin/sh", "-c", "echo x > made; echo; exec sleep 100"]
            task = asyncio.create_task(sandbox.run(argv, grants, limits, streams, slot=slot))
            await asyncio.wait_for(began.wait(), PATIENCE_S)
            os.kill(find_supervisor(sandbox), signal.SIGKILL)
            result = await task
            await overlay.keep(sandbox, overlays, result)
            slot.release()
        assert taken == []
        return result.status, [path.name for path in scratch.iterdir()]

    assert asyncio.run(run()) == (Status.LOST, [])


def find_supervisor(sandbox: KernelSandbox) -> int:
    """Return the only supervisor of a sandbox."""
    server = sandbox.describe_state().fork_server
    assert server is not None
    (pid,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return int(pid)


def test_overlays_of_several_directories_are_apart(place: Place) -> None:
    beside = [place.workspace.parent / name for name in ("first,x", "second:y")]
    for folder in (place.workspace, *beside):
        folder.mkdir(exist_ok=True)
        for name in ("text", ".env"):
            (folder / name).write_text(folder.name)
    taken: dict[str, list[tuple[str, str]]] = {}

    def take(overlaid: Overlaid, rules: CaptureRules) -> None:
        with place.store.begin() as new:
            found = capture_changes(overlaid, new, "run-1", rules, LIMITS)
        taken[overlaid.workspace.name] = [(each.kind, each.path) for each in found.changes]

    script = (
        "umount {0} {1}; mv {0}/text {1}/moved; mv {1}/text .; cat {0}/.env {1}/.env; rm -rf {0}/.env; ln {1}/moved {0}/l;"
        "mkdir {1}/d; cd $TMPDIR/..; ls .overlay; cat .overlay/*/upper/*; rm -rf .overlay"
    )

    async def run() -> tuple[str, str]:
        async with open_sandbox("namespaces", hiding=HidingRules((".env",))) as sandbox:
            given = tuple(beside)
            grants = ProcessGrants(
                workspace=place.workspace, access="overlay", overlaid=given, searched=given
            )
            overlay = OverlayRun(BOUNDS, take)
            opened = await overlay.open(sandbox, grants, ProcessLimits(timeout_ms=round(1000 * PATIENCE_S)))
            assert isinstance(opened, OpenedSlot)
            assert isinstance(opened.slot, Jail)
            argv = ["/bin/sh", "-c", script.format(*(f"'{folder}'" for folder in beside))]
            result = await sandbox.run(argv, opened.grants, slot=opened.slot)
            await overlay.keep(sandbox, opened.overlays, result)
            opened.slot.release()
            return result.stdout.text, result.stderr.text

    stdout, stderr = asyncio.run(run())
    assert stdout == ""
    assert "Invalid cross-device link" in stderr
    assert taken == {
        place.workspace.name: [("modified", "text")],
        "first,x": [("deleted", "text")],
        "second:y": [("added", "d"), ("added", "moved"), ("deleted", "text")],
    }
    for folder in (place.workspace, *beside):
        assert [path.read_text() for path in sorted(folder.iterdir())] == [folder.name, folder.name]


@pytest.mark.usefixtures("as_root")
def test_a_copy_has_only_what_the_user_of_the_program_may_read(place: Place) -> None:
    for name, mode in (("closed", 0o600), ("open", 0o644)):
        (place.workspace / name).write_text(name)
        (place.workspace / name).chmod(mode)
    (place.workspace / "folder").mkdir(mode=0o700)
    (place.workspace / "folder/file").write_text("x")

    async def run() -> OverlayEnd | RawResult:
        async with KernelSandbox(SandboxFacts(tier="landlock"), "landlock") as sandbox:
            argv = ["/bin/sh", "-c", "ls -R; echo more >> open"]
            return await run_in_overlay(sandbox, place.workspace, argv, place.store)

    ended = asyncio.run(run())
    assert isinstance(ended, OverlayEnd), ended
    assert (ended.result.stdout.text, ended.change_list) == (".:\nopen\n", [("modified", "open")])
