"""Random sequences of file operations, as a program makes them, for property tests."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from hypothesis import strategies as st

Operation = tuple[str, str, str, int]

_NAMES = ("a", "b", "A", "new\nline", "sp ace", "ä", "\udcff", "-x", "*")
PATHS = [
    *_NAMES,
    *(f"{outer}/{inner}" for outer in ("a", "b", "new\nline") for inner in ("a", "b", "\udcfe")),
    "a/b/c",
    "b/a/c",
]
_HAS_POWERS = "CapEff:\t0000000000000000" not in Path("/proc/self/status").read_text()
_KINDS = (
    "write",
    "append",
    "truncate",
    "unlink",
    "mkdir",
    "rmtree",
    "rename",
    "link",
    "symlink",
    "chmod",
    "sparse",
    "file_to_directory",
    "directory_to_file",
)
OPERATIONS: st.SearchStrategy[list[Operation]] = st.lists(
    st.tuples(st.sampled_from(_KINDS), st.sampled_from(PATHS), st.sampled_from(PATHS), st.integers(0, 0o777)),
    max_size=14,
)


def run_operations(root: Path, operations: Sequence[Operation]) -> None:
    """Run the operations in a directory; those that fail have no effect, as in a program that ignores errors."""
    for kind, path, other, number in operations:
        try:
            _ACTIONS[kind](root / path, root / other, number)
        except (OSError, shutil.Error):
            continue


def _write(path: Path, _: Path, number: int) -> None:
    path.write_text(f"{number % 7}\n" * (number % 5))


def _append(path: Path, _: Path, number: int) -> None:
    with path.open("a") as file:
        file.write(f"more {number % 3}\n")


def _link(path: Path, other: Path, _: int) -> None:
    os.link(path, other, follow_symlinks=False)


def _symlink(path: Path, other: Path, _: int) -> None:
    path.symlink_to(other.name)


def _chmod(path: Path, _: Path, number: int) -> None:
    if not path.is_symlink():
        # Only root can compare what its owner has closed.
        path.chmod(number if os.geteuid() == 0 and _HAS_POWERS else number | 0o700)


def _sparse(path: Path, _: Path, number: int) -> None:
    with path.open("wb") as file:
        file.truncate(number * 100)


def _file_to_directory(path: Path, _: Path, number: int) -> None:
    path.unlink()
    path.mkdir()
    (path / "a").write_text(str(number))


def _directory_to_file(path: Path, _: Path, number: int) -> None:
    shutil.rmtree(path)
    path.write_text(str(number))


_ACTIONS: dict[str, Callable[[Path, Path, int], object]] = {
    "write": _write,
    "append": _append,
    "truncate": lambda path, _, number: os.truncate(path, number % 4),
    "unlink": lambda path, *_: path.unlink(),
    "mkdir": lambda path, *_: path.mkdir(parents=True),
    "rmtree": lambda path, *_: shutil.rmtree(path),
    "rename": lambda path, other, _: path.rename(other),
    "link": _link,
    "symlink": _symlink,
    "chmod": _chmod,
    "sparse": _sparse,
    "file_to_directory": _file_to_directory,
    "directory_to_file": _directory_to_file,
}
