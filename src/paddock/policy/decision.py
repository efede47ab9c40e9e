"""Decide on a request. A pure function of request and settings: no clock, no files, no state."""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase

from paddock.model.approval import YES, Answer
from paddock.model.canonical import canonical
from paddock.model.limits import narrower
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.policy import guests, programs, rules, script_tools
from paddock.policy.programs import Catalogue, empty_catalogue
from paddock.policy.reason import Reason, label_request
from paddock.policy.remedies import suggest_remedy
from paddock.settings.schema import Settings

_MAX_REMEMBERED = 4096
MAX_NESTING = 7
"""Requests that may ask for each other: fewer than workers, so that no chain waits for itself."""


class Policy:
    """Decides on requests under one set of settings.

    A program may call the same tool a thousand times, and many programs differ in their text alone: what was decided
    under the same circumstances is remembered. Only the audit hash is made anew.
    """

    def __init__(self, settings: Settings, catalogue: Catalogue = empty_catalogue) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._decided: dict[tuple[object, ...], Decision] = {}

    def with_defaults(self, request: ExecutionRequest) -> ExecutionRequest:
        """Return what `with_defaults` returns."""
        return with_defaults(request, self._settings)

    def decide(self, request: ExecutionRequest) -> Decision:
        """Return what `decide` returns."""
        work = request.work
        if isinstance(work, ToolRun):
            return decide(request, self._settings, self._catalogue)
        circumstances = _list_circumstances(request, work, self._settings)
        decision = self._decided.get(circumstances)
        if decision is None:
            decision = _decide_unsigned(request, self._settings, self._catalogue)
            if len(self._decided) < _MAX_REMEMBERED:
                self._decided[circumstances] = decision
        return _sign_decision(request, decision)

    def suggest_remedy(self, request: ExecutionRequest, decision: Decision) -> str:
        """Return what `remedies.suggest_remedy` returns."""
        return suggest_remedy(request, decision.rule, self._settings, self._catalogue)


def _list_circumstances(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall | RuntimeRun, settings: Settings
) -> tuple[object, ...]:
    """Return all that `_decide_unsigned` looks at."""
    if isinstance(work, ServerCall):
        what = work.server, work.tool, work.read_only
    elif isinstance(work, SdkCall):
        what = (work.method,)
    elif isinstance(work, RuntimeRun):
        what = work.runtime, work.executable, work.cwd, work.access, work.network
    else:
        # At most four bytes to a character: most texts are short enough without being measured.
        small = 4 * len(work.source) <= settings.limits.of(work.profile).code_bytes
        measured = not small or request.limits.code_bytes is not None
        what = work.profile, len(work.source.encode("utf-8", "surrogatepass")) if measured else 0
    asked = vars(request.limits).values()
    whence = request.workspace, request.calls, request.jit, request.depth, request.caller
    return work.kind, *what, *whence, *asked


def with_defaults(request: ExecutionRequest, settings: Settings) -> ExecutionRequest:
    """Return the request with what it leaves to the settings: that of which it is decided, asked and recorded."""
    work = request.work
    if not isinstance(work, RuntimeRun) or (full := programs.with_defaults(work, settings)) is work:
        return request
    return request.model_copy(update={"work": full})


def decide(request: ExecutionRequest, settings: Settings, catalogue: Catalogue = empty_catalogue) -> Decision:
    """Return whether a request may run and with which limits and grants.

    All objections are given as reasons, the first of them names the deciding rule. The audit hash covers the
    decision and the identity of the request, never its payload.
    """
    return _sign_decision(request, _decide_unsigned(request, settings, catalogue))


def refuse_allowed(request: ExecutionRequest, decision: Decision, rule: str, reason: str) -> Decision:
    """Return the refusal of what was allowed, for a reason that only the moment could show."""
    refused = decision.model_copy(update={"allowed": False, "rule": rule, "reasons": (reason,)})
    return _sign_decision(request, _add_hash(refused))


def apply_answer(request: ExecutionRequest, decision: Decision, rule: str, answer: Answer) -> Decision:
    """Return what became of a decision that asks, now that there is an answer. Only a yes allows."""
    yes = answer.verdict in YES
    changes = {"allowed": yes, "asks": (), "rule": rule, "answer": answer.verdict, "reasons": (answer.told,)}
    return _sign_decision(request, _add_hash(decision.model_copy(update=changes)))


def _decide_unsigned(request: ExecutionRequest, settings: Settings, catalogue: Catalogue) -> Decision:
    """Return the decision, whose audit hash covers only itself."""
    work = request.work
    match work:
        case RuntimeRun():
            return _judge_program(request, work, settings, catalogue)
        case ToolRun():
            return _judge_tool(request, work, settings)
        case GuestRun() | ServerCall() | SdkCall():
            return _judge_call(request, work, settings)


def _judge_program(
    request: ExecutionRequest, work: RuntimeRun, settings: Settings, catalogue: Catalogue
) -> Decision:
    terms, notes, objections = programs.judge_program(work, request.limits, settings, catalogue)
    objections = [*objections, *_check_read_only(request, work, settings)]
    if work.executable is None and any(rule.executable for rule in settings.policy.rule):
        names, request = _choose_executables(request, work, terms.grants.executables, settings)
        grants = terms.grants.model_copy(update={"executables": names})
        terms = terms.model_copy(update={"grants": grants})
    return _make_decision(request, settings, notes, objections, program=terms)


def _choose_executables(
    request: ExecutionRequest, work: RuntimeRun, names: tuple[str, ...], settings: Settings
) -> tuple[tuple[str, ...], ExecutionRequest]:
    """Return which of the names may run a program that names none, and the request as if it had named the first.

    So nobody gets past a rule about an executable by leaving the choice to Paddock.
    """

    def with_executable(name: str) -> ExecutionRequest:
        return request.model_copy(update={"work": work.model_copy(update={"executable": name})})

    allowed = tuple(name for name in names if not any(rules.list_denials(with_executable(name), settings)))
    unasked = tuple(
        name for name in allowed if not any(rules.list_questions(with_executable(name), settings))
    )
    left = unasked or allowed or names
    return left, with_executable(left[0]) if left else request


def _judge_tool(request: ExecutionRequest, work: ToolRun, settings: Settings) -> Decision:
    terms, notes, objections = script_tools.judge_tool(work, request.limits, settings)
    objections = [*objections, *_check_read_only(request, work, settings)]
    return _make_decision(request, settings, notes, objections, tool=terms)


def _judge_call(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> Decision:
    limits, grants, notes, objections = guests.judge_guest(request, work, settings)
    return _make_decision(request, settings, notes, objections, limits=limits, grants=grants)


def _make_decision(
    request: ExecutionRequest,
    settings: Settings,
    notes: list[Reason],
    objections: list[Reason],
    **terms: object,
) -> Decision:
    """Return the decision on terms, after what every kind of work is held against. What is refused asks nobody."""
    objections = [
        *objections,
        *_check_depth(request),
        *_check_caller(request, settings),
        *rules.list_denials(request, settings),
    ]
    asks = [] if objections else [*rules.list_questions(request, settings)]
    reasons = objections or asks or notes
    fields = {
        "allowed": not objections and not asks,
        "reasons": tuple(reason for _, reason in reasons),
        "asks": tuple(reason for _, reason in asks),
        "rule": (reasons or [("default", "")])[0][0],
        **terms,
    }
    return _add_hash(Decision.model_validate(fields))


def _add_hash(decision: Decision) -> Decision:
    itself = canonical(decision.model_dump(mode="json", exclude={"audit_hash"}))
    return decision.model_copy(update={"audit_hash": _hash_bytes(itself)})


def _sign_decision(request: ExecutionRequest, decision: Decision) -> Decision:
    """Return the decision with an audit hash that covers who asked for what (ids and hashes) as well."""
    work = request.work
    match work:
        case GuestRun():
            what = {
                "name": work.name,
                "profile": work.profile,
                "source_sha256": _hash_bytes(work.source.encode("utf-8", "surrogatepass")),
            }
        case ServerCall():
            what = {"server": work.server, "tool": work.tool}
        case RuntimeRun():
            what = {"runtime": work.runtime, "content_sha256": work.sha256}
        case SdkCall():
            what = {"method": work.method}
        case ToolRun():
            what = {"tool": work.tool, "prompt": work.prompt, "script_sha256": work.script_sha256}
    identity = {
        # Equal requests for programs have equal hashes.
        "id": None if isinstance(work, RuntimeRun) else request.id,
        "parent": None if isinstance(work, RuntimeRun) else request.parent,
        "actor": request.actor,
        "surface": request.surface,
        "kind": work.kind,
        **what,
    }
    signature = _hash_bytes(canonical({"decision": decision.audit_hash, "request": identity}))
    return decision.replace(audit_hash=signature)


def _check_depth(request: ExecutionRequest) -> Iterator[Reason]:
    """Object to what runs itself over and over."""
    if request.depth > MAX_NESTING:
        what = f"{label_request(request)} is nested more than {MAX_NESTING} deep"
        yield "depth", f"{what}; a script or a sequence that runs itself never ends"


def _check_read_only(
    request: ExecutionRequest, work: RuntimeRun | ToolRun, settings: Settings
) -> Iterator[Reason]:
    """Object to programs and script tools that may change something where the request may only read."""
    calls = narrower(request.calls, settings.grants.calls)
    if calls != "run" and (work.access == "workspace-write" or work.network != "none"):
        yield "grants.calls", f"this run may only read ({calls}); ask for read-only access and no network"


def _check_caller(request: ExecutionRequest, settings: Settings) -> Iterator[Reason]:
    """Object to a method of the SDK that is not granted to programs of the profile that calls it."""
    if (caller := request.caller) is None:
        return
    granted = {"script": settings.sdk.script, "execute": settings.sdk.execute, "compute": ()}[caller.profile]
    if not any(fnmatchcase(caller.method, name) for name in granted):
        what = f"paddock.{caller.method} is not granted to programs of the profile {caller.profile}"
        key = f"sdk.{caller.profile}"
        yield key, f"{what}; name it in `{caller.profile}` under [sdk] in paddock.toml"


def _hash_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
