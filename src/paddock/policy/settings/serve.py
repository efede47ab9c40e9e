"""Settings of a server that many users share, `[serve]`: its tokens, and how its users share the machine."""

import os
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from platformdirs import user_state_path
from pydantic import AwareDatetime, Field

from paddock.model.base import PositiveInt, Value
from paddock.model.limits import Maximum
from paddock.policy.settings.narrowing import Count, Mark, OwnersPath

MAX_RATE = 100_000
"""Maximum of `serve.token.rate`: the times of that many requests are kept in memory."""
MAX_TOKENS = 1000
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
NAME_RULE = "1 to 64 of A-Z a-z 0-9 . _ @ -, and begins with a letter or a digit"
_ACTOR_PREFIX = "token:"


def count_usable_processors() -> int:
    """Return the number of processors that this process may use, at most 1024."""
    return min(len(os.sched_getaffinity(0)), 1024)


class ServeToken(Value):
    """One `[[serve.token]]`: a user of a server. `paddock serve token new` makes one without this table."""

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    """Name of the token."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """SHA-256 of the token, as 64 hexadecimal digits. The token needs 256 random bits; otherwise it can be guessed."""
    actor: Annotated[str, Field(pattern=NAME_PATTERN)] = ""
    """User of the token, by default its name. Records and questions name the actor `token:USER`. Tokens of one user
    share stored output."""
    policy: Mapping[str, Any] = Field(default_factory=dict)
    """Settings that hold for this token, such as `runtimes = { network = "none" }`. They can only narrow."""
    max_jobs: PositiveInt | None = None
    """Maximum number of requests of this token that run at the same time. Further ones wait."""
    max_sessions: PositiveInt | None = None
    """Maximum number of open interpreter sessions of this token."""
    rate: Annotated[PositiveInt, Field(le=MAX_RATE)] | None = None
    """Maximum number of requests in any 60 seconds."""
    approve: bool = False
    """Whether this token may list and answer the questions of other users. No user can answer their own."""
    scope: Literal["all", "metrics"] = "all"
    """What the token may do: `metrics` only reads `/metrics`, and runs nothing."""
    expires: AwareDatetime | None = None
    """Time after which the token is refused, with its time zone."""

    @property
    def actor_name(self) -> str:
        """The actor of requests, records and questions.

        The prefix keeps it apart from the person at a terminal and from clients that call themselves alike.
        """
        return f"{_ACTOR_PREFIX}{self.actor or self.name}"


class ServeSettings(Value):
    """`[serve]`: a server that many users share. No workspace may set it."""

    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "serve")
    """Directory of the tokens' hashes and of what the server keeps for each user; by default `paddock/serve` in the
    user's state directory."""
    max_jobs: Annotated[Maximum, Field(le=1024), Mark.OWNERS_ONLY] = Field(
        default_factory=count_usable_processors
    )
    """Maximum number of requests of all users that run at the same time; by default the number of processors. Waiting
    users take turns."""
    idle_ms: Annotated[Maximum, Mark.OWNERS_ONLY] = 900_000
    """Time after which the processes of an unused token are ended, in milliseconds."""
    drain_ms: Annotated[Count, Field(le=600_000), Mark.OWNERS_ONLY] = 0
    """Time after SIGTERM in which the server still takes requests while `/readyz` fails already, in milliseconds: more
    than a load balancer needs to notice. Then `mcp.shutdown_grace_ms` begins."""
    token: Annotated[tuple[ServeToken, ...], Field(max_length=MAX_TOKENS), Mark.JOINED, Mark.OWNERS_ONLY] = ()
    """Tokens of all files together, beside those of `paddock serve token new`."""
