"""The scripts that people call by name, and where they are looked for (spec 1.1, M1 to M5)."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paddock.model.errors import ScriptNotFound

if TYPE_CHECKING:
    from paddock.model.request import Language

LANGUAGES: "dict[str, Language]" = {".ts": "typescript", ".js": "javascript", ".mjs": "javascript"}
SUFFIXES = tuple(LANGUAGES)
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
    homes = (workspace, Path.home())
    found = [home / product / "scripts" for home in homes for product in (".paddock", SEED_FOLDER)]
    return list(dict.fromkeys(found))


def listed(workspace: Path) -> Iterator[tuple[str, Path]]:
    """Yield every script by name and file, in search order: of two with one name, the first runs."""
    for folder in folders(workspace):
        files = [path for path in _files(folder) if path.suffix in SUFFIXES]
        for path in sorted(files, key=lambda path: (path.stem, SUFFIXES.index(path.suffix))):
            yield path.stem, path


def find(argument: str, workspace: Path) -> Path:
    """Return the file of a script's name or path. Raises ScriptNotFound, which tells where was searched (M3)."""
    if _is_path(argument):
        path = Path(argument).expanduser()
        if not path.exists():
            raise ScriptNotFound(f"Script not found: {argument}\n  searched:\n    {path.absolute()}")
        return path
    names = [argument] if argument.endswith(SUFFIXES) else [argument + suffix for suffix in SUFFIXES]
    for folder in folders(workspace):
        for name in names:
            if (folder / name).is_file():
                return folder / name
    from difflib import get_close_matches  # noqa: PLC0415 - only mistakes pay for it

    searched = [f"    {folder / names[0]}{_others(names)}" for folder in folders(workspace)]
    lines = [f"Script not found: {argument}", "  searched:", *searched]
    known = list(dict.fromkeys(name for name, _ in listed(workspace)))
    if nearest := get_close_matches(argument.removesuffix(Path(argument).suffix), known):
        lines.append(f"  did you mean: {', '.join(nearest)}?")
    raise ScriptNotFound("\n".join(lines))


def read(argument: str, workspace: Path, *, named: bool = False) -> Script:
    """Return the program of a name or a path, or of a name alone with `named`. Raises ScriptNotFound."""
    if named and _is_path(argument):
        raise ScriptNotFound(f"{argument}: a script is named here, without a folder")
    path = find(argument, workspace)
    try:
        raw = path.read_bytes()
    except OSError as problem:
        raise ScriptNotFound(f"{argument}: cannot read this script: {problem.strerror}") from None
    seed = SEED_FOLDER in path.absolute().parts
    return Script(path.name, text(argument, raw), LANGUAGES.get(path.suffix, "auto"), raw_results=seed)


def _is_path(argument: str) -> bool:
    marked = "/" in argument or argument.startswith((".", "~"))
    return marked or (argument.endswith(SUFFIXES) and Path(argument).is_file())


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []


def _others(names: list[str]) -> str:
    return f" ({', '.join(Path(name).suffix for name in names[1:])})" if names[1:] else ""


def text(what: str, raw: bytes) -> str:
    """Return a program as text. Raises ScriptNotFound when it is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise ScriptNotFound(
            f"{what}: this is not UTF-8 text (byte {problem.start + 1}); save it as UTF-8"
        ) from None
