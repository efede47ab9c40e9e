"""Errors over HTTP as problem documents (RFC 9457)."""

from collections.abc import Mapping
from math import ceil
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.responses import Response

from paddock.model.base import Json, Value
from paddock.model.numbers import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import BaseModel, ValidationError

    from paddock.surfaces.tenants import RateExceeded

PREFIX = "urn:paddock:problem:"
"""What every `type` begins with."""
MEDIA_TYPE = "application/problem+json"
RETRY_S = 1
"""Seconds after which a client may try again, where nothing better is known."""


class ProblemType(NamedTuple):
    """One kind of error. Its name and status never change."""

    name: str
    status: int
    title: str


MALFORMED_BODY = ProblemType("malformed-body", 400, "The body cannot be read")
INVALID_KEY = ProblemType("invalid-idempotency-key", 400, "The Idempotency-Key is not valid")
UNAUTHORIZED = ProblemType("unauthorized", 401, "A valid token is required")
FOREIGN_ORIGIN = ProblemType("foreign-origin", 403, "Web pages of other servers are not answered")
DENIED = ProblemType("denied", 403, "Policy refused")
NOT_PERMITTED = ProblemType("not-permitted", 403, "The token lacks this right")
NOT_FOUND = ProblemType("not-found", 404, "There is no such resource")
METHOD_NOT_ALLOWED = ProblemType("method-not-allowed", 405, "The resource does not have this method")
CANCELLED = ProblemType("cancelled", 409, "The execution was cancelled before it had an outcome")
OUTCOME_LOST = ProblemType("outcome-lost", 409, "The outcome of this Idempotency-Key is not kept")
ALREADY_ANSWERED = ProblemType("already-answered", 409, "The question has an answer")
SESSION_LOST = ProblemType("session-lost", 410, "The session has ended")
EXECUTION_LOST = ProblemType("execution-lost", 410, "The server that ran it has ended")
BODY_TOO_LARGE = ProblemType("body-too-large", 413, "The body is too large")
UNSUPPORTED_MEDIA_TYPE = ProblemType("unsupported-media-type", 415, "The body has another media type")
WRONG_HOST = ProblemType("wrong-host", 421, "The server does not answer to this name")
INVALID_REQUEST = ProblemType("invalid-request", 422, "The request is not valid; nothing ran")
KEY_REUSED = ProblemType("idempotency-key-reused", 422, "The Idempotency-Key belongs to another request")
NOT_CARRIED_OUT = ProblemType("not-carried-out", 422, "The program that should do this did not succeed")
TOO_MANY_REQUESTS = ProblemType("too-many-requests", 429, "The limit of this caller is reached; nothing ran")
INTERNAL_ERROR = ProblemType("internal-error", 500, "Paddock failed")
RECORD_FAILED = ProblemType("record-failed", 500, "The audit record cannot be written")
UNAVAILABLE = ProblemType("unavailable", 503, "Nothing started; it is safe to try again")
SERVER_BUSY = ProblemType("server-busy", 503, "The server has too many requests; nothing ran")
SERVER_ENDING = ProblemType("server-ending", 503, "The server is ending; nothing ran")
OUTCOME_UNKNOWN = ProblemType("outcome-unknown", 504, "Whether it was done is not known; ask again")

TYPES: tuple[ProblemType, ...] = tuple(
    each for each in [*globals().values()] if isinstance(each, ProblemType)
)


class FieldError(Value):
    """What is wrong with one field."""

    field: str
    """Its path; empty for the whole body."""
    message: str
    """What is wrong."""


class ProblemDocument(Value):
    """An error (RFC 9457)."""

    type: str
    """Which error it is; programs compare this."""
    title: str
    """The error in one sentence; the same for every occurrence of the type."""
    status: int
    """The status code of the answer."""
    detail: str
    """What happened here, why, and what to do."""
    errors: list[FieldError] | None = None
    """All faults of an invalid request, by field."""
    execution: str | None = None
    """Id of the execution that it is about."""
    outcome: dict[str, Json] | None = None
    """The outcome of the program that should have done it."""


class Problem(Exception):
    """An error to answer with."""

    def __init__(
        self, kind: ProblemType, detail: str, *, headers: Mapping[str, str] | None = None, **members: Json
    ) -> None:
        """`members` are further members of the document: those of `ProblemDocument`."""
        super().__init__(detail)
        self.kind = kind
        self.headers = {**(headers or {})}
        if kind.status == 503:
            self.headers.setdefault("Retry-After", str(RETRY_S))
        if kind is UNAUTHORIZED:
            self.headers["WWW-Authenticate"] = "Bearer"
        self.document: dict[str, Json] = {
            "type": PREFIX + kind.name,
            "title": kind.title,
            "status": kind.status,
            "detail": detail.encode("utf-8", "replace").decode(),
            **members,
        }

    def render(self) -> bytes:
        """Return the document as JSON."""
        return dumps(self.document, separators=(",", ":")).encode()

    def respond(self) -> Response:
        """Return the answer."""
        return Response(
            self.render(), status_code=self.kind.status, headers=self.headers, media_type=MEDIA_TYPE
        )


def reject_fields(errors: "Sequence[tuple[str, str]]", remedy: str = "") -> Problem:
    """Return the problem for faults of fields, as pairs of path and message."""
    shown = "; ".join(f"{path}: {text}" if path else text for path, text in errors[:3])
    more = len(errors) - 3
    detail = shown + (f"; and {more} more" if more > 0 else "") + (f". {remedy}" if remedy else "")
    listed: list[dict[str, Any]] = [{"field": path, "message": text} for path, text in errors[:100]]
    return Problem(INVALID_REQUEST, detail, errors=listed)


def reject_invalid(problem: "ValidationError", model: "type[BaseModel] | None" = None) -> Problem:
    """Return the problem for a body that is not valid. It never contains the values, which may be secrets.

    With the `model` of the body, an unknown field gets the name of the nearest one.
    """
    from paddock.model.texts import list_faults

    faults = list_faults(problem, messages=_MESSAGES, limit=None, model=model)
    return reject_fields([(".".join(map(str, fault.path)), fault.text) for fault in faults])


def explain_rate(error: "RateExceeded") -> Problem:
    """Return the problem for a caller that has reached a limit of its token."""
    seconds = max(1, ceil(error.retry_after_s))
    return Problem(TOO_MANY_REQUESTS, f"{error}.", headers={"Retry-After": str(seconds)})


_MESSAGES = {
    "extra_forbidden": "there is no such field",
    "missing": "this field is required",
}
