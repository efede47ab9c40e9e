"""Limits and grants of a guest program, and of what guests call: a server's tool, a method of the SDK."""

from typing import NamedTuple

from paddock.model.limits import Grants, GuestLimits, narrower
from paddock.model.request import ExecutionRequest
from paddock.model.sandbox import Tier
from paddock.policy.kinds import Reason
from paddock.settings.profiles import ComputeLimits, ProfileLimits
from paddock.settings.schema import Settings

JIT_REFUSED = (
    "just-in-time compilation is not granted; run without it, or set `jit = true` under [grants] "
    "in the paddock.toml of the user or the system"
)

GUEST_TIER: Tier = "landlock"
"""What confines a guest worker, besides being a process of its own: uid, Landlock, seccomp, no namespaces."""


class GuestTerms(NamedTuple):
    """What a request gets, what was clamped, and what is refused; each with the name of its rule."""

    limits: GuestLimits
    grants: Grants
    clamped: list[Reason]
    refused: list[Reason]


def judge_guest(
    request: ExecutionRequest,
    settings: Settings,
    *,
    profile: ProfileLimits,
    group: str,
    servers: tuple[str, ...] | None = None,
) -> GuestTerms:
    """Return the terms of a request whose limits by default are `profile`, which the settings call `group`.

    `servers` are those that it may call, where they are not those of the grants.
    """
    limits, clamped, refused = _effective_limits(request, settings, profile, group)
    grants = Grants(
        jit=request.jit and settings.grants.jit,
        servers=settings.grants.servers if servers is None else servers,
        calls=narrower(request.calls, settings.grants.calls),
    )
    if request.jit and not settings.grants.jit:
        refused.append(("grants.jit", JIT_REFUSED))
    return GuestTerms(limits, grants, clamped, refused)


def call_limits(settings: Settings, max_ms: int) -> ProfileLimits:
    """Return the limits of a call that may last so many milliseconds."""
    walls = {"timeout_ms": max_ms, "max_timeout_ms": max_ms}
    return settings.limits.execute.model_copy(update=walls)


def _effective_limits(
    request: ExecutionRequest, settings: Settings, profile: ProfileLimits, group: str
) -> tuple[GuestLimits, list[Reason], list[Reason]]:
    """Return the effective limits, what was clamped, and what is refused."""
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
