"""What a person is asked before something runs, and what they answer."""

from collections.abc import Mapping
from typing import Literal

from paddock.model.base import PositiveInt, Value

Verdict = Literal["once", "run", "denied", "expired", "unasked"]
"""Yes to this call; yes to every call of this tool in this run; no; no answer in time; nobody could be asked."""
Scope = Literal["once", "run"]
YES: frozenset[Verdict] = frozenset({"once", "run"})
ERROR_NAMES: Mapping[Verdict | None, str] = {
    "denied": "ApprovalDenied",
    "expired": "ApprovalExpired",
    "unasked": "ApprovalUnavailable",
}
"""Names of the errors of what a person did not allow."""
ERROR_CODES: Mapping[str, str] = {
    "ApprovalDenied": "approval_denied",
    "ApprovalExpired": "approval_expired",
    "ApprovalUnavailable": "approval_unavailable",
}
"""What a program reads as `code` of the error, by its name."""


class Question(Value):
    """One question. Its texts hold no secret and no character that could change how they are shown."""

    id: str
    """Its own id; an answer names it."""
    request: str
    """The request that waits."""
    run: str
    """The request of a person or an agent that it belongs to."""
    actor: str = ""
    """Who wants it done."""
    surface: str = ""
    """How they came: `cli`, `mcp`, `library` and others."""
    workspace: str = ""
    """Directory it belongs to."""
    what: str
    """What would be done, for instance `call github/delete_repository`."""
    details: str
    """The arguments as JSON, long ones shortened."""
    reasons: tuple[str, ...]
    """Why a person is asked."""
    rule: str = ""
    """The rule that wants it, for instance `user rule 1`."""
    sha256: str
    """SHA-256 (hex) over all of what would be done. An answer is an answer to this alone."""
    scopes: tuple[Scope, ...] = ("once",)
    """Which kinds of yes there are."""
    wait_ms: PositiveInt
    """How long there is for an answer."""


class Answer(Value):
    """What was answered and by whom."""

    verdict: Verdict
    """Yes to this call (`once`) or to all such calls of this run (`run`); `denied`; `expired`; `unasked`."""
    by: str = ""
    """Who answered, for the record."""
    told: str = ""
    """For the caller: what this means and what to do."""
