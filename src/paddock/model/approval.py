"""Questions to a person before something runs, and their answers."""

import json
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, cast

from paddock.model.base import PositiveInt, Value
from paddock.model.numbers import dumps
from paddock.model.printable import make_printable

Effect = Literal["allow", "ask", "deny"]
"""What a rule of the settings does. Deny beats ask, and ask beats allow."""
Verdict = Literal["once", "run", "denied", "expired", "unasked"]
"""Yes to this call; yes to every call of this tool in this run; no; no answer in time; no person to ask."""
Scope = Literal["once", "run"]
YES: frozenset[Verdict] = frozenset({"once", "run"})
ERROR_NAMES: Mapping[Verdict | None, str] = {
    "denied": "ApprovalDenied",
    "expired": "ApprovalExpired",
    "unasked": "ApprovalUnavailable",
}
"""Names of the errors for calls that a person did not allow."""
ERROR_CODES: Mapping[str, str] = {
    "ApprovalDenied": "approval_denied",
    "ApprovalExpired": "approval_expired",
    "ApprovalUnavailable": "approval_unavailable",
}
"""The `code` of the error for programs, by its name."""
_CHANGES_ARGUMENTS = frozenset({"id", "paths", "merge", "difference"})
"""Arguments of a question about a change set."""


class Arguments(NamedTuple):
    """The arguments of a question, and the beginning of a difference, which is among them."""

    named: Mapping[str, Any]
    """Values by name, without the difference."""
    difference: tuple[str, ...]
    """Lines of the difference, if changes are to be accepted or undone."""

    def write(self) -> str:
        """Return the arguments as JSON, without the difference."""
        return dumps(self.named, ensure_ascii=False)


class Question(Value):
    """One question. Its texts contain no secret and no character that could change how they are displayed."""

    id: str
    """Its own id, which an answer repeats."""
    request: str
    """The request that waits."""
    run: str
    """The request of a person or an agent that started it."""
    actor: str = ""
    """The actor of the request."""
    surface: str = ""
    """The surface of the request: `cli`, `mcp`, `library` and others."""
    workspace: str = ""
    """Directory of the workspace."""
    what: str
    """What would be done, for example `call github/delete_repository`."""
    details: str
    """The arguments as JSON, long ones shortened."""
    reasons: tuple[str, ...]
    """Reasons why a person is asked."""
    rule: str = ""
    """The rule that asks, for example `user rule 1`."""
    sha256: str
    """SHA-256 (hex) over everything that would be done. An answer holds only for this."""
    scopes: tuple[Scope, ...] = ("once",)
    """The possible kinds of yes."""
    wait_ms: PositiveInt
    """Maximum time for an answer, in milliseconds."""

    def read_arguments(self) -> Arguments | None:
        """Return the arguments. None if they were too long to be shown in whole."""
        try:
            found = json.loads(self.details)
        except (ValueError, RecursionError):
            return None
        if not isinstance(found, dict):
            return None
        named = cast("dict[str, Any]", found)
        lines = named.get("difference")
        # A tool may have an argument of that name, too.
        if named.keys() - _CHANGES_ARGUMENTS or not str(named.get("id", "")).startswith("changes-"):
            return Arguments(named, ())
        if not isinstance(lines, list) or not all(
            isinstance(each, str) for each in cast("list[object]", lines)
        ):
            return Arguments(named, ())
        del named["difference"]
        return Arguments(named, tuple(cast("list[str]", lines)))

    def render_arguments(self, indent: str) -> list[str]:
        """Return the arguments as printable lines: JSON, then one line for each of the difference.

        The lines of the difference begin with `indent` and a bar. Therefore none of them looks like another line of
        the question.
        """
        arguments = self.read_arguments()
        if arguments is None or not arguments.difference:
            return [self.details]
        given = arguments.write()
        lines = (make_printable(line, len(line)) for line in arguments.difference)
        return [make_printable(given, len(given)), *(f"{indent}| {line}" for line in lines)]

    def spell_out(self, max_chars: int) -> Self:
        """Return the question for display, as printable lines only: another process may have changed it."""
        texts = {name: make_printable(text, max_chars) for name, text in self if isinstance(text, str)}
        reasons = tuple(make_printable(reason, max_chars) for reason in self.reasons)
        return self.model_copy(update={**texts, "reasons": reasons})


class WaitingQuestion(Value):
    """A waiting question; `expires` is in seconds since the epoch."""

    question: Question
    expires: float


class Answer(Value):
    """An answer and its author."""

    verdict: Verdict
    """Yes to this call (`once`) or to all such calls of this run (`run`); `denied`; `expired`; `unasked`."""
    by: str = ""
    """Who answered, for the record."""
    told: str = ""
    """For the caller: what the answer means, and what to do."""
