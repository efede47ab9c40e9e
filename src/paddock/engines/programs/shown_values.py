"""Values that a Python program shows outside of a session: rich forms of objects, figures, images.

before   a folder in scratch gets `python_display/`, and is the first on the path of Python
program  imports a library that shows something: only then the rest is loaded
after    the file `shown` in that folder has a frame for each value; it is as hostile as all that a program writes
"""

import os
import re
import sys
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path

from paddock.engines.programs.workdir import read_below, write_files
from paddock.model.limits import MIB

_FOLDER, _FILE = ".paddock", "shown"
_VARIABLE = "PYTHONPATH"
_SHOWN = ("display", "text", "program")
"""Files of `python_display/` that are one module in scratch, one after the other."""
_MAX_BYTES = 32 * MIB
_LIBRARY_PATTERN = re.compile(r"\b(?:matplotlib|plotly|bokeh|PIL|IPython|webbrowser)\b")
_IMPORT_PATTERN = re.compile(r"(?:^|[;:])[ \t]*(?:import|from)[ \t]+([\w., \t]+)", re.MULTILINE)


def may_show(code: str | None) -> bool:
    """Return whether a program may import a library that shows something: it names one, or a foreign module.

    Every other program starts without the hook: an interpreter takes two milliseconds longer to start with it.
    """
    if code is None or _LIBRARY_PATTERN.search(code):
        return True
    named = (
        name
        for listed in _IMPORT_PATTERN.findall(code)
        for name in listed.partition(" import ")[0].split(",")
    )
    return any(re.split(r"[.\s]", name.strip())[0] not in sys.stdlib_module_names for name in named)


def write_hook(scratch: Path) -> None:
    """Put what shows values into the scratch of a program."""
    folder = scratch / _FOLDER
    folder.mkdir(mode=0o700)
    os.chown(folder, scratch.stat().st_uid, -1)
    write_files(_read_hook(), folder)


def add_variable(environment: Mapping[str, str], scratch: Path) -> dict[str, str]:
    """Return the environment of a program that has the hook; the hook removes what is added here."""
    own = environment.get(_VARIABLE)
    path = f"{scratch}/{_FOLDER}"
    return {**environment, _VARIABLE: path if own is None else f"{path}{os.pathsep}{own}"}


def read_shown(scratch: Path) -> bytes:
    """Return the frames that a program left; nothing without any, or where something else is in their place."""
    if not os.path.lexists(scratch / _FOLDER / _FILE):
        return b""
    try:
        return read_below(scratch, f"{_FOLDER}/{_FILE}", _MAX_BYTES)
    except (OSError, ValueError):
        return b""


@cache
def _read_hook() -> dict[str, bytes]:
    folder = files("paddock.engines.programs") / "python_display"
    texts = {name: (folder / f"{name}.py").read_bytes() for name in (*_SHOWN, "sitecustomize")}
    shown = b"".join(texts[name] for name in _SHOWN)
    return {"sitecustomize.py": texts["sitecustomize"], "display.py": shown}
