"""What must not flow from one tool to another: `[[flow.label]]` and `[[flow.rule]]`."""

from functools import cached_property
from typing import Annotated, Any, Literal, Self, cast

from pydantic import BeforeValidator, Field, model_validator

from paddock.model.base import Value
from paddock.policy.settings.narrowing import Mark
from paddock.policy.settings.rules import Rule

Source = Literal["private", "untrusted"]
Sink = Literal["external"]
FlowEffect = Literal["mark", "ask", "deny"]
"""What a rule does with a call, the strictest last."""


def _read_list(value: Any) -> Any:  # noqa: ANN401 - any TOML value
    """Return a single text as a list of it; a settings file may write either."""
    if isinstance(value, str):
        return (value,)
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


Sources = Annotated[tuple[Source, ...], BeforeValidator(_read_list)]


class FlowLabel(Value):
    """One `[[flow.label]]`. It concerns every call that matches all of its given fields."""

    tool: str | None = None
    """Glob over `server/tool`, such as `mail/*` or `*/send_*`. It also matches a tool's alias."""
    server: str | None = None
    """Glob over the server's name."""
    read_only: bool | None = None
    """`true` matches tools that their server marks as read-only (`readOnlyHint`), `false` all other tools."""
    open_world: bool | None = None
    """`false` matches tools whose server says that they reach nothing outside (`openWorldHint`), `true` all other
    tools."""
    method: str | None = None
    """Glob over a method of the SDK, such as `vault.get`."""
    script: str | None = None
    """Glob over the id of a script tool."""
    runtime: str | None = None
    """Glob over the runtime of a program, such as `python`."""
    source: Sources = ()
    """What the results are, one or both: data that must not leave (`private`), text that others can write
    (`untrusted`)."""
    sink: Sink | None = None
    """`external` for calls that can send data to others."""

    @model_validator(mode="after")
    def _labels_something(self) -> Self:
        if not self.source and self.sink is None:
            raise ValueError('a label needs `source` or `sink`, such as sink = "external"')
        given = [name for name in _ABOUT if getattr(self, name) is not None]
        if not given:
            *names, last = (f"`{name}`" for name in _ABOUT)
            raise ValueError(f"a label needs at least one of {', '.join(names)} and {last}")
        if others := [name for name in given if _ABOUT[name] != _ABOUT[given[0]]]:
            raise ValueError(f"no call matches both `{given[0]}` and `{others[0]}`; write two labels")
        _ = self.matcher
        return self

    @property
    def hints(self) -> bool:
        """Whether it depends on annotations of the tool."""
        return any(getattr(self, name) is not None for name in _HINTS)

    @cached_property
    def matcher(self) -> Rule:
        """The rule of the policy that matches the same requests, whatever the annotations are."""
        given = {name: getattr(self, name) for name in _ABOUT if name not in _HINTS}
        # `deny` also matches aliases.
        return Rule(effect="deny", kind="server" if self.hints else None, **given)


_HINTS = ("read_only", "open_world")
_ABOUT = {
    **dict.fromkeys(("tool", "server", *_HINTS), "server"),
    "method": "sdk",
    "script": "tool",
    "runtime": "runtime",
}
"""Fields that a call is matched with, and the kind of work that each concerns."""


class FlowRule(Value):
    """One `[[flow.rule]]`: what happens to a call of a sink once all of its sources have been read."""

    source: Annotated[Sources, Field(min_length=1)]
    """What must have been read: `private`, `untrusted`, or both."""
    sink: Sink
    """What is called then: `external`."""
    effect: FlowEffect
    """What happens: `deny` refuses the call, `ask` asks a person first, and `mark` only records it."""
    reason: str = ""
    """Reason for the refused caller, and for the person who is asked."""
    origin: str = ""
    """The file of the rule; Paddock sets it, and a file must not contain it."""


class FlowSettings(Value):
    """`[flow]`: what must not flow from one tool to another. Without a rule, nothing is labelled."""

    label: Annotated[tuple[FlowLabel, ...], Mark.JOINED] = ()
    """Labels of all files together. A later file can only add labels."""
    rule: Annotated[tuple[FlowRule, ...], Mark.JOINED] = ()
    """Rules of all files together. The strictest that applies decides, so a later file can only narrow."""
