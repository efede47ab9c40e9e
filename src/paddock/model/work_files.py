"""Files that a program is given in its working directory, and files that it leaves there."""

import hashlib
import unicodedata
from base64 import b64decode
from collections.abc import Callable, Iterable
from typing import Annotated, Self, cast

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from paddock.model.base import Json, Value
from paddock.model.errors import UnknownArtifact
from paddock.model.limits import MIB

MAX_INPUT_FILES = 100
INPUT_BYTES = 64 * MIB
"""Maximum size of all input files of one program."""
PATH_CHARS = 1024
PATH_DEPTH = 32
NAME_BYTES = 255
"""NAME_MAX of Linux, limits.h(0p)."""
MAX_PATTERNS = 100


Pattern = Annotated[str, Field(min_length=1, max_length=PATH_CHARS)]
"""Shell pattern of paths or names (fnmatch): `*.png` matches in every directory, `plots/*.png` in one."""


class InputFile(Value):
    """A file that is written into the working directory before a program starts."""

    path: Annotated[str, Field(max_length=PATH_CHARS)]
    """Where, relative to the working directory."""
    data: Annotated[bytes, Field(max_length=INPUT_BYTES)] | None = None
    """What it holds, where it does not come from elsewhere."""
    workspace: Annotated[str, Field(max_length=PATH_CHARS)] | None = None
    """Path of a file of the workspace to copy, relative to it. It leads through no link, and policy grants reading."""
    artifact: Annotated[str, Field(max_length=PATH_CHARS)] | None = None
    """Handle of a stored file or output of this workspace to copy."""

    @field_validator("path")
    @classmethod
    def _normalize_path(cls, path: str) -> str:
        return normalize_path(path)

    @field_validator("workspace")
    @classmethod
    def _normalize_source(cls, path: str | None) -> str | None:
        return None if path is None else normalize_path(path)

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(source is not None for source in (self.data, self.workspace, self.artifact)) != 1:
            raise ValueError(
                f"{self.path!r} needs one source: its content, or a file of the workspace or an artifact"
            )
        return self

    @property
    def size(self) -> int:
        """Bytes of its content; 0 for a file that comes from elsewhere."""
        return len(self.data or b"")

    def identify(self) -> tuple[str, ...]:
        """Return what stands for the file in the hash of a request."""
        source = hashlib.sha256(self.data).hexdigest() if self.data is not None else ""
        return self.path, source, self.workspace or "", self.artifact or ""


class GivenFile(Value):
    """An input file as clients write it in JSON: its path, and one source."""

    path: str
    text: str | None = None
    base64: bytes | None = None
    workspace: str | None = None
    artifact: str | None = None

    @field_validator("base64", mode="before")
    @classmethod
    def _decode(cls, text: object) -> object:
        try:
            return b64decode(text, validate=True) if isinstance(text, str) else text
        except ValueError:
            raise ValueError("it is not base64 (RFC 4648, section 4)") from None

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if sum(each is not None for each in (self.text, self.base64, self.workspace, self.artifact)) != 1:
            raise ValueError(
                f"{self.path!r} needs one of `text`, `base64`, `workspace` (a path) and `artifact` (a handle)"
            )
        return self

    def to_input_file(self) -> InputFile:
        """Return the file as a request has it. Raises ValidationError."""
        data = self.base64 if self.text is None else self.text.encode("utf-8", "replace")
        return InputFile(path=self.path, data=data, workspace=self.workspace, artifact=self.artifact)


def read_files_by_path(value: object) -> object:
    """Return an object of texts by path as a list of files; every other value unchanged, also a single file.

    `{"path": "a", "text": "b"}` could mean one file or two.
    """
    if not isinstance(value, dict):
        return value
    members = cast("dict[object, object]", value)
    if "path" in members or not all(isinstance(text, str) for text in members.values()):
        return members
    return [{"path": path, "text": text} for path, text in members.items()]


GivenFiles = Annotated[
    list[GivenFile], Field(max_length=MAX_INPUT_FILES), BeforeValidator(read_files_by_path)
]
"""Files as clients write them: a list, or texts by path."""


class OutputFile(Value):
    """A file that a program created or changed in its working directory."""

    path: str
    """Where it was, relative to the working directory."""
    size: int
    """Bytes."""
    media_type: str
    """What it holds, as a media type (RFC 6838), judged by its content."""
    sha256: str
    """SHA-256 (hex) of what the program left; empty for a file that was not read."""
    handle: str | None = None
    """Handle of the stored file; None when it is not kept."""
    not_kept: str = ""
    """Why it is not kept; empty when it is."""
    _reader: Callable[[], bytes] | None = PrivateAttr(default=None)

    def read(self) -> bytes:
        """Return what is stored of the file. Raises UnknownArtifact for a file that is not kept, or no longer."""
        if self._reader is not None:
            return self._reader()
        if self.handle is None:
            raise UnknownArtifact(f"{self.path} was not kept: {self.not_kept}")
        raise UnknownArtifact(f"read {self.path} by its handle: paddock output get {self.handle}")

    def to_wire(self) -> dict[str, Json]:
        """Return its facts as programs get them."""
        facts = {"path": self.path, "size": self.size, "mediaType": self.media_type, "sha256": self.sha256}
        return {**facts, "handle": self.handle, **({"notKept": self.not_kept} if self.not_kept else {})}

    def attach_reader(self, reader: Callable[[], bytes]) -> None:
        """Have `read` return what `reader` returns."""
        self._reader = reader


def normalize_path(path: str) -> str:
    """Return a relative path in NFC, with single slashes.

    Raises ValueError for an absolute path, one that leads out or that no file can have.
    """
    check_relative(path)
    parts = [part for part in unicodedata.normalize("NFC", path).split("/") if part not in ("", ".")]
    try:
        name_bytes = max(len(part.encode()) for part in parts)
    except UnicodeEncodeError:
        raise ValueError(f"{path!r} is not Unicode") from None
    if name_bytes > NAME_BYTES or len(parts) > PATH_DEPTH:
        raise ValueError(f"{path!r} is no path that a file can have")
    return "/".join(parts)


def check_relative(path: str) -> None:
    """Raise ValueError for a path that is absolute, leads out, or names no file."""
    if path.startswith("/"):
        raise ValueError(f"{path!r} is absolute; give a path relative to the working directory")
    parts = path.split("/")
    if parts[-1] == "" or not any(part not in ("", ".") for part in parts):
        raise ValueError(f"{path!r} names no file")
    if ".." in parts:
        raise ValueError(f"{path!r} leads out of the working directory")
    if "\0" in path:
        raise ValueError(f"{path!r} is no path that a file can have")


def check_input_files(files: Iterable[InputFile]) -> None:
    """Raise ValueError for too many bytes, and for paths that are equal or that one file system cannot hold.

    Paths that differ in case alone are refused too, so that a program means the same on every file system.
    """
    spelled: dict[str, str] = {}
    twice: str | None = None
    size = 0
    for file in files:
        size += file.size
        if twice is None and spelled.get(file.path.casefold()) == file.path:
            twice = file.path
        if (other := spelled.setdefault(file.path.casefold(), file.path)) != file.path:
            raise ValueError(f"{other!r} and {file.path!r} differ in case alone; rename one")
    if size > INPUT_BYTES:
        raise ValueError(f"the files have {size} bytes, and at most {INPUT_BYTES} are allowed")
    if twice is not None:
        raise ValueError(f"{twice!r} is given twice")
    for path in spelled.values():
        folders = path.casefold().split("/")[:-1]
        for depth in range(1, len(folders) + 1):
            if (file := spelled.get("/".join(folders[:depth]))) is not None:
                raise ValueError(f"{file!r} is a file, and {path!r} needs a directory there")
