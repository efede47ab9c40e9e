"""Start Paddock's own helper processes: the interpreter of this one, without site-packages and environment.

Only the standard library may be imported here.
"""

import subprocess
import sys
from pathlib import Path

_CHILD = "import sys; sys.path.insert(0, sys.argv.pop(1)); from {module} import main; main()"


def start(module: str, *arguments: str, keep: int) -> subprocess.Popen[bytes]:
    """Run `main()` of a module of this package with `arguments`, and with the descriptor `keep` open."""
    package = str(Path(__file__).parents[2])
    command = [sys.executable, "-I", "-S", "-c", _CHILD.format(module=module), package, *arguments]
    return subprocess.Popen(  # noqa: S603  (our own program)
        command,
        env={},
        pass_fds=[keep],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,  # Ctrl-C is the server's to handle, from the first moment on
    )
