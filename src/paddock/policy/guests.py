"""Decide on a guest program, and on what guests call: a server's tool, a method of the SDK."""

from collections.abc import Iterator

from paddock.model.limits import Grants, GuestLimits, narrower
from paddock.model.request import ExecutionRequest, GuestRun, SdkCall, ServerCall
from paddock.model.sandbox import TIERS, Tier
from paddock.policy.reason import Reason, label_request
from paddock.settings.profiles import ComputeLimits, ProfileLimits
from paddock.settings.schema import Settings

JIT_REFUSED = (
    "just-in-time compilation is not granted; run without it, or set `jit = true` under [grants] "
    "in the paddock.toml of the user or the system"
)

LONG_CALLS = frozenset({"sequence.run", "temporal.fire"})
"""Methods of the SDK that run other work."""

GUEST_TIER: Tier = "landlock"
"""What confines a guest worker, besides being a process of its own: uid, Landlock, seccomp, no namespaces."""


def judge_guest(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> tuple[GuestLimits, Grants, list[Reason], list[Reason]]:
    """Return what a request gets, what was clamped, and what is refused; each with the name of its rule."""
    limits, clamped, refused = _effective_limits(request, work, settings)
    grants = Grants(
        jit=request.jit and settings.grants.jit,
        servers=() if isinstance(work, GuestRun) and work.computes else settings.grants.servers,
        calls=narrower(request.calls, settings.grants.calls),
    )
    objections = [
        *_code_size(work, limits),
        *_check_confinement(work, settings),
        *refused,
        *_check_grants(request, work, settings),
    ]
    return limits, grants, clamped, objections


def _effective_limits(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> tuple[GuestLimits, list[Reason], list[Reason]]:
    """Return the effective limits, what was clamped, and what is refused."""
    profile, group = _profile_limits(work, settings)
    limits = {name: getattr(profile, name) for name in GuestLimits.model_fields}
    ceilings = _limits_with_ceiling(profile)
    limits |= {name: min(limits[name], getattr(profile, ceiling)) for name, ceiling in ceilings.items()}
    clamped: list[Reason] = []
    refused: list[Reason] = []
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


def _limits_with_ceiling(profile: ProfileLimits) -> dict[str, str]:
    """Return which limits have a ceiling apart from what a program gets without asking."""
    wall = {"timeout_ms": "max_timeout_ms"}
    return wall | {"output_bytes": "max_output_bytes"} if isinstance(profile, ComputeLimits) else wall


def _profile_limits(work: GuestRun | ServerCall | SdkCall, settings: Settings) -> tuple[ProfileLimits, str]:
    """Return the limits that hold for a request by default, and the settings key they come from."""
    match work:
        case GuestRun(profile=name):
            return settings.limits.of(name), f"limits.{name}"
        case ServerCall():
            longest = settings.servers.call_timeout_ms
            walls = {"timeout_ms": longest, "max_timeout_ms": longest}
            return settings.limits.execute.model_copy(update=walls), "servers.call_timeout_ms"
        case SdkCall(method=method):
            key = "long_call_timeout_ms" if method in LONG_CALLS else "call_timeout_ms"
            longest = getattr(settings.sdk, key)
            walls = {"timeout_ms": longest, "max_timeout_ms": longest}
            return settings.limits.execute.model_copy(update=walls), f"sdk.{key}"


def _code_size(work: GuestRun | ServerCall | SdkCall, limits: GuestLimits) -> Iterator[Reason]:
    """Object to a program above the limit (51,200 bytes pass, one more does not)."""
    most = limits.code_bytes
    match work:
        case GuestRun(source=source):
            if len(source) > most or len(source.encode("utf-8", "surrogatepass")) > most:
                yield "code-size", f"Code size exceeds limit ({most} bytes)"
        case ServerCall() | SdkCall():
            pass


def _check_confinement(work: GuestRun | ServerCall | SdkCall, settings: Settings) -> Iterator[Reason]:
    least = settings.sandbox.minimum_tier
    if isinstance(work, GuestRun) and TIERS.index(GUEST_TIER) < TIERS.index(least):
        what = (
            f"guest workers are confined by the tier {GUEST_TIER}, and sandbox.minimum_tier asks for {least}"
        )
        yield "sandbox.minimum_tier", f"{what}; set it to {GUEST_TIER} in the paddock.toml that asks for more"


def _check_grants(
    request: ExecutionRequest, work: GuestRun | ServerCall | SdkCall, settings: Settings
) -> Iterator[Reason]:
    if request.jit and not settings.grants.jit:
        yield "grants.jit", JIT_REFUSED
    match work:
        case ServerCall(server=server):
            granted = settings.grants.servers
            if "*" not in granted and server not in granted:
                names = ", ".join(granted) or "none"
                where = "name it in `servers` under [grants] in paddock.toml"
                yield "grants.servers", f"server {server} is not granted (granted: {names}); {where}"
            calls = narrower(request.calls, settings.grants.calls)
            if calls == "read_only" and work.read_only is False:
                what = f"{label_request(request)} is not marked as read-only by its server, and this run may only read"
                yield "grants.calls", f"{what}; rehearse it with dry_run, or ask for a run that may do all"
        case SdkCall() if not work.reads:
            calls = narrower(request.calls, settings.grants.calls)
            if calls != "run":
                what = f"{label_request(request)} changes something, and this run may only read ({calls})"
                yield "grants.calls", f"{what}; ask for a run that may do all"
        case GuestRun() | SdkCall():
            pass
