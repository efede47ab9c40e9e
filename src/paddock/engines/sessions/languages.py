"""The languages that have sessions, and the drivers of their interpreters.

A driver gets the channel as descriptor 3, and an empty standard input; one that is launched without a shell gets the
channel as standard input. It reads requests and writes frames (`channel.py`). A request is

    json     a frame of JSON
    lines    for languages that cannot read JSON by themselves: a line with the number of the execution and the bytes
             of its text and of its input, and then these bytes
    bytes    for Python, which starts faster without its JSON: a frame with a line of the number and of the bytes of
             the input (-1 without one), then the input and the text
"""

from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import orjson

from paddock.engines.sessions.channel import pack_frame
from paddock.model.session import Kernel

_FOLDER = "engines/sessions/drivers"
_DISPLAY = "engines/programs/python_display"
_PYTHON = (f"{_DISPLAY}/display.py", f"{_FOLDER}/python.py", f"{_DISPLAY}/text.py")
_PY_COMPILE = """
import py_compile, sys
if sys.implementation.name != "cpython":
    sys.exit("it does not run compiled files")
py_compile.compile(sys.argv[1], sys.argv[2], "<driver>", doraise=True)
"""
_COMPILE_PYTHON = ("{executable}", "-I", "-S", "-c", _PY_COMPILE, "{source}", "{output}")
"""Without the packages of the interpreter, so that none can change the driver of later sessions."""
_LAUNCH = 'exec 3<&0 </dev/null; exec "$@"'
_LAUNCH_R = 'mkfifo "$TMPDIR/frames" && exec 3<&0 && { cat "$TMPDIR/frames" >&3 & } && exec "$@" 3<&-'
"""R reads standard input alone, and writes to no descriptor that it has not opened."""


class SessionDriver(NamedTuple):
    """What runs the texts of a session in one language."""

    files: tuple[str, ...]
    """Files of the package that are its program, one after the other."""
    start: str = ""
    """The last line of its program."""
    quoted: tuple[str, str] | None = None
    """A constant of its program, in JavaScript, and the file whose text it is."""
    launch: str = _LAUNCH
    """A command of the shell that starts the interpreter, which is its arguments; empty without a shell."""
    compile: tuple[str, ...] = ()
    """The words of a command that compiles its program into one that the same interpreter starts faster."""
    reads: Literal["json", "lines", "bytes"] = "json"
    """What its requests are."""
    takes_stdin: bool = False
    """Whether each execution may have standard input."""
    needs: str = ""
    """What it needs beside its interpreter. It cannot start without it."""
    remedy: str = ""
    """How to get that."""

    @property
    def text(self) -> str:
        """Its program."""
        text = "".join(map(_read_text, self.files)) + self.start
        if self.quoted is None:
            return text
        name, file = self.quoted
        return f"{text}const {name} = {orjson.dumps(_read_text(file)).decode()};\n"

    def pack_request(self, code: str, number: int, stdin: bytes | None) -> bytes:
        """Return the bytes that ask for an execution."""
        data = code.encode("utf-8", "surrogatepass")
        if self.reads == "lines":
            # No variable of a shell holds NUL: `printf %b` writes it, and a script with it is read without it.
            data = data.replace(b"\0", b"")
            given = (stdin or b"").replace(b"\\", b"\\\\").replace(b"\0", b"\\0000")
            return b"%d %d %d\n%b%b" % (number, len(data), len(given), data, given)
        text = data.decode("utf-8", "replace")
        if self.reads == "bytes":
            size = -1 if stdin is None else len(stdin)
            return pack_frame(b"%d %d\n%b%b" % (number, size, stdin or b"", text.encode()))
        bytewise = None if stdin is None else stdin.decode("latin-1")
        return pack_frame(orjson.dumps({"code": text, "number": number, "stdin": bytewise}))


_ACORN = "engines/javascript/js/vendor/acorn.js"
"""The parser that programs in V8 have, too."""
DRIVERS = {
    "python": SessionDriver(
        _PYTHON, "_Driver().serve()\n", launch="", compile=_COMPILE_PYTHON, reads="bytes", takes_stdin=True
    ),
    "shell": SessionDriver((f"{_FOLDER}/shell.sh",), reads="lines", takes_stdin=True),
    "node": SessionDriver((f"{_FOLDER}/node.js",), quoted=("ACORN", _ACORN)),
    "ruby": SessionDriver((f"{_FOLDER}/ruby.rb",), takes_stdin=True),
    "r": SessionDriver((f"{_FOLDER}/r.R",), launch=_LAUNCH_R, reads="lines"),
}
_IPYTHON = SessionDriver(
    (*_PYTHON, f"{_FOLDER}/ipython.py"),
    "_IPythonDriver().serve()\n",
    launch="",
    compile=_COMPILE_PYTHON,
    reads="bytes",
    takes_stdin=True,
    needs="IPython",
    remedy='name packages=["ipython"], or use an environment that has it (`environment` under [runtimes.python])',
)
NOTEBOOK = SessionDriver((*_PYTHON, f"{_FOLDER}/notebook.py"), "_NotebookDriver().serve()\n")
"""Runs the cells that it reads from standard input, and ends. It needs no channel."""


def find_driver(language: str, kernel: Kernel) -> SessionDriver | None:
    """Return the driver of a language; None if it has no sessions."""
    return _IPYTHON if kernel == "ipython" else DRIVERS.get(language)


@cache
def _read_text(file: str) -> str:
    return (files("paddock") / file).read_text(encoding="utf-8")
