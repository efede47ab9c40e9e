"""Decide on a request. A pure function of request and settings: no clock, no files, no state."""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from paddock.model.approval import YES, Answer
from paddock.model.canonical import canonical
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest
from paddock.policy import rules
from paddock.policy.kinds import Catalogue, Kinds, Reason, WorkPolicy, empty_catalogue
from paddock.settings.schema import Settings

_MAX_REMEMBERED = 4096
MAX_NESTING = 7
"""Requests that may ask for each other: fewer than workers, so that no chain waits for itself."""


class Policy:
    """Decides on requests under one set of settings.

    A program may call the same tool a thousand times, and many programs differ in their text alone: what was decided
    under the same circumstances is remembered. Only the audit hash is made anew.
    """

    def __init__(self, settings: Settings, kinds: Kinds, catalogue: Catalogue = empty_catalogue) -> None:
        self._settings = settings
        self._kinds = kinds
        self._catalogue = catalogue
        self._decided: dict[tuple[object, ...], Decision] = {}

    def add_defaults(self, request: ExecutionRequest) -> ExecutionRequest:
        """Return the request with what it leaves to the settings: that of which it is decided, asked and recorded."""
        work = request.work
        full = self._kinds[work.kind].add_defaults(work, self._settings)
        return request if full is work else request.model_copy(update={"work": full})

    def decide(self, request: ExecutionRequest) -> Decision:
        """Return whether a request may run and with which limits and grants.

        All objections are given as reasons, the first of them names the deciding rule. The audit hash covers the
        decision and the identity of the request, never its payload.
        """
        kind = self._kinds[request.work.kind]
        circumstances = _list_circumstances(request, kind, self._settings)
        decision = None if circumstances is None else self._decided.get(circumstances)
        if decision is None:
            decision = _decide_unsigned(request, kind, self._settings, self._catalogue)
            if circumstances is not None and len(self._decided) < _MAX_REMEMBERED:
                self._decided[circumstances] = decision
        return _sign_decision(request, kind, decision)

    def refuse_allowed(
        self, request: ExecutionRequest, decision: Decision, rule: str, reason: str
    ) -> Decision:
        """Return the refusal of what was allowed, for a reason that only the moment could show."""
        refused = decision.model_copy(update={"allowed": False, "rule": rule, "reasons": (reason,)})
        return _sign_decision(request, self._kinds[request.work.kind], _add_hash(refused))

    def apply_answer(self, request: ExecutionRequest, decision: Decision, answer: Answer) -> Decision:
        """Return what became of a decision that asks, now that there is an answer. Only a yes allows."""
        yes = answer.verdict in YES
        changes = {"allowed": yes, "asks": (), "answer": answer.verdict, "reasons": (answer.told,)}
        answered = _add_hash(decision.model_copy(update=changes))
        return _sign_decision(request, self._kinds[request.work.kind], answered)

    def suggest_remedy(self, request: ExecutionRequest, decision: Decision) -> str:
        """Return what to do about a refusal; empty where its reason says it.

        The reasons are texts of the systems that the compat names come from. Therefore the remedy is a hint of its
        own, which those names do not show.
        """
        kind = self._kinds[request.work.kind]
        return kind.suggest_remedy(request.work, decision.rule, self._settings, self._catalogue)


def _list_circumstances(
    request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings
) -> tuple[object, ...] | None:
    """Return all that `_decide_unsigned` looks at."""
    what = kind.list_circumstances(request, request.work, settings)
    if what is None:
        return None
    whence = request.workspace, request.calls, request.jit, request.depth, request.caller
    return request.work.kind, *what, *whence, *vars(request.limits).values()


def _decide_unsigned(
    request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings, catalogue: Catalogue
) -> Decision:
    """Return the decision, whose audit hash covers only itself. What is refused asks nobody."""
    judgement = kind.judge(request, request.work, settings, catalogue)
    request = judgement.request or request
    objections = [
        *judgement.objections,
        *_check_depth(request, kind),
        *_check_caller(request, settings),
        *rules.list_denials(request, kind, settings),
    ]
    asks = [] if objections else [*rules.list_questions(request, kind, settings)]
    reasons = objections or asks or judgement.notes
    fields = {
        "allowed": not objections and not asks,
        "reasons": tuple(reason for _, reason in reasons),
        "asks": tuple(reason for _, reason in asks),
        "rule": (reasons or [("default", "")])[0][0],
        **judgement.terms,
    }
    return _add_hash(Decision.model_validate(fields))


def _add_hash(decision: Decision) -> Decision:
    itself = canonical(decision.model_dump(mode="json", exclude={"audit_hash"}))
    return decision.model_copy(update={"audit_hash": hash_bytes(itself)})


def _sign_decision(request: ExecutionRequest, kind: WorkPolicy[Any], decision: Decision) -> Decision:
    """Return the decision with an audit hash that covers who asked for what (ids and hashes) as well."""
    identity = {
        "id": request.id,
        "parent": request.parent,
        "actor": request.actor,
        "surface": request.surface,
        "kind": request.work.kind,
        **kind.identify(request.work),
    }
    signature = hash_bytes(canonical({"decision": decision.audit_hash, "request": identity}))
    return decision.replace(audit_hash=signature)


def _check_depth(request: ExecutionRequest, kind: WorkPolicy[Any]) -> Iterator[Reason]:
    """Object to what runs itself over and over."""
    if request.depth > MAX_NESTING:
        what = f"{kind.label(request.work)} is nested more than {MAX_NESTING} deep"
        yield "depth", f"{what}; a script or a sequence that runs itself never ends"


def _check_caller(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Object to a method of the SDK that is not granted to programs of the profile that calls it."""
    if (caller := request.caller) is None:
        return
    granted = {"script": settings.sdk.script, "execute": settings.sdk.execute, "compute": ()}[caller.profile]
    if not any(fnmatchcase(caller.method, name) for name in granted):
        what = f"paddock.{caller.method} is not granted to programs of the profile {caller.profile}"
        key = f"sdk.{caller.profile}"
        yield key, f"{what}; name it in `{caller.profile}` under [sdk] in paddock.toml"


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 of bytes (hex)."""
    return hashlib.sha256(data).hexdigest()
