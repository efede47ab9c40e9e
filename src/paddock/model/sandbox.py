"""The confinement that this machine offers: the facts behind `paddock doctor`."""

from typing import Literal, get_args

from pydantic import Field

from paddock.model.base import Value
from paddock.model.outcome import SandboxFacts

Tier = Literal["unconfined", "landlock", "namespaces"]
"""The strength of a confinement, weakest first."""
TIERS: tuple[Tier, ...] = get_args(Tier)


class Layer(Value):
    """One mechanism of the kernel or the distribution."""

    name: str
    available: bool
    detail: str
    """Its version if it is available, otherwise the reason."""
    fix: str = ""
    """The exact command or step that makes it available."""


class TierReport(Value):
    """The test of one tier."""

    tier: Tier
    """The tier."""
    proved: bool
    """Whether a canary ran in it and all of its attempts were refused."""
    attempts: dict[str, bool] = Field(default_factory=dict)
    """The canary's attempts, and whether each was refused."""
    why: str = ""
    """Why the tier is not proved."""
    fix: str = ""
    """What would help."""
    facts: SandboxFacts = SandboxFacts()
    """Its layers, and what they leave open."""
    unsupervised: str = ""
    """Why system calls that change metadata are not supervised; empty if they are, or need not be."""


class Examination(Value):
    """Every layer and tier of this machine, and the resulting tier."""

    layers: tuple[Layer, ...]
    tiers: tuple[TierReport, ...]
    minimum: Tier
    effective: TierReport | None
    """The strongest proved tier; `unconfined` only if that is the minimum; None if nothing can run."""
    users: str = ""
    """As which user programs run if Paddock runs as root, and what that means for workspaces; otherwise empty."""

    @property
    def sufficient(self) -> bool:
        """Whether programs may run."""
        return self.effective is not None and TIERS.index(self.effective.tier) >= TIERS.index(self.minimum)
