"""A frozen tree runs again only when it is let go, and says where that is not certain."""

import ctypes
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from paddock.confinement.sandbox.child import lockdown
from paddock.confinement.sandbox.child.freeze import FrozenTree

THROW_AWAY_USER = 54321
PATIENCE_S = 30.0
_PR_SET_DUMPABLE = 4


def supervise(
    program: Callable[[], None], check: Callable[[FrozenTree, int], bool], user: int | None = None
) -> bool:
    """Return what `check` says of a tree with one process, in a process that may become another user before."""
    supervisor = os.fork()
    if supervisor:
        return os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1]) == 0
    try:
        lockdown.die_with_parent()
        if user is not None:
            lockdown.become_user(user)
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
        ready, says = os.pipe()
        child = os.fork()
        if child == 0:
            lockdown.die_with_parent()
            program()
            os.write(says, b"x")
            while True:
                pass
        os.read(ready, 1)
        tree = FrozenTree(None, lambda *_: None)
        frozen = tree.freeze(seconds=PATIENCE_S, spare=frozenset(), first=0)
        held = frozen and check(tree, child)
        os._exit(0 if held else 1)
    finally:
        os._exit(2)


def be_visible() -> None:
    pass


def hide() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def read_state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def runs_again(tree: FrozenTree) -> bool:
    return tree.is_running(spare=frozenset(), first=0)


def test_a_traced_process_is_not_continued_by_a_signal() -> None:
    def check(tree: FrozenTree, pid: int) -> bool:
        os.kill(pid, signal.SIGCONT)
        still = (tree.is_traced, tree.is_settled, runs_again(tree), read_state(pid)) == (
            True,
            True,
            False,
            "t",
        )
        return still and tree.thaw() and runs_again(tree)

    assert supervise(be_visible, check)


def test_a_process_can_be_let_go_stopped() -> None:
    def check(tree: FrozenTree, pid: int) -> bool:
        return tree.thaw(stopped=True) and os.WIFSTOPPED(os.waitpid(pid, os.WUNTRACED)[1])

    assert supervise(be_visible, check)


@pytest.mark.usefixtures("as_root")
def test_a_process_that_hides_from_its_user_is_stopped_and_has_to_be_watched() -> None:
    def check(tree: FrozenTree, pid: int) -> bool:
        stopped = (tree.is_traced, tree.is_settled, runs_again(tree), read_state(pid)) == (
            False,
            False,
            False,
            "T",
        )
        os.kill(pid, signal.SIGCONT)
        return stopped and runs_again(tree)

    assert supervise(hide, check, THROW_AWAY_USER)


@pytest.mark.usefixtures("as_root")
def test_a_process_that_hides_from_its_user_goes_on() -> None:
    def check(tree: FrozenTree, pid: int) -> bool:
        return tree.thaw() and runs_again(tree) and read_state(pid) in {"R", "S"}

    assert supervise(hide, check, THROW_AWAY_USER)


def test_the_end_of_a_frozen_process_is_told() -> None:
    told: list[int] = []

    def check(tree: FrozenTree, pid: int) -> bool:
        tree._reaped = lambda child, status, _: told.extend((child, os.waitstatus_to_exitcode(status)))
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        tree.note_ends()
        return told == [pid, -signal.SIGKILL] and tree.is_settled

    assert supervise(be_visible, check)
