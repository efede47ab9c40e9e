"""The scripts that people call by name, and where they are looked for."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from paddock.model.errors import ScriptNotFound
from paddock.texts import find_nearest

if TYPE_CHECKING:
    from paddock.model.request import Language

LANGUAGES: "dict[str, Language]" = {".ts": "typescript", ".js": "javascript", ".mjs": "javascript"}
SUFFIXES = tuple(LANGUAGES)
MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""Bytes of a script that are read, before any limit of a profile is known: more would fill memory."""
SEED_FOLDER = ".mentu"
"""Scripts below such a folder were written for another runner: their tool calls give raw results."""


class Script(NamedTuple):
    """A program, ready to be sent."""

    name: str
    """File name, for error texts; never a path."""
    source: str
    language: "Language" = "auto"
    raw_results: bool = False


def folders(workspace: Path) -> list[Path]:
    """Return the folders a name is looked for in, first match wins."""
    return list(dict.fromkeys((*_list_folders(workspace), *_list_folders(Path.home()))))


def _list_folders(home: Path) -> list[Path]:
    return [home / product / "scripts" for product in (".paddock", SEED_FOLDER)]


def list_scripts(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield every script by name and file, in search order: of two with one name, the first runs."""
    for folder in folders(workspace):
        files = [path for path in _list_files(folder) if path.suffix in SUFFIXES]
        for path in sorted(files, key=lambda path: (path.stem, SUFFIXES.index(path.suffix))):
            yield path.stem, path


def find(argument: str, workspace: Path) -> Path:
    """Return the file of a script's name or path. Raises ScriptNotFound, which tells where was searched."""
    if _is_path(argument):
        path = Path(os.path.expanduser(argument))  # `Path.expanduser` raises for an unknown user
        if not _is_there(path, Path.exists):
            raise ScriptNotFound(f"Script not found: {argument}\n  searched:\n    {path.absolute()}")
        return path
    names = [argument] if argument.endswith(SUFFIXES) else [argument + suffix for suffix in SUFFIXES]
    for folder in folders(workspace):
        for name in names:
            if _is_there(folder / name, Path.is_file):
                return folder / name
    searched = [f"    {folder / names[0]}{_other_suffixes(names)}" for folder in folders(workspace)]
    lines = [f"Script not found: {argument}", "  searched:", *searched]
    known = list(dict.fromkeys(name for name, _ in list_scripts(workspace)))
    if nearest := find_nearest(argument.removesuffix(Path(argument).suffix), known, most=3):
        lines.append(f"  did you mean: {', '.join(nearest)}?")
    elif not known:
        lines.append("  there are none yet: `paddock script new` makes one")
    raise ScriptNotFound("\n".join(lines))


def read(argument: str, workspace: Path, *, named: bool = False) -> Script:
    """Return the program of a name or a path, or of a name alone with `named`. Raises ScriptNotFound."""
    if named and _is_path(argument):
        raise ScriptNotFound(f"{argument}: a script is named here, without a folder")
    path = find(argument, workspace)
    if _is_path(argument):
        try:
            with path.open("rb") as file:  # it may be a pipe, for instance of `<(...)`
                raw = whole(argument, file)
        except OSError as problem:
            raise ScriptNotFound(f"{argument}: cannot read this script: {problem.strerror}") from None
    else:
        raw = read_saved(argument, path, workspace)
    seed = SEED_FOLDER in path.absolute().parts
    return Script(path.name, text(argument, raw), LANGUAGES.get(path.suffix, "auto"), raw_results=seed)


def read_saved(name: str, path: Path, workspace: Path | None) -> bytes:
    """Return what the file of a script holds that is called by name, or any file. Raises ScriptNotFound.

    One in the workspace is read from the workspace: whoever may write there, or made it, chooses where links lead, and
    a program that runs scripts by name would read any file. The user's own may be anywhere.
    """
    from paddock.files import read_bounded  # a program by its path starts without

    within = None if workspace is None or path.parent in _list_folders(Path.home()) else workspace.resolve()
    try:
        return read_bounded(path, MAX_SCRIPT_BYTES, within=within)
    except OSError as problem:
        why = problem.strerror
        if problem.errno == errno.EXDEV:
            why = "it leads out of the workspace; run it by its path, or keep it in the home directory"
        raise ScriptNotFound(f"{name}: cannot read this script: {why}") from None


def whole(what: str, file: BinaryIO) -> bytes:
    """Return a program that comes out of a pipe or a file, to its end. Raises ScriptNotFound when it has none."""
    raw = file.read(MAX_SCRIPT_BYTES + 1)
    if len(raw) > MAX_SCRIPT_BYTES:
        raise ScriptNotFound(f"{what}: cannot read this script: larger than {MAX_SCRIPT_BYTES} bytes")
    return raw


def _is_path(argument: str) -> bool:
    marked = "/" in argument or argument.startswith((".", "~"))
    return marked or (argument.endswith(SUFFIXES) and _is_there(Path(argument), Path.is_file))


def _is_there(path: Path, look: Callable[[Path], bool]) -> bool:
    """Tell what a look at a path says. Raises ScriptNotFound when it cannot be looked at."""
    try:
        return look(path)
    except OSError as problem:
        if problem.errno == errno.ENAMETOOLONG:
            return False
        from paddock.files import strange_home

        why = f"{problem.strerror}{strange_home(path, problem)}"
        raise ScriptNotFound(f"{path}: cannot read this script: {why}") from None


def _list_files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if os.path.isfile(path)]
    except OSError:
        return []


def _other_suffixes(names: list[str]) -> str:
    return f" ({', '.join(SUFFIXES[1:])})" if names[1:] else ""


def text(what: str, raw: bytes) -> str:
    """Return a program as text. Raises ScriptNotFound when it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ScriptNotFound(
            f"{what}: this is not UTF-8 text (byte {problem.start + 1}); save it as UTF-8"
        ) from None
