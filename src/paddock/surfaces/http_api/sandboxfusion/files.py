"""The files of requests and answers. Paths are relative to the working directory, and lead through no link."""

import base64
import binascii
import errno
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from paddock.engines.programs.workdir import IrregularFileError, read_below
from paddock.model.limits import MIB
from paddock.model.texts import explain
from paddock.model.work_files import MAX_INPUT_FILES, InputFile, check_input_files, normalize_path
from paddock.surfaces.http_api.sandboxfusion.errors import InvalidRequest, reject_value

MAX_FETCHED_BYTES = 64 * MIB
"""Maximum size of all fetched files together, in bytes."""
_IGNORED = "IGNORE_THIS_FILE"
"""A file whose name contains this is skipped."""


class PaddingError(ValueError):
    """A file is not base64. SandboxFusion reports this as its own failure."""


def decode_files(files: Mapping[str, str | None]) -> tuple[InputFile, ...]:
    """Return the files of a request. Characters that are not base64 are ignored, as by SandboxFusion.

    Raises InvalidRequest for a path that is not relative, for too many or too large files, and for files that one
    directory cannot hold; PaddingError for base64 that ends too early.
    """
    taken = [(path, text) for path, text in files.items() if text is not None and _IGNORED not in path]
    if len(taken) > MAX_INPUT_FILES:
        fault = f"there are {len(taken)} files, and at most {MAX_INPUT_FILES} are allowed"
        raise reject_value(["files"], fault, None)
    given: list[InputFile] = []
    for path, text in taken:
        try:
            data = base64.b64decode(text.encode("utf-8", "replace"))
        except binascii.Error as error:
            raise PaddingError(str(error)) from None
        try:
            given.append(InputFile(path=path, data=data))
        except ValidationError as problem:
            raise reject_value(["files", path], "; ".join(explain(problem)), text) from None
    try:
        check_input_files(given)
    except ValueError as problem:
        raise reject_value(["files"], str(problem), list(files)) from None
    return tuple(given)


def check_fetched_paths(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of files to fetch. Raises InvalidRequest for one that is not relative."""
    for position, path in enumerate(paths):
        try:
            normalize_path(path)
        except ValueError as problem:
            raise reject_value(["fetch_files", position], str(problem), path) from None
    return tuple(dict.fromkeys(paths))


class FetchedFiles:
    """Reads the wanted files of a program that has ended."""

    def __init__(self, paths: Sequence[str], hide: Callable[[bytes], bytes]) -> None:
        """Read `paths`, which were checked. `hide` removes secrets from a text."""
        self._paths = paths
        self._hide = hide
        self.contents: dict[str, str] = {}
        """The files that were there, in base64 by path."""
        self.refusal: InvalidRequest | None = None
        """Why a file that is there cannot be fetched."""

    def read(self, folder: Path) -> None:
        """Read the files in the working directory. The program may have left anything there."""
        left = MAX_FETCHED_BYTES
        for position, path in enumerate(self._paths):
            try:
                data = read_below(folder, path, left)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    self._refuse(
                        position, path, f"{path} is a link, or leads through one; links are not followed"
                    )
                continue
            except IrregularFileError:
                continue
            except ValueError as error:
                self._refuse(position, path, str(error))
                continue
            left -= len(data)
            self.contents[path] = base64.b64encode(self._hide(data)).decode()

    def _refuse(self, position: int, path: str, why: str) -> None:
        self.refusal = self.refusal or reject_value(["fetch_files", position], why, path)
