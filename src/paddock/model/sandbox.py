"""What confinement this machine can give: the facts behind `paddock doctor`."""

from typing import Literal, get_args

from pydantic import Field

from paddock.model.base import Value
from paddock.model.outcome import SandboxFacts

Tier = Literal["unconfined", "landlock", "namespaces"]
"""How strongly a worker must be confined, weakest first."""
TIERS: tuple[Tier, ...] = get_args(Tier)


class Layer(Value):
    """One mechanism of the kernel or the distribution."""

    name: str
    available: bool
    detail: str
    """Its version when it is there, else why it is not."""
    fix: str = ""
    """The exact command or step that makes it available."""


class TierReport(Value):
    """One tier, tried out."""

    tier: Tier
    """The tier."""
    proved: bool
    """Whether a canary ran in it and none of its attempts worked."""
    attempts: dict[str, bool] = Field(default_factory=dict)
    """What the canary tried, and whether it was refused."""
    why: str = ""
    """Why the tier is not proved."""
    fix: str = ""
    """What would help."""
    facts: SandboxFacts = SandboxFacts()
    """Its layers, and what they leave open."""


class Examination(Value):
    """Every layer and tier of this machine, and what follows from them."""

    layers: tuple[Layer, ...]
    tiers: tuple[TierReport, ...]
    minimum: Tier
    effective: TierReport | None
    """The strongest proved tier; `unconfined` only where that is the minimum; None when nothing will run."""
    users: str = ""
    """Whom programs of a root Paddock run as, and what that means for workspaces; empty where Paddock is not root."""

    @property
    def sufficient(self) -> bool:
        """Whether programs may run."""
        return self.effective is not None and TIERS.index(self.effective.tier) >= TIERS.index(self.minimum)
