"""Tell a person at the command line where the files of a program are, and copy them into a directory.

A program chose the names, and an earlier program may have put links into the directory. Therefore nothing is written
through a link, over an existing file, or under a name whose content tools run.
"""

import hashlib
import shlex
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Protocol

from paddock.confinement.sandbox.child.protected_names import PROTECTED_PATHS, PROTECTED_PATTERNS
from paddock.foundation.files import write_below
from paddock.gate.stored_output import open_artifacts
from paddock.model.base import count
from paddock.model.outcome import Outcome
from paddock.model.session import IMAGE_SUFFIXES
from paddock.model.work_files import OutputFile
from paddock.policy.settings.schema import Settings
from paddock.surfaces.cli.failure import CommandFailure
from paddock.surfaces.rendering.terminal import escape_name

_PROTECTED_NAMES = {*PROTECTED_PATHS, *(pattern.removeprefix("**/") for pattern in PROTECTED_PATTERNS)}


class StoredFiles(Protocol):
    """What has the files of a program."""

    def read_file(self, file: OutputFile) -> bytes:
        """Return the content of a stored file."""
        ...

    def name_source(self, file: OutputFile) -> str:
        """Return where a stored file is, for a person."""
        ...


class LocalFiles:
    """Files that are stored on this machine."""

    def __init__(self, settings: Settings, workspace: Path) -> None:
        self._artifacts = open_artifacts(settings)
        self._workspace = workspace

    def read_file(self, file: OutputFile) -> bytes:
        """Return the content of a stored file."""
        return self._artifacts.read(str(file.handle), self._workspace)

    def name_source(self, file: OutputFile) -> str:
        """Return the command that writes a stored file."""
        name = PurePath(file.path).name
        target = shlex.quote(name) if name.isprintable() else "FILE"
        return f"paddock output get {file.handle} -o {target}"


def save_files(outcome: Outcome, stored: StoredFiles, target: Path | None, *, exit_code: int) -> str:
    """Write files to the directory `target`, if one is given, and return one line for each file of a program.

    Images and pages that the program displayed are among them, as `result-1.png`.

    Raises Failure, with `exit_code`, for a file that cannot be written. No file is replaced.
    """
    lines: list[str] = []
    for file, data in (*_list_shown(outcome), *((file, None) for file in outcome.files)):
        size, shown = count(file.size, "byte"), escape_name(file.path)
        if file.handle is None and (data is None or target is None):
            lines.append(f"{shown} ({size}) was not stored: {file.not_kept}")
            continue
        where = stored.name_source(file) if file.handle else "it is not stored"
        if target is not None:
            if (name := find_special_name(file.path)) is not None:
                lines.append(
                    f"{shown} ({size}) was not written, because tools may run what {escape_name(name)} holds: {where}"
                )
                continue
            try:
                target.mkdir(parents=True, exist_ok=True)
                write_below(target, file.path, stored.read_file(file) if data is None else data)
            except OSError as error:
                exists = isinstance(error, FileExistsError)
                why = (
                    "it exists already; remove it, or choose another directory" if exists else error.strerror
                )
                told = f"{target / shown} cannot be written: {why}; it is stored: {where}"
                raise CommandFailure(told, exit_code=exit_code) from None
            where = str(target / shown)
        lines.append(f"{shown} ({size}): {where}")
    return "\n".join(lines)


def _list_shown(outcome: Outcome) -> Iterator[tuple[OutputFile, bytes]]:
    """Yield the images and pages that a program displayed, as files. A session shows tables as text, too."""
    for number, result in enumerate(outcome.results, 1):
        kind = result.image_type or ("text/html" if outcome.session is None and result.html else "")
        if (data := result.read(kind)) is not None:
            yield (
                OutputFile(
                    path=f"result-{number}{IMAGE_SUFFIXES.get(kind, '.html')}",
                    size=len(data),
                    media_type=kind,
                    sha256=hashlib.sha256(data).hexdigest(),
                    handle=result.handles.get(kind),
                    not_kept="give --output-dir, or leave out --no-keep",
                ),
                data,
            )


def find_special_name(path: str) -> str | None:
    """Return the part of a path that is hidden or protected, such as `.git` or `HEAD`; None for an ordinary path."""
    return next((part for part in path.split("/") if part.startswith(".") or part in _PROTECTED_NAMES), None)
