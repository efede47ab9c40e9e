"""Accept or undo a change set, and be killed at the n-th call or return of a function, or at the first of a name.

    python -m tests.support.accept_killed STORE WORKSPACE ID accept|undo MOMENT

Prints how many moments there were.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from paddock.engines.changes.accept import Acceptor
from paddock.record.changes.store import ChangeStore


def main() -> None:
    """Run as the docstring says."""
    store, workspace, set_id, action, moment = sys.argv[1:]
    seen = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen
        seen += 1
        if moment in {str(seen), frame.f_code.co_name if event == "call" else ""}:
            os.kill(os.getpid(), signal.SIGKILL)

    acceptor = Acceptor(ChangeStore(Path(store)), Path(workspace))
    with acceptor.open():
        sys.setprofile(count)
        if action == "undo":
            acceptor.undo(set_id)
        else:
            acceptor.accept(set_id)
        sys.setprofile(None)
    sys.stdout.write(f"{seen}\n")


if __name__ == "__main__":
    main()
