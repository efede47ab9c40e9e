"""What a program does in an overlay, once it is accepted, is what it does with the access `workspace-write`."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support import overlay_program
from tests.support.change_sets import read_tree
from tests.support.overlays import OverlayEnd, open_sandbox, run_in_overlay

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.engines.changes.accept import Acceptor
from paddock.model.outcome import Status
from paddock.model.process import ProcessGrants
from paddock.record.changes.store import ChangeStore

SOURCE = Path(overlay_program.__file__).read_text()
PATHS = ("a", "b", "new\nline ,:\udcff", "-x*ä", "a/a", "a/b", "b/a", "b/\udcfe", "a/b/c", "b/a/c")
OPERATIONS = st.lists(
    st.tuples(
        *(st.sampled_from(each) for each in (tuple(overlay_program.ACTIONS), PATHS, PATHS)),
        st.integers(0, 511),
    ),
    max_size=12,
)


class Both:
    """Runs programs in a copy of a workspace, and in an overlay of it."""

    def __init__(self, runner: asyncio.Runner, reference: KernelSandbox, sandbox: KernelSandbox) -> None:
        self._runner, self._reference, self._sandbox = runner, reference, sandbox

    def run(
        self, operations: Sequence[object], copied: Path, workspace: Path, store: ChangeStore
    ) -> OverlayEnd:
        return self._runner.run(self._run(operations, copied, workspace, store))

    async def _run(
        self, operations: Sequence[object], copied: Path, workspace: Path, store: ChangeStore
    ) -> OverlayEnd:
        argv = ["/usr/bin/python3", "-I", "-S", "-c", SOURCE, json.dumps(operations)]
        direct = await self._reference.run(argv, ProcessGrants(workspace=copied, access="workspace-write"))
        assert direct.status is Status.OK, direct
        ended = await run_in_overlay(self._sandbox, workspace, argv, store)
        assert isinstance(ended, OverlayEnd), ended
        assert ended.result.status is Status.OK, ended
        return ended


@pytest.fixture(scope="module", params=["namespaces", "landlock"])
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    with asyncio.Runner() as runner:
        reference, sandbox = open_sandbox("namespaces"), open_sandbox(request.param)
        yield Both(runner, reference, sandbox)
        runner.run(reference.close())
        runner.run(sandbox.close())


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=25)
@given(first=OPERATIONS, then=OPERATIONS)
def test_an_accepted_overlay_is_what_the_program_would_have_done(both: Both, first: list, then: list) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        workspace, store = folder / "workspace", ChangeStore(folder / "store")
        workspace.mkdir()
        for kind, path, other, number in first:
            try:
                overlay_program.ACTIONS[kind](f"{workspace}/{path}", f"{workspace}/{other}", number)
            except (OSError, shutil.Error):
                continue
        (workspace / ".env").write_text("SECRET")
        copied = folder / "copied"
        shutil.copytree(workspace, copied, symlinks=True)
        old = read_tree(workspace)
        ended = both.run(then, copied, workspace, store)
        assert read_tree(workspace) == old
        assert (ended.changes.incomplete, ended.changes.left_out) == ("", ())
        new = read_tree(copied)
        assert {change.path for change in ended.changes.changes} == {
            path for path in old.keys() | new.keys() if old.get(path) != new.get(path)
        }
        acceptor = Acceptor(store, workspace)
        with acceptor.open():
            acceptor.accept(ended.id, [change.path for change in ended.changes.changes])
        assert read_tree(workspace) == new
