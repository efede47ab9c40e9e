"""Read programs at a terminal, line by line, with the editing and the history of readline."""

import ast
import builtins
import codeop
import keyword
import re
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from paddock.foundation.files import make_private, read_bounded, replace_file
from paddock.surfaces.cli.table import warn

try:
    import readline
except ImportError:  # a Python that was built without it: lines are read, but not edited
    readline = None

MAX_HISTORY_LINES = 2000
"""Maximum number of lines in the history file."""
_MAX_HISTORY_BYTES = 4 * 1024 * 1024
_KEEP_BACKSLASH = frozenset({"python", "ruby", "shell"})
"""Languages in which a backslash at the end of a line continues it."""
_NAME = re.compile(r"[^\W\d]\w{2,63}")
"""A name that is worth completing."""
_DELIMITERS = " \t\n`~!@#$%^&*()-=+[{]}\\|;'\",<>/?."
_PYTHON_NAMES = frozenset(name for name in (*keyword.kwlist, *dir(builtins)) if len(name) > 2)
PASTE, END_OF_PASTE = ":paste", ":end"


class LineInput:
    """Reads one program after another. `close` stores the history."""

    def __init__(
        self, language: str, history: Path, has_secret: Callable[[str], bool], commands: Iterable[str] = ()
    ) -> None:
        """Keep no program in the history that holds a secret, as `has_secret` says of a text.

        Tab completes `commands`, and the names that earlier lines hold.
        """
        self._language = language
        self._has_secret = has_secret
        self._first, self._next = f"{language}> ", f"{'...'.rjust(len(language))}> "
        self._names: set[str] = set(commands) | (_PYTHON_NAMES if language == "python" else frozenset())
        self._history = _History(history, self._complete)

    def read(self) -> str | None:
        """Return the next program or command; None at the end of the input.

        Raises KeyboardInterrupt for Ctrl-C, which discards the lines of an unfinished program.
        """
        lines: list[str] = []
        pasting = False
        try:
            while True:
                lines.append(input(self._next if lines else self._first))
                self._history.add(lines[-1])
                self._names.update(_NAME.findall(lines[-1]))
                if lines[0].strip() == PASTE:
                    pasting = True
                if pasting:
                    if lines[-1].strip() == END_OF_PASTE:
                        return "\n".join(lines[1:-1])
                elif is_complete(self._language, text := "\n".join(lines)):
                    return text if self._language in _KEEP_BACKSLASH else text.replace("\\\n", "\n")
        except EOFError:
            # Ctrl-D within a program ends the program, and at an empty prompt the input.
            return "\n".join(lines[int(pasting) :]) if lines else None
        finally:
            if self._has_secret("\n".join(lines)):
                self._history.forget(len(lines))

    def _complete(self, text: str, state: int) -> str | None:
        """Return the completion number `state` of a word; at the start of a line, insert a tab."""
        if not text:
            if state == 0 and readline is not None:
                readline.insert_text("\t")
                readline.redisplay()
                return ""
            return None
        found = sorted(name for name in self._names if name.startswith(text) and name != text)
        return found[state] if state < len(found) else None

    def close(self) -> None:
        """Store the history. A file that cannot be written is a warning."""
        self._history.store()


def is_complete(language: str, text: str) -> bool:
    """Return whether a program needs no further line.

    In Python this is what its own prompt would say; an error of syntax counts as complete, because the interpreter of
    the session reports it. In other languages a backslash at the end asks for another line.
    """
    if language != "python":
        return not text.endswith("\\")
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return compiler(text, "<input>", "single") is not None
        except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
            return True


class _History:
    """The lines that earlier prompts and this one read."""

    def __init__(self, file: Path, completer: Callable[[str, int], str | None]) -> None:
        self._file = file
        self._added: list[str] = []
        if readline is None:
            return
        readline.set_auto_history(False)
        # The default completes names of files that the session cannot see.
        readline.set_completer(completer)
        readline.set_completer_delims(_DELIMITERS)
        readline.parse_and_bind("tab: complete")
        readline.clear_history()
        for line in self._read_stored():
            readline.add_history(line)

    def add(self, text: str) -> None:
        """Add a line; a pasted one may hold several."""
        self._added.append(text)
        if readline is not None and text.strip():
            readline.add_history(text)

    def forget(self, count: int) -> None:
        """Remove the last lines."""
        for text in reversed(self._added[len(self._added) - count :]):
            if readline is not None and text.strip():
                readline.remove_history_item(readline.get_current_history_length() - 1)
        del self._added[len(self._added) - count :]

    def store(self) -> None:
        """Append the lines to the file, which other prompts may have changed meanwhile."""
        new = [line for text in self._added for line in text.split("\n") if line.strip()]
        self._added.clear()
        if readline is None or not new:
            return
        lines = [*self._read_stored(), *new][-MAX_HISTORY_LINES:]
        data = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        try:
            make_private(self._file.parent)
            replace_file(self._file, data)
        except OSError as error:
            warn(f"the history was not stored in {self._file}: {error.strerror}")

    def _read_stored(self) -> list[str]:
        with suppress(OSError):
            text = read_bounded(self._file, _MAX_HISTORY_BYTES).decode("utf-8", "replace")
            return text.splitlines()[-MAX_HISTORY_LINES:]
        return []
