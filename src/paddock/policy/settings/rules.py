"""Rules on requests (`[policy]`), and the settings for asking a person (`[approvals]`)."""

from typing import Annotated, Literal, Self

from platformdirs import user_state_path
from pydantic import AfterValidator, Field, model_validator

from paddock.model.approval import Effect
from paddock.model.base import Value
from paddock.model.languages import read_language
from paddock.model.limits import Maximum
from paddock.model.network import Network
from paddock.model.program import Access
from paddock.policy.settings.narrowing import FREE, Mark, OwnersPath


class Rule(Value):
    """One `[[policy.rule]]`. It concerns every request that matches all of its given fields."""

    effect: Effect
    """What the rule does: `deny` refuses, `ask` asks a person first, and `allow` refuses every request of its kind
    that no `allow` or `ask` of the same file matches."""
    tool: str | None = None
    """Glob over `server/tool`, such as `github/delete_*` or `*/write_*`. `deny` and `ask` also match a tool's alias."""
    server: str | None = None
    """Glob over the server's name."""
    method: str | None = None
    """Glob over a method of the SDK, such as `vault.*`. It also matches methods that run other work, such as `exec`."""
    runtime: Annotated[str, AfterValidator(read_language)] | None = None
    """Glob over the runtime of a program, such as `python`, or an alias of it, such as `bash`. Letter case is
    ignored."""
    executable: str | None = None
    """Glob over the executable of a program. Letter case is ignored. If a program names no executable, Paddock prefers
    one that no rule refuses or asks about."""
    access: Access | None = None
    """Access of a program to the workspace."""
    network: Network | None = None
    """Access of a program to the network."""
    directory: str | None = None
    """Glob over the paths of the directories beside the workspace (`workspace.directory`) that a program has. One of
    them is enough."""
    jit: Literal[True] | None = None
    """`true` matches JavaScript programs that ask for just-in-time compilation."""
    workspace: str | None = None
    """Glob over the path of the workspace, with links resolved."""
    script: str | None = None
    """Glob over the id of a script tool. Letter case is ignored."""
    changes: Literal["accept", "discard", "undo", "*"] | None = None
    """What is done with the changes of a program with the access `overlay`. Agents are asked about `accept` and `undo`
    by default; an `allow` rule of the system's or the user's file turns that off."""
    kind: Literal["guest", "server", "runtime", "tool", "sdk", "replay", "changes"] | None = None
    """Kind of work: `guest` (JavaScript), `server` (upstream tools), `runtime` (programs), `tool` (script tools),
    `sdk`, `replay` (recorded programs that run again) or `changes` (change sets). The field `tool` belongs to the kind
    `server`, and the field `script` to the kind `tool`."""
    reason: str = ""
    """Reason for the refused caller, and for the person who is asked."""
    origin: str = ""
    """The file of the rule; Paddock sets it, and a file must not contain it."""

    @property
    def about(self) -> str | None:
        """The kind of work that the rule concerns; None for any."""
        return next((kind for name, kind in _ABOUT.items() if getattr(self, name) is not None), self.kind)

    @model_validator(mode="after")
    def _concerns_something(self) -> Self:
        if self.about is None and self.workspace is None:
            names = ", ".join(f"`{name}`" for name in (*_ABOUT, "workspace"))
            raise ValueError(f"a rule needs at least one of {names} and `kind`")
        for name, kind in _ABOUT.items():
            if getattr(self, name) is not None and {kind} != {self.about, self.kind or kind}:
                raise ValueError(f'`{name}` is only allowed with kind = "{kind}"')
        if self.tool is not None and "/" not in self.tool:
            raise ValueError(f"`tool` is a glob over server/tool, for example `*/{self.tool}`")
        return self


_ABOUT = {
    "tool": "server",
    "server": "server",
    "method": "sdk",
    "runtime": "runtime",
    "executable": "runtime",
    "access": "runtime",
    "network": "runtime",
    "directory": "runtime",
    "jit": "guest",
    "script": "tool",
    "changes": "changes",
}
"""Fields of a rule that concern one kind of work.

The field `tool` is about tools of servers, the kind `server`. The kind `tool` is script tools; their field is `script`.
"""


class PolicySettings(Value):
    """`[policy]`: rules on requests. The rules of each file are judged separately; all files must agree."""

    rule: Annotated[tuple[Rule, ...], Mark.JOINED] = ()
    """Rules in the order of the files (system, user, workspace). Deny beats ask, and ask beats allow."""


class ApprovalSettings(Value):
    """`[approvals]`: how a person is asked about requests that a rule with the effect `ask` matches."""

    wait_ms: Maximum = 300_000
    """Maximum time for a person's answer, in milliseconds. No answer is a refusal. The time limit of the program stops
    meanwhile."""
    max_waiting: Maximum = 4
    """Maximum number of runs of one client that wait for an answer. A further one is refused at once."""
    directory: OwnersPath = Field(default_factory=lambda: user_state_path("paddock") / "approvals")
    """Directory of the questions for `paddock approve`; by default `paddock/approvals` in the state directory."""
    notify: Annotated[tuple[str, ...], FREE, Mark.OWNERS_ONLY] = ()
    """Notification channels for questions that begin to wait, in order of preference; the first one available is used.
    They are those of `sdk.notify`, such as `["desktop"]`. Webhooks for `approval.waiting` need no channel."""
