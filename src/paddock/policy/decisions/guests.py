"""Limits and grants of a guest program, and of its calls: of a server's tool, or of an SDK method."""

from typing import NamedTuple

from paddock.model.limits import Grants, GuestLimits, narrower
from paddock.model.request import ExecutionRequest
from paddock.model.sandbox import Tier
from paddock.policy.decisions.kinds import Reason
from paddock.policy.settings.profiles import ComputeLimits, ProfileLimits
from paddock.policy.settings.schema import Settings

JIT_REFUSED = (
    "just-in-time compilation is not granted; run without it, or set `jit = true` under [grants] "
    "in the paddock.toml of the user or the system"
)

GUEST_TIER: Tier = "landlock"
"""The confinement of a guest worker, besides its own process: uid, Landlock, seccomp, no namespaces."""


class GuestTerms(NamedTuple):
    """The terms of a request, clamped limits, and objections; each with the name of its rule."""

    limits: GuestLimits
    grants: Grants
    clamped: list[Reason]
    refused: list[Reason]


def judge_program_or_call(
    request: ExecutionRequest,
    settings: Settings,
    *,
    profile: ProfileLimits,
    group: str,
    servers: tuple[str, ...] | None = None,
) -> GuestTerms:
    """Return the terms of a program in V8, or of a call of a server's tool or an SDK method, whoever makes the call.

    Its default limits are `profile`; `group` is their key in the settings. `servers` are the servers that a
    program may call, if they differ from those of the grants.
    """
    limits = {name: getattr(profile, name) for name in GuestLimits.model_fields}
    # The limits whose maximum is a separate setting from their default.
    ceilings = {"timeout_ms": "max_timeout_ms"}
    if isinstance(profile, ComputeLimits):
        ceilings["output_bytes"] = "max_output_bytes"
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
        text = f"{name} = {asked} exceeds the maximum of {ceiling} ({key})"
        if settings.limits.timeout_policy == "clamp":
            clamped.append((f"limits.{name}", f"{text}; the maximum holds instead"))
        else:
            refused.append((f"limits.{name}", f"{text}; ask for less, or raise the maximum in paddock.toml"))
    grants = Grants(
        jit=request.jit and settings.grants.jit,
        servers=settings.grants.servers if servers is None else servers,
        calls=narrower(request.calls, settings.grants.calls),
    )
    if request.jit and not settings.grants.jit:
        refused.append(("grants.jit", JIT_REFUSED))
    return GuestTerms(GuestLimits(**limits), grants, clamped, refused)


def call_limits(settings: Settings, max_ms: int) -> ProfileLimits:
    """Return the limits of a call that may last at most `max_ms`."""
    walls = {"timeout_ms": max_ms, "max_timeout_ms": max_ms}
    return settings.limits.execute.model_copy(update=walls)
