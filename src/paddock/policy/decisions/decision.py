"""Decide on a request. No clock and no files: the result depends on the request and the settings alone.

`Policy` caches results.
"""

import hashlib
from fnmatch import fnmatchcase
from typing import Any

from paddock.model.approval import YES, Answer
from paddock.model.canonical import canonical
from paddock.model.flow import FlowFinding
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest
from paddock.policy.decisions import rules
from paddock.policy.decisions.kinds import FindExecutables, Kinds, Reason, WorkPolicy, empty_catalogue
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

_MAX_REMEMBERED = 4096
MAX_NESTING = 7
"""Maximum depth of requests that start each other: below the number of workers, so that no chain waits for itself."""


class Policy:
    """Decides on requests under one set of settings.

    A program may call the same tool a thousand times, and many programs differ only in their text. Therefore decisions
    are cached by their circumstances. Only the audit hash is computed each time.
    """

    def __init__(
        self, settings: Settings, kinds: Kinds, catalogue: FindExecutables = empty_catalogue
    ) -> None:
        self._settings = settings
        self._kinds = kinds
        self._catalogue = catalogue
        self._decided: dict[tuple[object, ...], Decision] = {}

    def add_defaults(self, request: ExecutionRequest) -> ExecutionRequest:
        """Return the request with the defaults of the settings. This is what is decided, asked and recorded."""
        work = request.work
        full = self._kinds[work.kind].add_defaults(work, self._settings)
        return request if full is work else request.model_copy(update={"work": full})

    def decide(self, request: ExecutionRequest) -> Decision:
        """Return whether a request may run, and with which limits and grants.

        The reasons contain all objections; the first one names the deciding rule. The audit hash covers the decision
        and the identity of the request, never its payload.
        """
        kind = self._kinds[request.work.kind]
        circumstances = None
        if (what := kind.list_circumstances(request, request.work, self._settings)) is not None:
            # Everything that `_decide_unsigned` reads.
            whence = request.workspace, request.calls, request.jit, request.depth, request.caller
            circumstances = (request.work.kind, *what, *whence, *vars(request.limits).values())
        decision = None if circumstances is None else self._decided.get(circumstances)
        if decision is None:
            decision = _decide_unsigned(request, kind, self._settings, self._catalogue)
            if circumstances is not None and len(self._decided) < _MAX_REMEMBERED:
                self._decided[circumstances] = decision
        return _hash_decision(request, kind, decision)

    def refuse_allowed(
        self, request: ExecutionRequest, decision: Decision, rule: str, reason: str
    ) -> Decision:
        """Return a refusal of a request that is allowed or asked about, for a reason that was not known before."""
        refused = decision.model_copy(
            update={"allowed": False, "asks": (), "rule": rule, "reasons": (reason,)}
        )
        return _hash_decision(request, self._kinds[request.work.kind], _add_hash(refused))

    def apply_flow(
        self, request: ExecutionRequest, decision: Decision, finding: FlowFinding, reason: str
    ) -> Decision:
        """Return a decision on a request that is allowed or asked about, after a flow rule with this reason."""
        changes: dict[str, object] = {"flow": finding}
        if finding.effect == "deny":
            changes |= {"allowed": False, "asks": (), "reasons": (reason,), "rule": finding.rule}
        elif finding.effect == "ask":
            asks = (*decision.asks, reason)
            changes |= {"allowed": False, "asks": asks, "reasons": asks}
            changes["rule"] = decision.rule if decision.asks else finding.rule
        changed = _add_hash(decision.model_copy(update=changes))
        return _hash_decision(request, self._kinds[request.work.kind], changed)

    def apply_answer(self, request: ExecutionRequest, decision: Decision, answer: Answer) -> Decision:
        """Return a decision after the person's answer. Only a yes allows the request."""
        yes = answer.verdict in YES
        changes = {"allowed": yes, "asks": (), "answer": answer.verdict, "reasons": (answer.told,)}
        answered = _add_hash(decision.model_copy(update=changes))
        return _hash_decision(request, self._kinds[request.work.kind], answered)

    def list_matching_rules(self, request: ExecutionRequest) -> list[tuple[str, Rule]]:
        """Return the rules of the settings that match a request, whatever their effects are, with their names."""
        kind = self._kinds[request.work.kind]
        judgement = kind.judge(request, request.work, self._settings, self._catalogue)
        return rules.list_matching_rules(judgement.request or request, kind, self._settings)

    def suggest_remedy(self, request: ExecutionRequest, decision: Decision) -> str:
        """Return the remedy for a refusal; empty if the reason contains it.

        The texts of the reasons come from the systems behind the compat names. Therefore the remedy is a separate hint,
        which the compat names do not show.
        """
        kind = self._kinds[request.work.kind]
        return kind.suggest_remedy(request.work, decision.rule, self._settings, self._catalogue)


def _decide_unsigned(
    request: ExecutionRequest, kind: WorkPolicy[Any], settings: Settings, catalogue: FindExecutables
) -> Decision:
    """Return the decision with an audit hash over itself only. A refused request asks no person."""
    judgement = kind.judge(request, request.work, settings, catalogue)
    request = judgement.request or request
    objections: list[Reason] = [*judgement.objections]
    if request.depth > MAX_NESTING:
        what = f"{kind.label(request.work)} is nested more than {MAX_NESTING} deep"
        objections.append(("depth", f"{what}; a script or a sequence that runs itself never ends"))
    if (caller := request.caller) is not None and not any(
        fnmatchcase(caller.method, name) for name in settings.sdk.list_granted(caller.profile)
    ):
        what = f"paddock.{caller.method} is not granted to programs of the profile {caller.profile}"
        remedy = f"name it in `{caller.profile}` under [sdk] in paddock.toml"
        objections.append((f"sdk.{caller.profile}", f"{what}; {remedy}"))
    objections += rules.list_denials(request, kind, settings)
    asks = [] if objections else [*judgement.questions, *rules.list_questions(request, kind, settings)]
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
    itself = canonical(
        decision.model_dump(mode="json", exclude={"audit_hash": True, **decision.list_absent()})
    )
    return decision.model_copy(update={"audit_hash": hash_bytes(itself)})


def _hash_decision(request: ExecutionRequest, kind: WorkPolicy[Any], decision: Decision) -> Decision:
    """Return the decision with an audit hash that also covers who asked for what (ids and hashes)."""
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


def hash_bytes(data: bytes) -> str:
    """Return the SHA-256 of bytes (hex)."""
    return hashlib.sha256(data).hexdigest()
