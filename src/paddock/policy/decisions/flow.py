"""Decide what must not flow from one call to another: labels of a request, and the rule that applies to it.

Labels depend on the request alone, never on what a program computes. `paddock.gate.flow` remembers what was read.
"""

from collections.abc import Collection
from typing import NamedTuple

from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, RuntimeRun, SdkCall, ToolRun
from paddock.policy.decisions.effects import list_effects
from paddock.policy.decisions.kinds import Kinds
from paddock.policy.decisions.rules import match_request
from paddock.policy.settings.flow import FlowEffect, FlowLabel, FlowRule
from paddock.policy.settings.merge import FLOW_RULES_KEY, name_rule
from paddock.policy.settings.schema import Settings

_SENDING_METHODS = frozenset(
    {"notify.approval", "notify.send", "webhook.deliver", "webhook.register", "webhook.test"}
)
"""Methods of the SDK that send something, or let it be sent later, to an address outside."""
_STRICTNESS: tuple[FlowEffect, ...] = ("mark", "ask", "deny")


class ToolHints(NamedTuple):
    """What a server says of a tool. None is unknown, and matches every label: a server cannot avoid one by silence."""

    read_only: bool | None = None
    open_world: bool | None = None


class FlowLabels(NamedTuple):
    """The labels of one request."""

    sources: frozenset[str] = frozenset()
    sinks: frozenset[str] = frozenset()


class NamedRule(NamedTuple):
    """A flow rule and its name for people, such as `user flow rule 1`."""

    name: str
    rule: FlowRule


class FlowPolicy:
    """Labels requests and finds the rules about them, under one set of settings."""

    def __init__(self, settings: Settings, kinds: Kinds) -> None:
        self._settings = settings
        self._kinds = kinds
        self.needs_hints = any(label.hints for label in settings.flow.label)
        """Whether some label depends on annotations of tools."""
        numbers: dict[str, int] = {}
        self._rules: list[NamedRule] = []
        for rule in settings.flow.rule:
            numbers[rule.origin] = number = numbers.get(rule.origin, 0) + 1
            self._rules.append(NamedRule(name_rule(FLOW_RULES_KEY, rule.origin, number), rule))
        self._rules.sort(key=lambda each: _STRICTNESS.index(each.rule.effect), reverse=True)

    def find_labels(self, request: ExecutionRequest, decision: Decision, hints: ToolHints) -> FlowLabels:
        """Return the labels of a request that policy decided. `hints` are those of its tool, if it calls one."""
        labels = [each for each in self._settings.flow.label if self._matches(each, request, hints)]
        sources = {source for label in labels for source in label.source}
        sinks: set[str] = {label.sink for label in labels if label.sink is not None}
        if self._reaches_others(request, decision):
            sinks.add("external")
            if is_program(request):
                sources.add("untrusted")
        return FlowLabels(frozenset(sources), frozenset(sinks))

    def find_rule(self, read: Collection[str], sinks: Collection[str]) -> NamedRule | None:
        """Return the strictest rule about a call of `sinks` after results with the labels `read`; None without one."""
        found = self.list_rules(sinks)
        return next((each for each in found if all(source in read for source in each.rule.source)), None)

    def list_rules(self, sinks: Collection[str]) -> list[NamedRule]:
        """Return the rules about a call of `sinks`, whatever was read before, strictest first."""
        return [each for each in self._rules if each.rule.sink in sinks]

    def _matches(self, label: FlowLabel, request: ExecutionRequest, hints: ToolHints) -> bool:
        wanted = ((label.read_only, hints.read_only), (label.open_world, hints.open_world))
        if not all(None in pair or pair[0] == pair[1] for pair in wanted):
            return False
        return match_request(label.matcher, request, self._kinds[request.work.kind])

    def _reaches_others(self, request: ExecutionRequest, decision: Decision) -> bool:
        """Return whether a request leaves the machine by what Paddock itself knows, without a label."""
        if isinstance(request.work, SdkCall):
            return request.work.method in _SENDING_METHODS
        if not is_program(request):
            return False
        return not {"network", "unconfined"}.isdisjoint(list_effects(request, decision, self._settings))


def is_program(request: ExecutionRequest) -> bool:
    """Return whether a request runs a process. What it sends is not determined by its arguments alone."""
    return isinstance(request.work, RuntimeRun | ToolRun)
