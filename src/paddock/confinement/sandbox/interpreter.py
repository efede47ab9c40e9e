"""Start Paddock's helper processes: this process's interpreter, without site-packages and environment."""

import subprocess
import sys
from pathlib import Path

from paddock.confinement.sandbox.child import preflight
from paddock.model.errors import EngineError, explain_start_failure

CHILD_PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def start(module: str, *arguments: str, keep: int) -> subprocess.Popen[bytes]:
    """Run `main()` of a module of this package with `arguments`; the descriptor `keep` stays open in the child.

    Raises EngineError if the system cannot start a process or does not meet the requirements of `preflight`.
    """
    if lacking := preflight.find_missing():
        raise EngineError(lacking)
    package = str(Path(__file__).parents[3])
    command = [sys.executable, "-I", "-S", "-c", CHILD_PROGRAM.format(module=module), package, *arguments]
    try:
        return subprocess.Popen(  # noqa: S603  (our own program)
            command,
            env={},
            pass_fds=[keep],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # only the parent handles Ctrl-C, from the first moment
        )
    except OSError as error:
        raise EngineError(
            explain_start_failure(f"{module} could not be started ({error.strerror})")
        ) from error
