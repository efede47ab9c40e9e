"""Sessions as a caller sees them, and the values that their programs show."""

import base64
import binascii
import hashlib
import re
import reprlib
import secrets
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Literal, Self, get_args

from pydantic import AfterValidator, Field

from paddock.model.base import Json, Value

Kernel = Literal["plain", "ipython"]
KERNELS: tuple[Kernel, ...] = get_args(Kernel)
"""What runs the programs of a Python session: a driver of Paddock's own, or IPython's shell."""
NEW = "new"
"""In place of a handle, it opens a session."""
HANDLE_PREFIX = "s_"
_HANDLE = re.compile(r"new|s_([0-9a-f]{16})?[0-9a-f]{32}")


def is_handle(text: str) -> bool:
    """Return whether a string is `new` or can be the handle of a session."""
    return _HANDLE.fullmatch(text) is not None


def _check_handle(text: str) -> str:
    if not is_handle(text):
        raise ValueError(
            'it is not the handle of a session; give "new", or a handle from an answer ("s_...")'
        )
    return text


SessionHandle = Annotated[str, AfterValidator(_check_handle)]
"""The handle of a session, which cannot be guessed; or `new`. After `s_` it has the
mark of its replica, or of its process."""


def make_handle(mark: str = "") -> str:
    """Return a new handle, of a session on the replica or process with this mark."""
    return f"{HANDLE_PREFIX}{mark}{secrets.token_hex(16)}"


def has_other_mark(handle: str, mark: str) -> bool:
    """Return whether a handle has the mark of another replica than this one, or of one that ran before it."""
    return bool(mark) and len(handle) > len(make_handle()) and not handle.startswith(f"{HANDLE_PREFIX}{mark}")


def name_session(handle: str) -> str:
    """Return a name of a session for records, from which nobody can make its handle."""
    return handle if handle == NEW else hashlib.sha256(handle.encode()).hexdigest()[:12]


class SessionInfo(Value):
    """An open session."""

    id: str
    """Its handle."""
    language: str
    """The language of its interpreter."""
    executions: int
    """Number of executions so far."""
    running: bool
    """Whether it executes a program just now."""
    background: bool
    """Whether its threads and processes run between two executions, too."""
    memory_bytes: int
    """Its memory after the last execution."""
    expires_in_s: float
    """Seconds until it is closed if it is not used."""


class OpenSessions(tuple[SessionInfo, ...]):  # noqa: SLOT001 - a tuple cannot have slots
    """The open sessions of a caller, the oldest first: a tuple that knows what is missing in it."""

    partial: tuple[str, ...]
    """Names of the replicas of the server that did not answer; empty on one machine."""

    def __new__(cls, sessions: Iterable[SessionInfo], partial: Iterable[str] = ()) -> Self:
        """`partial` names replicas whose sessions are missing."""
        made = super().__new__(cls, sessions)
        made.partial = tuple(partial)
        return made


class SessionEnd(Value):
    """A session after an execution."""

    id: str
    """Its handle."""
    state: Literal["kept", "lost"]
    """`lost` means that its variables, files and processes are gone."""
    reason: str = ""
    """Why it is lost; empty while it is kept."""
    number: int = 0
    """Number of this execution in the session, from 1."""
    expires_in_s: float = 0.0
    """Seconds until it is closed if it is not used."""


IMAGE_SUFFIXES: Mapping[str, str] = MappingProxyType(
    {
        "image/png": ".png",
        "image/jpeg": ".jpg",
        "image/gif": ".gif",
        "image/webp": ".webp",
        "image/svg+xml": ".svg",
    }
)
"""Media types of images, the best form of a value first, with the suffixes of their files."""


class Result(Value):
    """One value that a program shows: the last expression of its text, a figure, or an argument of `display`."""

    data: dict[str, Json]
    """Its forms by media type (RFC 6838), `text/plain` always among them; images in base64 (RFC 4648)."""
    handles: dict[str, str] = Field(default_factory=dict)
    """Handles of the stored forms, by media type; without plain text."""

    def __repr__(self) -> str:
        """Return its media types and the beginning of its text. Its forms may have megabytes."""
        return f"<Result {', '.join(self.data)} · {reprlib.repr(self.text)}>"

    __str__ = __repr__

    @property
    def text(self) -> str:
        """The value as plain text."""
        return str(self.data.get("text/plain", ""))

    @property
    def html(self) -> str | None:
        """The value as HTML; None where it has no such form."""
        return self._find_text("text/html")

    @property
    def markdown(self) -> str | None:
        """The value as Markdown; None where it has no such form."""
        return self._find_text("text/markdown")

    @property
    def latex(self) -> str | None:
        """The value as LaTeX; None where it has no such form."""
        return self._find_text("text/latex")

    @property
    def svg(self) -> str | None:
        """The value as SVG; None where it has no such form."""
        return self._find_text("image/svg+xml")

    @property
    def json_value(self) -> Json:
        """The value as JSON; None where it has no such form."""
        return self.data.get("application/json")

    @property
    def png(self) -> bytes | None:
        """The value as PNG; None where it has no such form."""
        return self.read("image/png")

    @property
    def jpeg(self) -> bytes | None:
        """The value as JPEG; None where it has no such form."""
        return self.read("image/jpeg")

    @property
    def image_type(self) -> str:
        """The media type of its best form as an image; empty without one."""
        return next((kind for kind in IMAGE_SUFFIXES if kind in self.data), "")

    def read(self, media_type: str) -> bytes | None:
        """Return one of its forms as bytes; None where it has no such form."""
        text = self._find_text(media_type)
        if text is not None and (media_type.startswith("text/") or media_type == "image/svg+xml"):
            return text.encode("utf-8", "replace")
        try:
            return None if text is None else base64.b64decode(text, validate=True)
        except binascii.Error:
            return None

    def _find_text(self, media_type: str) -> str | None:
        form = self.data.get(media_type)
        return form if isinstance(form, str) else None

    def _repr_mimebundle_(self, **_: object) -> dict[str, Json]:
        """Return the forms for a notebook."""
        return dict(self.data)
