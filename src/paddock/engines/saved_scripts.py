"""Saved scripts, which are called by name, and the folders that hold them."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from paddock.model.compat import SCRIPTS_FOLDER
from paddock.model.errors import ScriptNotFound
from paddock.model.texts import find_nearest

if TYPE_CHECKING:
    from paddock.model.request import Language

LANGUAGES: "dict[str, Language]" = {".ts": "typescript", ".js": "javascript", ".mjs": "javascript"}
SUFFIXES = tuple(LANGUAGES)
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""Maximum size of a script that is read, in bytes. The limits of a profile are not known at that time."""


class Script(NamedTuple):
    """A program to run."""

    name: str
    """File name for error texts; never a path."""
    source: str
    language: "Language" = "auto"
    raw_results: bool = False


def folders(workspace: Path) -> list[Path]:
    """Return the folders that are searched for a name; the first match wins."""
    return list(dict.fromkeys((*_list_folders(workspace), *_list_folders(Path.home()))))


def _list_folders(home: Path) -> list[Path]:
    return [home / product / "scripts" for product in (".paddock", SCRIPTS_FOLDER)]


def list_scripts(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and file of every script in search order; of two with the same name, the first runs."""
    for folder in folders(workspace):
        files: list[Path] = []
        with suppress(OSError):
            files = [path for path in folder.iterdir() if path.suffix in SUFFIXES and os.path.isfile(path)]
        for path in sorted(files, key=lambda path: (path.stem, SUFFIXES.index(path.suffix))):
            yield path.stem, path


def find(argument: str, workspace: Path) -> Path:
    """Return the file of a script by its name or path. Raises ScriptNotFound, which lists what was searched."""
    if _is_path(argument):
        path = Path(os.path.expanduser(argument))  # for an unknown user, `Path.expanduser` raises
        if not _is_there(path, Path.exists):
            raise ScriptNotFound(f"Script not found: {argument}\n  searched:\n    {path.absolute()}")
        return path
    names = [argument] if argument.endswith(SUFFIXES) else [argument + suffix for suffix in SUFFIXES]
    for folder in folders(workspace):
        for name in names:
            if _is_there(folder / name, Path.is_file):
                return folder / name
    others = f" ({', '.join(SUFFIXES[1:])})" if names[1:] else ""
    searched = [
        f"    {folder / names[0]}{others}"
        for folder in folders(workspace)
        if SCRIPTS_FOLDER not in folder.parts or _is_there(folder, Path.is_dir)
    ]
    lines = [f"Script not found: {argument}", "  searched:", *searched]
    known = list(dict.fromkeys(name for name, _ in list_scripts(workspace)))
    if nearest := find_nearest(argument.removesuffix(Path(argument).suffix), known, limit=3):
        lines.append(f"  did you mean: {', '.join(nearest)}?")
    elif not known:
        lines.append("  there are no scripts yet; run `paddock script new` to make one")
    raise ScriptNotFound("\n".join(lines))


def read(argument: str, workspace: Path, *, named: bool = False) -> Script:
    """Return the program of a name or a path; with `named`, of a name only. Raises ScriptNotFound."""
    if named and _is_path(argument):
        raise ScriptNotFound(f"{argument}: is a path; give the name of a saved script, without a folder")
    path = find(argument, workspace)
    if _is_path(argument):
        try:
            with path.open("rb") as file:  # it may be a pipe, as in `<(...)`
                raw = whole(argument, file)
        except OSError as problem:
            raise ScriptNotFound(f"{argument}: cannot read this script: {problem.strerror}") from None
    else:
        raw = read_saved(argument, path, workspace)
    compatible = SCRIPTS_FOLDER in path.absolute().parts
    return Script(path.name, text(argument, raw), LANGUAGES.get(path.suffix, "auto"), raw_results=compatible)


def read_saved(name: str, path: Path, workspace: Path | None) -> bytes:
    """Return the content of a script's file. Raises ScriptNotFound.

    A script of the workspace must not lead out of it: its author chooses where links lead, and a program that runs
    scripts by name could read any file. The user's own scripts may be anywhere.
    """
    from paddock.foundation.files import read_bounded  # not needed to run a program by its path

    within = None if workspace is None or path.parent in _list_folders(Path.home()) else workspace.resolve()
    try:
        return read_bounded(path, MAX_SCRIPT_BYTES, within=within)
    except OSError as problem:
        why = problem.strerror
        if problem.errno == errno.EXDEV:
            why = "it leads out of the workspace; run it by its path, or save it in the home directory"
        raise ScriptNotFound(f"{name}: cannot read this script: {why}") from None


def whole(what: str, file: BinaryIO) -> bytes:
    """Return the whole program from a pipe or a file. Raises ScriptNotFound above `MAX_SCRIPT_BYTES`."""
    raw = file.read(MAX_SCRIPT_BYTES + 1)
    if len(raw) > MAX_SCRIPT_BYTES:
        raise ScriptNotFound(f"{what}: cannot read this script: larger than {MAX_SCRIPT_BYTES} bytes")
    return raw


def _is_path(argument: str) -> bool:
    marked = "/" in argument or argument.startswith((".", "~"))
    return marked or (argument.endswith(SUFFIXES) and _is_there(Path(argument), Path.is_file))


def _is_there(path: Path, look: Callable[[Path], bool]) -> bool:
    """Return what `look` returns for a path. Raises ScriptNotFound if the path cannot be read."""
    try:
        return look(path)
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            return False
        from paddock.foundation.files import strange_home

        why = f"{problem.strerror}{strange_home(path, problem)}"
        raise ScriptNotFound(f"{path}: cannot read this script: {why}") from None


def text(what: str, raw: bytes) -> str:
    """Return a program as text. Raises ScriptNotFound if it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ScriptNotFound(
            f"{what}: this is not UTF-8 text (byte {problem.start + 1}); save it as UTF-8"
        ) from None
