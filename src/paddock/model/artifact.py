"""Stored output of one execution: its handle and its manifest."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import AwareDatetime, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from paddock.model.base import Json, Texts, Value, WholeNumber
from paddock.model.errors import InvalidHandle
from paddock.model.program import Phase

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

MatchStatus = Literal["matched", "noMatchFallback", "lineRange"]

_HANDLE_PATTERN = re.compile(r"runtime-([A-Za-z0-9_-]{1,128})-(0|[1-9][0-9]{0,13})-([0-9a-f]{16})", re.ASCII)
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")


class Handle(Value):
    """The name of an artifact: `runtime-<workspace>-<epoch ms>-<16 hex digits>`."""

    repo: str
    """Name of the workspace, with `_` for anything but letters, digits, `_` and `-`."""
    epoch_ms: int
    token: str
    """16 random hex digits, so that a handle cannot be guessed."""

    @classmethod
    def make(cls, repo: str, at: datetime, token: str) -> Self:
        """Return the handle of a new artifact of the workspace `repo`."""
        return cls(repo=safe_name(repo), epoch_ms=int(at.timestamp() * 1000), token=token)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the handle in a string. Raises `InvalidHandle`, which does not repeat the string."""
        if "/" in text or "\\" in text or ".." in text or text[1:2] == ":":
            raise InvalidHandle("Invalid artifact handle: path traversal detected")
        if (found := _HANDLE_PATTERN.fullmatch(text)) is None:
            raise InvalidHandle(
                "Invalid artifact handle: a handle reads runtime-<workspace>-<milliseconds>-<16 hex digits>"
            )
        return cls(repo=found[1], epoch_ms=int(found[2]), token=found[3])

    def __str__(self) -> str:
        return f"runtime-{self.repo}-{self.epoch_ms}-{self.token}"

    @property
    def created(self) -> datetime:
        """Creation time of the artifact."""
        return datetime.fromtimestamp(self.epoch_ms / 1000, UTC)


def safe_name(repo: str) -> str:
    """Return a name in the characters of handles."""
    return _UNSAFE_CHARACTERS.sub("_", repo)[:128] or "_"


class CamelCaseModel(Value):
    """A value whose JSON uses camel case names."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Excerpt(CamelCaseModel):
    """Some lines of a stream. Line numbers start at 1; both ends are included."""

    line_start: int
    """Number of its first line, from 1."""
    line_end: int
    """Number of its last line."""
    content: str
    """The lines, without the last line end."""
    source: Stream
    """The stream of the lines."""


class RunFacts(CamelCaseModel):
    """The facts of an execution in its manifest; never a payload."""

    workspace: str
    """Absolute path of the workspace."""
    runtime: str
    request: str = ""
    """Id of the request, as in the audit record."""
    status: str = ""
    phase: Phase = "run"
    """The phase in which the execution ended."""
    args_hash: str = ""
    """SHA-256 (hex) of the JSON of `runtime`, `args` and `phase`."""
    exit_code: int | None = None
    signal: str | None = None
    duration_ms: float = 0.0
    policy_audit_hash: str = ""
    relative_cwd: str = "."
    output_mode: str = "minimal"
    command_summary: str = ""
    """Names and counts, no contents: `executable=node argCount=0 code=yes stdin=no`."""
    file_path: str = ""
    """Of a stored file: its path in the working directory. It is stored as if it were standard output."""
    media_type: str = ""
    """Of a stored file: its media type."""
    flow_labels: tuple[str, ...] = ()
    """What its run had read by then, as flow rules label it."""


class ArtifactManifest(RunFacts):
    """`manifest.json` of an artifact. Hashes and sizes are those of the redacted text."""

    # Later versions may add fields.
    model_config = ConfigDict(extra="ignore")

    artifact_id: str
    repo_id: str
    """Name of the workspace."""
    stdout_bytes: int
    """Bytes that the program wrote, before redaction."""
    stderr_bytes: int
    stdout_sha256: str
    """SHA-256 of the stored, redacted stream."""
    stderr_sha256: str
    created_at: AwareDatetime
    expires_at: AwareDatetime
    server_version: str

    @classmethod
    @cache
    def names(cls) -> Mapping[str, str]:
        """Return the field names of the file."""
        return {name: to_camel(name) for name in cls.model_fields}

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Return the manifest in bytes, or None if they contain none."""
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None


def expiry(handle: Handle, ttl_hours: int) -> datetime:
    """Return the expiry of an artifact without a readable manifest."""
    return handle.created + timedelta(hours=ttl_hours)


class Cursor(CamelCaseModel):
    """The position at which a query continues."""

    stream: Stream
    """Which stream."""
    after_line: Annotated[WholeNumber, Field(ge=0)]
    """Number of the last line that was read; 0 before the first."""
    after_char: Annotated[WholeNumber, Field(ge=0)] | None = None
    """If given, the query continues within the next line, after that many characters, and no line is cut."""


class LineRange(CamelCaseModel):
    """Lines to read, counted from 1, both ends included."""

    stream: Stream
    """Which stream."""
    start_line: Annotated[WholeNumber, Field(ge=1)]
    """First line, from 1."""
    end_line: Annotated[WholeNumber, Field(ge=1)]
    """Last line, included."""

    @model_validator(mode="after")
    def _goes_forward(self) -> Self:
        if self.end_line < self.start_line:
            raise ValueError("endLine is before startLine")
        return self


class OutputQuery(CamelCaseModel):
    """A query of stored output: terms to search for, lines to read, or a cursor."""

    artifact_handle: str
    """The artifact, as an outcome names it."""
    query_terms: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=1000)], ...], Field(max_length=10)
    ] = ()
    """Lines that contain any of these match; case is ignored."""
    max_excerpts: Annotated[WholeNumber, Field(ge=1, le=100)] = 10
    """Maximum number of excerpts; without a match, of lines."""
    context_lines: Annotated[WholeNumber, Field(ge=0, le=20)] = 3
    """Lines around each match."""
    stream: Literal["stdout", "stderr", "both"] = "both"
    """Which streams are searched."""
    cursor: Cursor | None = None
    """The cursor of an earlier answer."""
    line_range: LineRange | None = None
    """Lines to read by their numbers, instead of terms."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            artifact_handle: str,
            query_terms: Texts = (),
            max_excerpts: int = 10,
            context_lines: int = 3,
            stream: Literal["stdout", "stderr", "both"] = "both",
            cursor: Cursor | None = None,
            line_range: LineRange | None = None,
        ) -> None: ...

    @model_validator(mode="after")
    def _asks_for_something(self) -> Self:
        if not self.query_terms and self.cursor is None and self.line_range is None:
            raise ValueError("queryTerms are required unless cursor or lineRange is provided")
        if self.line_range is not None and (self.cursor is not None or self.query_terms):
            raise ValueError("lineRange cannot be combined with queryTerms or cursor")
        if self.query_terms and self.cursor is not None and self.cursor.after_char is not None:
            raise ValueError(
                "a cursor with afterChar continues within one line and cannot be combined with queryTerms"
            )
        for place in (self.cursor, self.line_range):
            if place is not None and self.stream not in ("both", place.stream):
                raise ValueError(f"stream is {self.stream}, but the requested lines are in {place.stream}")
        return self


class OutputFound(CamelCaseModel):
    """The answer to a query. Totals cover the searched streams; an empty stream is not searched."""

    artifact_handle: str
    """The searched artifact."""
    excerpts: tuple[Excerpt, ...]
    """The found lines, in order."""
    total_lines: int
    """Number of lines in the searched streams."""
    total_bytes: int
    """Size of these streams, in bytes."""
    searched_streams: tuple[Stream, ...]
    """The searched streams."""
    match_status: MatchStatus
    """`lineRange`: lines were requested by number; `noMatchFallback`: nothing matched, these are the first lines."""
    match_count: int
    """Number of matching lines after the cursor, shown or not."""
    next_cursor: Cursor | None = None
    """Present if there is more to read."""
    line_cursor: Cursor | None = None
    """Present if a line is cut: the position in the first such line."""

    def to_wire(self) -> dict[str, Json]:
        """Return the answer as JSON, with the names of the spec."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
