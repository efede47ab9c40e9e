"""Decide on a request. A pure function of request and settings: no clock, no files, no state."""

import hashlib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import groupby
from typing import get_args

from paddock.model.approval import YES, Answer
from paddock.model.canonical import canonical
from paddock.model.limits import Calls, Grants, GuestLimits
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, GuestRun, RuntimeRun, SdkCall, ServerCall, ToolRun
from paddock.model.rules import Rule
from paddock.model.settings import TIERS, ComputeLimits, ProfileLimits, Settings, Tier
from paddock.policy import programs, scripts
from paddock.policy.programs import Catalogue, Verdict, nothing_known

JIT_REFUSED = (
    "just-in-time compilation is not granted; run without it, or set `jit = true` under [grants] "
    "in the paddock.toml of the user or the system"
)

_REMEMBERED = 4096

LONG_CALLS = frozenset({"sequence.run", "temporal.fire"})
"""Methods of the SDK that run other work."""

MOST_DEEP = 7
"""Requests that may ask for each other: fewer than workers, so that no chain waits for itself."""

GUEST_TIER: Tier = "landlock"
"""What confines a guest worker, besides being a process of its own: uid, Landlock, seccomp, no namespaces."""


class Policy:
    """Decides on requests under one set of settings.

    A program may call the same tool a thousand times, and many programs differ in their text alone: what was decided
    under the same circumstances is remembered. Only the audit hash is made anew.
    """

    def __init__(self, settings: Settings, catalogue: Catalogue = nothing_known) -> None:
        self._settings = settings
        self._catalogue = catalogue
        self._decided: dict[tuple[object, ...], Decision] = {}

    def decide(self, request: ExecutionRequest) -> Decision:
        """Return what `decide` returns."""
        work = request.work
        if isinstance(work, (RuntimeRun, ToolRun)):
            return decide(request, self._settings, self._catalogue)
        circumstances = _circumstances(request, work, self._settings)
        decision = self._decided.get(circumstances)
        if decision is None:
            decision = _judge(request, work, self._settings)
            if len(self._decided) < _REMEMBERED:
                self._decided[circumstances] = decision
        return _signed(request, decision)


def _circumstances(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> tuple[object, ...]:
    """Return all that `_judge` looks at."""
    if isinstance(work, ServerCall):
        what = work.server, work.tool, work.read_only
    elif isinstance(work, SdkCall):
        what = (work.method,)
    else:
        # At most four bytes to a character: most texts are short enough without being measured.
        small = 4 * len(work.source) <= settings.limits.of(work.profile).code_bytes
        measured = not small or request.limits.code_bytes is not None
        what = work.profile, len(work.source.encode("utf-8", "surrogatepass")) if measured else 0
    asked = vars(request.limits).values()
    whence = request.workspace, request.calls, request.jit, request.depth, request.caller
    return work.kind, *what, *whence, *asked


def decide(request: ExecutionRequest, settings: Settings, catalogue: Catalogue = nothing_known) -> Decision:
    """Return whether a request may run and with which limits and grants.

    All objections are given as reasons, the first of them names the deciding rule. The audit hash covers the
    decision and the identity of the request, never its payload.
    """
    work = request.work
    match work:
        case RuntimeRun():
            judged = _judge_program(request, work, settings, catalogue)
        case ToolRun():
            judged = _judge_tool(request, work, settings)
        case GuestRun() | ServerCall() | SdkCall():
            judged = _judge(request, work, settings)
    return _signed(request, judged)


def refuse(request: ExecutionRequest, decision: Decision, rule: str, reason: str) -> Decision:
    """Return the refusal of what was allowed, for a reason that only the moment could show."""
    refused = decision.model_copy(update={"allowed": False, "rule": rule, "reasons": (reason,)})
    return _signed(request, _hashed(refused))


def answered(request: ExecutionRequest, decision: Decision, rule: str, answer: Answer) -> Decision:
    """Return what became of a decision that asks, now that there is an answer. Only a yes allows."""
    yes = answer.verdict in YES
    changes = {"allowed": yes, "asks": (), "rule": rule, "answer": answer.verdict, "reasons": (answer.told,)}
    return _signed(request, _hashed(decision.model_copy(update=changes)))


def _judge_program(
    request: ExecutionRequest, work: RuntimeRun, settings: Settings, catalogue: Catalogue
) -> Decision:
    terms, notes, objections = programs.judge(work, request.limits, settings, catalogue)
    objections = [*objections, *_depth(request), *_may_change(request, work, settings)]
    return _judged(request, settings, notes, objections, program=terms)


def _judge_tool(request: ExecutionRequest, work: ToolRun, settings: Settings) -> Decision:
    terms, notes, objections = scripts.judge(work, request.limits, settings)
    objections = [*objections, *_depth(request), *_may_change(request, work, settings)]
    return _judged(request, settings, notes, objections, tool=terms)


def _judge(request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings) -> Decision:
    """Return the decision; its audit hash covers only itself."""
    limits, notes, objections = _limits(request, work, settings)
    objections = [
        *_code_size(work, limits),
        *_confinement(work, settings),
        *objections,
        *_depth(request),
        *_grants(request, work, settings),
    ]
    grants = Grants(
        jit=request.jit and settings.grants.jit,
        servers=() if isinstance(work, GuestRun) and work.computes else settings.grants.servers,
        calls=_narrower(request.calls, settings.grants.calls),
    )
    return _judged(request, settings, notes, objections, limits=limits, grants=grants)


def _judged(
    request: ExecutionRequest,
    settings: Settings,
    notes: list[Verdict],
    objections: list[Verdict],
    **terms: object,
) -> Decision:
    """Return the decision on terms, after what every kind of work is held against. What is refused asks nobody."""
    objections = [*objections, *_caller(request, settings), *_rules(request, settings)]
    asks = [] if objections else [*_asking(request, settings)]
    verdicts = objections or asks or notes
    fields = {
        "allowed": not objections and not asks,
        "reasons": tuple(reason for _, reason in verdicts),
        "asks": tuple(reason for _, reason in asks),
        "rule": (verdicts or [("default", "")])[0][0],
        **terms,
    }
    return _hashed(Decision.model_validate(fields))


def _hashed(decision: Decision) -> Decision:
    itself = canonical(decision.model_dump(mode="json", exclude={"audit_hash"}))
    return decision.model_copy(update={"audit_hash": _sha256(itself)})


def _signed(request: ExecutionRequest, decision: Decision) -> Decision:
    """Return the decision with an audit hash that covers who asked for what (ids and hashes) as well."""
    work = request.work
    match work:
        case GuestRun():
            what = {
                "name": work.name,
                "profile": work.profile,
                "source_sha256": _sha256(work.source.encode("utf-8", "surrogatepass")),
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
        # Equal requests for programs have equal hashes (S17).
        "id": None if isinstance(work, RuntimeRun) else request.id,
        "parent": None if isinstance(work, RuntimeRun) else request.parent,
        "actor": request.actor,
        "surface": request.surface,
        "kind": work.kind,
        **what,
    }
    signature = _sha256(canonical({"decision": decision.audit_hash, "request": identity}))
    return decision.model_copy(update={"audit_hash": signature})


def _limits(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> tuple[GuestLimits, list[Verdict], list[Verdict]]:
    """Return the effective limits, what was clamped, and what is refused."""
    profile, group = _profile(work, settings)
    limits = {name: getattr(profile, name) for name in GuestLimits.model_fields}
    ceilings = _ceilings(profile)
    limits |= {name: min(limits[name], getattr(profile, ceiling)) for name, ceiling in ceilings.items()}
    clamped: list[Verdict] = []
    refused: list[Verdict] = []
    for name, asked in request.limits.model_dump(exclude_none=True).items():
        ceiling_name = ceilings.get(name, name)
        ceiling = getattr(profile, ceiling_name)
        limits[name] = min(asked, ceiling)
        if asked <= ceiling:
            continue
        key = f"{group}.{ceiling_name}" if group.startswith("limits.") else group
        text = f"{name} = {asked} is over the ceiling of {ceiling} ({key})"
        if settings.limits.timeout_policy == "clamp":
            clamped.append((f"limits.{name}", f"{text}; the ceiling holds instead"))
        else:
            refused.append((f"limits.{name}", f"{text}; ask for less or raise the ceiling in paddock.toml"))
    return GuestLimits(**limits), clamped, refused


def _ceilings(profile: ProfileLimits) -> dict[str, str]:
    """Return which limits have a ceiling apart from what a program gets without asking."""
    wall = {"wall_ms": "wall_ceiling_ms"}
    return wall | {"output_bytes": "output_ceiling_bytes"} if isinstance(profile, ComputeLimits) else wall


def _profile(work: GuestRun | ServerCall | SdkCall, settings: Settings) -> tuple[ProfileLimits, str]:
    """Return the limits that hold for a request by default, and the settings key they come from."""
    match work:
        case GuestRun(profile=name):
            return settings.limits.of(name), f"limits.{name}"
        case ServerCall():
            longest = settings.servers.call_timeout_ms
            walls = {"wall_ms": longest, "wall_ceiling_ms": longest}
            return settings.limits.execute.model_copy(update=walls), "servers.call_timeout_ms"
        case SdkCall(method=method):
            key = "long_call_timeout_ms" if method in LONG_CALLS else "call_timeout_ms"
            longest = getattr(settings.sdk, key)
            walls = {"wall_ms": longest, "wall_ceiling_ms": longest}
            return settings.limits.execute.model_copy(update=walls), f"sdk.{key}"


def _code_size(work: GuestRun | ServerCall | SdkCall, limits: GuestLimits) -> Iterator[Verdict]:
    """Object to a program above the limit (M14, X18, X19: 51,200 bytes pass, one more does not)."""
    most = limits.code_bytes
    match work:
        case GuestRun(source=source):
            if len(source) > most or len(source.encode("utf-8", "surrogatepass")) > most:
                yield "code-size", f"Code size exceeds limit ({most} bytes)"
        case ServerCall() | SdkCall():
            pass


def _confinement(work: GuestRun | ServerCall | SdkCall, settings: Settings) -> Iterator[Verdict]:
    least = settings.sandbox.minimum_tier
    if isinstance(work, GuestRun) and TIERS.index(GUEST_TIER) < TIERS.index(least):
        what = (
            f"guest workers are confined by the tier {GUEST_TIER}, and sandbox.minimum_tier asks for {least}"
        )
        yield "sandbox.minimum_tier", f"{what}; set it to {GUEST_TIER} in the paddock.toml that asks for more"


def _grants(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> Iterator[Verdict]:
    if request.jit and not settings.grants.jit:
        yield "grants.jit", JIT_REFUSED
    match work:
        case ServerCall(server=server):
            granted = settings.grants.servers
            if "*" not in granted and server not in granted:
                names = ", ".join(granted) or "none"
                where = "name it in `servers` under [grants] in paddock.toml"
                yield "grants.servers", f"server {server} is not granted (granted: {names}); {where}"
            calls = _narrower(request.calls, settings.grants.calls)
            if calls == "read_only" and work.read_only is False:
                what = (
                    f"{_label(request)} is not marked as read-only by its server, and this run may only read"
                )
                yield "grants.calls", f"{what}; rehearse it with dry_run, or ask for a run that may do all"
        case SdkCall() if not work.reads:
            calls = _narrower(request.calls, settings.grants.calls)
            if calls != "run":
                what = f"{_label(request)} changes something, and this run may only read ({calls})"
                yield "grants.calls", f"{what}; ask for a run that may do all"
        case GuestRun() | SdkCall():
            pass


def _depth(request: ExecutionRequest) -> Iterator[Verdict]:
    """Object to what runs itself over and over."""
    if request.depth > MOST_DEEP:
        what = f"{_label(request)} is nested more than {MOST_DEEP} deep"
        yield "depth", f"{what}; a script or a sequence that runs itself never ends"


def _may_change(
    request: ExecutionRequest, work: RuntimeRun | ToolRun, settings: Settings
) -> Iterator[Verdict]:
    """Object to programs and script tools that may change something where the request may only read."""
    calls = _narrower(request.calls, settings.grants.calls)
    if calls != "run" and (work.access == "workspace-write" or work.network != "none"):
        yield "grants.calls", f"this run may only read ({calls}); ask for read-only access and no network"


def _narrower(one: Calls, other: Calls) -> Calls:
    order: tuple[Calls, ...] = get_args(Calls)
    return one if order.index(one) >= order.index(other) else other


def _caller(request: ExecutionRequest, settings: Settings) -> Iterator[Verdict]:
    """Object to a method of the SDK that is not granted to programs of the profile that calls it."""
    if (caller := request.caller) is None:
        return
    granted = {"script": settings.sdk.script, "execute": settings.sdk.execute, "compute": ()}[caller.profile]
    if not any(fnmatchcase(caller.method, name) for name in granted):
        what = f"paddock.{caller.method} is not granted to programs of the profile {caller.profile}"
        key = f"sdk.{caller.profile}"
        yield key, f"{what}; name it in `{caller.profile}` under [sdk] in paddock.toml"


def _rules(request: ExecutionRequest, settings: Settings) -> Iterator[Verdict]:
    """Object as the rules say. Each file is judged by itself, so that no file can widen another one."""
    for origin, mine in _by_file(request, settings):
        named = [(number, rule) for number, rule in mine if _concerns(rule, request)]
        denying = [(number, rule) for number, rule in named if rule.effect == "deny"]
        if denying:
            number, rule = denying[0]
            name = f"{origin or 'policy'} rule {number}"
            yield name, rule.reason or f"{_label(request)} is denied by {name}"
        elif any(rule.effect == "allow" for _, rule in mine) and not named:
            name = f"{origin or 'policy'} rules"
            yield name, f"{_label(request)} is allowed by none of the {name}"


def _asking(request: ExecutionRequest, settings: Settings) -> Iterator[Verdict]:
    """Say which rule of each file has a person asked, and why."""
    for origin, mine in _by_file(request, settings):
        for number, rule in mine:
            if rule.effect == "ask" and _concerns(rule, request):
                name = f"{origin or 'policy'} rule {number}"
                yield name, rule.reason or f"{_label(request)} needs a person's approval, says {name}"
                break


def _by_file(request: ExecutionRequest, settings: Settings) -> Iterator[tuple[str, list[tuple[int, Rule]]]]:
    """Yield the rules of each file that speak of this kind of work, with their numbers in the file."""
    for origin, rules in groupby(settings.policy.rule, key=lambda rule: rule.origin):
        kinds = (None, request.work.kind)
        yield origin, [(number, rule) for number, rule in enumerate(rules, 1) if rule.about in kinds]


def _concerns(rule: Rule, request: ExecutionRequest) -> bool:
    """Tell whether a rule of the right kind matches; `server/tool` globs match each part by itself."""
    if not fnmatchcase(str(request.workspace), rule.workspace or "*"):
        return False
    match request.work:
        case ServerCall(server=server, tool=tool):
            server_glob, _, tool_glob = (rule.tool or "*/*").partition("/")
            return (
                fnmatchcase(server, rule.server or "*")
                and fnmatchcase(server, server_glob)
                and fnmatchcase(tool, tool_glob)
            )
        case RuntimeRun() as work:
            return programs.concerns(rule, work)
        case SdkCall(method=method):
            return fnmatchcase(method, rule.method or "*")
        case ToolRun() as work:
            return scripts.concerns(rule, work)
        case GuestRun():
            return rule.jit is None or request.jit


def _label(request: ExecutionRequest) -> str:
    match request.work:
        case ServerCall(server=server, tool=tool):
            return f"{server}/{tool}"
        case GuestRun():
            return "running a program"
        case SdkCall(method=method):
            return f"paddock.{method}"
        case RuntimeRun(runtime=runtime):
            return f"running a {runtime} program"
        case ToolRun(tool=tool):
            return f"tool {tool}"


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
