"""Limits of the programs of each profile, `[limits]`."""

from typing import Annotated, Literal

from pydantic import Field

from paddock.model.base import Value
from paddock.model.limits import KIB, MIB, SMALLER, GuestLimits, Maximum
from paddock.model.request import Profile
from paddock.policy.settings.narrowing import stricter

HOUR_MS = 3_600_000


class ProfileLimits(GuestLimits):
    """Limits of one profile: a program's defaults, which except for the wall time are also its maximum."""

    max_timeout_ms: Maximum = 600_000
    """Maximum that a request may ask for, in milliseconds; `timeout_ms` is the default."""


class ScriptLimits(ProfileLimits):
    """Limits of `paddock run`."""

    timeout_ms: Maximum = 300_000
    """Maximum time from the start of the program to its result, in milliseconds."""
    max_timeout_ms: Maximum = 24 * HOUR_MS
    """Maximum that `--timeout` may ask for, in milliseconds."""


class ExecuteLimits(ProfileLimits):
    """Limits of programs that agents send."""

    code_bytes: Maximum = 256 * KIB
    """Maximum size of the program, in bytes of UTF-8. A larger program does not start. It is 50 KiB under the compat
    names, unless this is set."""


class ComputeLimits(ProfileLimits):
    """Limits of pure computations without console, timers and servers."""

    timeout_ms: Maximum = 1_000
    """Maximum time from the start of the program to its result, in milliseconds."""
    code_bytes: Maximum = MIB
    """Maximum size of the program, in bytes of UTF-8."""
    output_bytes: Maximum = 64 * KIB
    """Maximum output of `emit()` by default, in bytes."""
    max_output_bytes: Maximum = 2 * MIB
    """Maximum output that a request may ask for, in bytes."""


class RuntimeLimits(Value):
    """`[limits.runtime]`: limits of programs in language runtimes, besides those of `[runtimes]`."""

    stack_bytes: Annotated[int, Field(ge=KIB), SMALLER] = 1024 * 1024 * MIB
    """Maximum stack of a program's first thread, in bytes. With a value above its memory limit, such as the default,
    the stack is as large as memory allows. With a smaller one, further threads get stacks of this size by default."""


class LimitSettings(Value):
    """`[limits]`: ceilings of programs; for the guest one group for each profile."""

    timeout_policy: Annotated[Literal["deny", "clamp"], stricter("clamp", "deny")] = "deny"
    """Whether a request that asks for more than a ceiling is refused (`deny`) or gets the ceiling (`clamp`)."""
    script: ScriptLimits = Field(default_factory=ScriptLimits)
    """Limits of `paddock run`."""
    execute: ExecuteLimits = Field(default_factory=ExecuteLimits)
    """Limits of programs that agents send."""
    compute: ComputeLimits = Field(default_factory=ComputeLimits)
    """Limits of pure computations."""
    runtime: RuntimeLimits = Field(default_factory=RuntimeLimits)
    """Limits of programs in language runtimes."""

    def of(self, profile: Profile) -> ProfileLimits:
        """Return the limits of a profile."""
        return {"script": self.script, "execute": self.execute, "compute": self.compute}[profile]
