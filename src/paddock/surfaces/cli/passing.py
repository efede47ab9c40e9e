"""Pass the output of a program on while it runs: bytes to a pipe, harmless text to a terminal."""

import os
import signal
import sys
from collections.abc import Callable
from typing import Literal, TextIO

from paddock.confine.output import decoded
from paddock.surfaces.render import encodable, for_terminal


class Passing:
    """Writes each stream to ours of the same name.

    `broken` is set when nobody reads any more; then the command is told to end, as if by SIGTERM.
    """

    def __init__(self) -> None:
        self.broken = False
        self._write = {"stdout": _writer(sys.stdout), "stderr": _writer(sys.stderr)}

    def take(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take the next output of the program. Never raises."""
        if self.broken:
            return
        try:
            self._write[stream](data)
        except OSError:
            self.broken = True
            os.kill(os.getpid(), signal.SIGTERM)


def _writer(file: TextIO) -> Callable[[bytes], None]:
    def write(data: bytes) -> None:
        file.buffer.write(data)
        file.buffer.flush()

    def show(text: str) -> None:
        file.write(encodable(for_terminal(text)))
        file.flush()

    return decoded(show) if file.isatty() else write
