"""Accept or undo a change set, and be killed at the n-th call or return of a function, or at the first of a name.

    python -m tests.support.accept_killed STORE WORKSPACE ID accept|undo MOMENT
    python -m tests.support.accept_killed STORE WORKSPACE ID many RUNS

Prints how many moments there were. With `many`, a child is killed at a random moment RUNS times, and accepts or undoes
in turn; prints for each what the next command did and whether the tree was the old or the new one.
"""

import json
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from tests.support.change_sets import read_tree

from paddock.engines.changes.accept import Acceptor
from paddock.engines.changes.plan import STAGING_PREFIX
from paddock.record.changes.store import ChangeStore


class Victim:
    """A workspace in which a process is killed."""

    def __init__(self, store: str, workspace: str, set_id: str) -> None:
        self._store = ChangeStore(Path(store))
        self._workspace = Path(workspace)
        self._set_id = set_id

    def settle(self, action: str, moment: str) -> int:
        """Accept or undo, and return how many moments there were, unless this process is killed."""
        seen = 0

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal seen
            seen += 1
            if moment in {str(seen), frame.f_code.co_name if event == "call" else ""}:
                os.kill(os.getpid(), signal.SIGKILL)

        acceptor = Acceptor(self._store, self._workspace)
        with acceptor.open():
            sys.setprofile(count)
            if action == "undo":
                acceptor.undo(self._set_id)
            else:
                acceptor.accept(self._set_id)
            sys.setprofile(None)
        return seen

    def kill_many(self, runs: int) -> Iterator[dict[str, object]]:
        """Yield what was found after each kill."""
        old = read_tree(self._workspace)
        for action in ("accept", "undo"):
            self.settle(action, "0")  # the first time, more is called
        moments = self.settle("accept", "0")
        new = read_tree(self._workspace)
        dice = random.Random(runs)
        for _ in range(runs):
            is_new = read_tree(self._workspace) == new
            action = "undo" if is_new else "accept"
            moment = str(dice.randrange(1, moments))
            child = os.fork()
            if not child:
                self.settle(action, moment)
                os._exit(0)
            killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
            with Acceptor(self._store, self._workspace).open() as recovery:
                tree = read_tree(self._workspace)
                accepted = bool(self._store.read_state(self._set_id).accepted)
            left = [each.name for each in self._workspace.iterdir() if each.name.startswith(STAGING_PREFIX)]
            left += [each.name for each in self._store.directory.glob("*.journal")]
            yield {
                "tree": "old" if tree == old else "new" if tree == new else "a mixture",
                "changed": (tree == new) != is_new,
                "accepted": accepted,
                "killed": killed,
                "recovery": None
                if recovery is None
                else [recovery.action, recovery.finished, *recovery.kept],
                "action": action,
                "left": left,
            }


def main() -> None:
    """Run as the docstring says."""
    store, workspace, set_id, action, number = sys.argv[1:]
    victim = Victim(store, workspace, set_id)
    found = victim.kill_many(int(number)) if action == "many" else [victim.settle(action, number)]
    for each in found:
        sys.stdout.write(f"{json.dumps(each)}\n")


if __name__ == "__main__":
    main()
