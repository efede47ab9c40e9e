"""Stored output of one execution: its handle and its manifest, in the words of the seed (spec 5.7)."""

import re
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

from pydantic import AwareDatetime, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from paddock.model.base import Value
from paddock.model.errors import InvalidHandle

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")

_HANDLE = re.compile(r"runtime-([A-Za-z0-9_-]{1,128})-([0-9]{1,15})-([0-9a-f]{16})", re.ASCII)
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


class Handle(Value):
    """The name of an artifact: `runtime-<workspace>-<epoch ms>-<16 hex digits>` (spec 5.7)."""

    repo: str
    """Name of the workspace, with `_` for anything but letters, digits, `_` and `-`."""
    epoch_ms: int
    token: str
    """16 random hex digits: nobody guesses a handle."""

    @classmethod
    def make(cls, repo: str, at: datetime, token: str) -> Self:
        """Return the handle of a new artifact of a workspace called `repo`."""
        return cls(repo=safe_name(repo), epoch_ms=int(at.timestamp() * 1000), token=token)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the handle that a text is. Raises `InvalidHandle`, which does not repeat the text (S48)."""
        if "/" in text or "\\" in text or ".." in text or text[1:2] == ":":
            raise InvalidHandle("Invalid artifact handle: path traversal detected")
        if (found := _HANDLE.fullmatch(text)) is None:
            raise InvalidHandle(
                "Invalid artifact handle: a handle reads runtime-<workspace>-<milliseconds>-<16 hex digits>"
            )
        return cls(repo=found[1], epoch_ms=int(found[2]), token=found[3])

    def __str__(self) -> str:
        return f"runtime-{self.repo}-{self.epoch_ms}-{self.token}"

    @property
    def created(self) -> datetime:
        """When the artifact was made."""
        return datetime.fromtimestamp(self.epoch_ms / 1000, UTC)


def safe_name(repo: str) -> str:
    """Return a name as handles spell it."""
    return _UNSAFE.sub("_", repo)[:128] or "_"


class Wire(Value):
    """A value whose JSON has camel case names, as the seed has them."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class RunFacts(Wire):
    """What the manifest of an artifact says of the execution; never a payload."""

    workspace: str
    """Absolute path of the workspace."""
    runtime: str
    request: str = ""
    """Id of the request, as in the audit record."""
    status: str = ""
    phase: Literal["compile", "execute"] = "execute"
    """The phase that the execution ended in."""
    args_hash: str = ""
    """SHA-256 of what was executed, see spec 5.7."""
    exit_code: int | None = None
    signal: str | None = None
    duration_ms: float = 0.0
    policy_audit_hash: str = ""
    relative_cwd: str = "."
    output_mode: str = "minimal"
    command_summary: str = ""
    """Names and counts, no contents: `executable=node argCount=0 code=yes stdin=no`."""


class Manifest(RunFacts):
    """`manifest.json` of an artifact. Hashes and sizes tell what was written; see S39."""

    # A later version may say more.
    model_config = ConfigDict(extra="ignore")

    artifact_id: str
    repo_id: str
    """Name of the workspace."""
    stdout_bytes: int
    """Bytes that the program wrote, before redaction."""
    stderr_bytes: int
    stdout_sha256: str
    """SHA-256 of what is stored: the whole redacted stream."""
    stderr_sha256: str
    created_at: AwareDatetime
    expires_at: AwareDatetime
    server_version: str

    @classmethod
    def parse(cls, data: bytes) -> Self | None:
        """Return the manifest that bytes hold, or None when they hold none (S50)."""
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None


def expiry(handle: Handle, ttl_hours: int) -> datetime:
    """Return when an artifact without a readable manifest expires."""
    return handle.created + timedelta(hours=ttl_hours)
