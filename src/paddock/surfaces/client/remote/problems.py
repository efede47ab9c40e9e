"""Problem documents of a server (RFC 9457), as the exceptions of the library."""

import json
from typing import NamedTuple, cast

from paddock.model.base import Json
from paddock.model.errors import ConfigurationError, PaddockError, RequestError
from paddock.model.printable import make_printable

MAX_PROBLEM_BYTES = 256 * 1024
"""Maximum size of a problem document that is read, in bytes. A larger one is reported by its status."""
_PREFIX = "urn:paddock:problem:"
_MAX_DETAIL_LINES, _MAX_LINE_CHARS = 20, 1000
_REQUEST_STATUSES = frozenset({400, 413, 415, 422})
_RETRIED_STATUSES = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed: too many requests, and a server or proxy that is not ready."""
_NOT_CARRIED_OUT = "not-carried-out"


class ServerProblem(NamedTuple):
    """An answer that is not a success."""

    status: int
    name: str
    """Type of the problem, such as `session-lost`; empty if the answer is no problem document."""
    detail: str
    """What the server says, in printable lines; empty if it says nothing."""

    @property
    def is_absence(self) -> bool:
        """Whether there is no such session, file or artifact, or no longer."""
        return self.status in (404, 410)

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _RETRIED_STATUSES

    def make_error(self, server: str) -> PaddockError:
        """Return the exception for it; `server` is the address, for the text."""
        detail = self.detail or f"it answered with the status {self.status} and no explanation."
        if self.status == 401:
            return ConfigurationError(f"{server} does not accept the token: {detail}")
        if self.status in _REQUEST_STATUSES and self.name not in ("", _NOT_CARRIED_OUT):
            return RequestError(detail)
        return PaddockError(f"{server}: {detail}")


def read_problem(status: int, body: bytes, token: str) -> ServerProblem:
    """Return the problem of an answer with this status. A body that is no problem document is left out."""
    try:
        value: Json = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    return make_problem(value, token, status)


def make_problem(value: Json, token: str, status: int = 0) -> ServerProblem:
    """Return the problem in a JSON value; `status` is that of the answer, or 0 for the status in the document."""
    document = cast("dict[str, Json]", value) if isinstance(value, dict) else {}
    name, detail, own_status = (document.get(each) for each in ("type", "detail", "status"))
    if not status:
        status = own_status if isinstance(own_status, int) else 500
    return ServerProblem(
        status,
        name.removeprefix(_PREFIX)[:64] if isinstance(name, str) and name.startswith(_PREFIX) else "",
        hide_token(detail, token) if isinstance(detail, str) else "",
    )


def hide_token(text: str, token: str) -> str:
    """Return a server's text as printable lines without the token, which a server could repeat."""
    lines = text.replace(token, "[REDACTED:token]").split("\n", _MAX_DETAIL_LINES)
    return "\n".join(make_printable(line, _MAX_LINE_CHARS) for line in lines[:_MAX_DETAIL_LINES])
