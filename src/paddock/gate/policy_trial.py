"""Try requests under the policy in force: what matches them, what decides, and how to change that. Runs nothing.

`paddock policy check` and `explain`, and the page `/policy`, show the same trials.
"""

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from paddock.engines.programs.recipe import executables
from paddock.gate.work import KINDS
from paddock.model.approval import Effect
from paddock.model.base import Json
from paddock.model.host_names import read_host_pattern
from paddock.model.network import HTTPS_PORT, HostDecision, HostGrant, HttpRequest
from paddock.model.outcome import Decision
from paddock.model.request import ExecutionRequest, RuntimeRun, ServerCall
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.flow import FlowPolicy, ToolHints
from paddock.policy.decisions.network import decide_host, list_matching_rules
from paddock.policy.decisions.programs import list_stages
from paddock.policy.decisions.sentences import render_rule
from paddock.policy.settings.flow import FlowEffect
from paddock.policy.settings.merge import BUILT_IN
from paddock.policy.settings.schema import Settings

_UNKNOWN = ToolHints()
_READS = ToolHints(read_only=True)
"""Hints for resources and prompts, as the gate has them."""
_NO_SOURCES: Mapping[str, str] = MappingProxyType({})


class Step(NamedTuple):
    """One check that a request passes."""

    asks: str
    """What the check asks for, such as `the executable is allowed`."""
    objections: tuple[str, ...]
    """Why it refuses the request; empty if it does not."""


class RuleMatch(NamedTuple):
    """A rule that matches what was tried."""

    name: str
    """Its name in reasons, such as `user rule 2`."""
    effect: Effect | FlowEffect
    text: str
    """Its keys and values, as they stand in a settings file."""


class FlowTrial(NamedTuple):
    """What flow rules say of a request. Whether they apply depends on what the same run has read before."""

    sources: tuple[str, ...] = ()
    """What its results count as: `private`, `untrusted`."""
    sinks: tuple[str, ...] = ()
    """What it counts as when it is called: `external`."""
    rules: tuple[RuleMatch, ...] = ()
    """The rules about such calls, strictest first."""
    needs: tuple[tuple[str, ...], ...] = ()
    """For each of these rules: what the run must have read."""

    def describe(self) -> list[str]:
        """Return the rules and labels as lines for people; none if no flow rule concerns the request."""
        lines = [
            f"{_EFFECTS[rule.effect]} once its run has read {' and '.join(needs)} data, says {rule.name}"
            for rule, needs in zip(self.rules, self.needs, strict=True)
        ]
        if self.sources:
            lines.append(f"its results count as {' and '.join(self.sources)}")
        return lines

    def as_json(self) -> dict[str, Json]:
        """Return it for `--json`."""
        rules: list[Json] = [
            {"rule": rule.name, "effect": rule.effect, "source": list(needs)}
            for rule, needs in zip(self.rules, self.needs, strict=True)
        ]
        return {"sources": list(self.sources), "sinks": list(self.sinks), "rules": rules}


_EFFECTS = {"deny": "denied", "ask": "a person is asked", "mark": "marked in the record"}


class Trial(NamedTuple):
    """What policy answers to a request."""

    request: ExecutionRequest
    """The request with the defaults of the settings."""
    decision: Decision
    steps: tuple[Step, ...]
    """The checks in their order, up to the first objection."""
    rules: tuple[RuleMatch, ...]
    """The rules that match it, in the order of the files."""
    remedy: str
    """What to do about a refusal; empty if its reasons say it."""
    source: str
    """File and line of the deciding rule or setting; empty if it has none, or is not known."""
    flow: FlowTrial

    @property
    def directories(self) -> list[str]:
        """The directories beside the workspace that a program has, as lines for a person."""
        work = self.request.work
        return [f"directory {each}" for each in work.directories] if isinstance(work, RuntimeRun) else []


class HostTrial(NamedTuple):
    """What the rules on hosts answer to a connection, or to a request of HTTP."""

    decision: HostDecision
    rules: tuple[RuleMatch, ...]
    source: str
    """File and line of the deciding rule; empty if it has none, or is not known."""


class PathTrial(NamedTuple):
    """What programs may do with a path of the workspace."""

    path: str
    """The path, relative to the workspace."""
    hidden_by: str = ""
    """The entry of `workspace.hide` that hides it; `a link` if only what a link leads to is hidden."""
    protected: bool = False
    """Whether it stays as it is in a writable workspace."""
    exists: bool = True
    leads_out: bool = False
    """Whether it is a link out of the workspace, which programs cannot follow."""


class PolicyTrials:
    """Tries requests under one set of settings. `sources` has the place of each setting and rule, as in `Merged`."""

    def __init__(self, settings: Settings, sources: Mapping[str, str] = _NO_SOURCES) -> None:
        self.settings = settings
        self._sources = sources
        self._catalogue = partial(executables, added=settings.runtimes.recipes)
        self.policy = Policy(settings, KINDS, self._catalogue)
        self._flow = FlowPolicy(settings, KINDS)

    def try_request(self, request: ExecutionRequest) -> Trial:
        """Return what policy answers to a request."""
        request = self.policy.add_defaults(request)
        decision = self.policy.decide(request)
        matches = tuple(
            RuleMatch(name, rule.effect, render_rule(rule))
            for name, rule in self.policy.list_matching_rules(request)
        )
        refused = not decision.allowed and not decision.asks
        return Trial(
            request,
            decision,
            tuple(self._list_steps(request, decision)),
            matches,
            self.policy.suggest_remedy(request, decision) if refused else "",
            self.find_source(decision.rule),
            FlowTrial() if refused else self._try_flow(request, decision),
        )

    def try_host(self, host: str, port: int = HTTPS_PORT, request: HttpRequest | None = None) -> HostTrial:
        """Return what the rules answer to a connection of a program with the network `hosts`, or to one request.

        Raises ValueError for what is not a host.
        """
        if host.startswith("*"):
            raise ValueError(f'"{host}" is not one host')
        grant = HostGrant(rules=self.settings.network.rule)
        name = read_host_pattern(host)
        decision = decide_host(grant, name, port, request)
        matches = tuple(
            RuleMatch(rule_name, rule.effect, render_rule(rule.replace(header=())))
            for rule_name, rule in list_matching_rules(grant, name, port, request)
        )
        return HostTrial(decision, matches, self.find_source(decision.rule))

    def find_source(self, rule: str) -> str:
        """Return file and line of a rule or setting; empty for the built-in ones, and if they are not known."""
        found = self._sources.get(rule, "")
        return "" if found == BUILT_IN else found

    def _list_steps(self, request: ExecutionRequest, decision: Decision) -> Sequence[Step]:
        steps: list[Step] = []
        if isinstance(request.work, RuntimeRun):
            for asks, objections in list_stages(request.work, request.limits, self.settings, self._catalogue):
                steps.append(Step(asks, tuple(reason for _, reason in objections)))
                if objections:
                    return steps
        objects = not decision.allowed and not decision.asks
        steps.append(Step("rules and grants of the settings", decision.reasons if objects else ()))
        return steps

    def _try_flow(self, request: ExecutionRequest, decision: Decision) -> FlowTrial:
        if not self.settings.flow.rule:
            return FlowTrial()
        is_method = isinstance(request.work, ServerCall) and request.work.is_method
        labels = self._flow.find_labels(request, decision, _READS if is_method else _UNKNOWN)
        found = self._flow.list_rules(labels.sinks)
        return FlowTrial(
            tuple(sorted(labels.sources)),
            tuple(sorted(labels.sinks)),
            tuple(RuleMatch(each.name, each.rule.effect, render_rule(each.rule)) for each in found),
            tuple(each.rule.source for each in found),
        )


def find_hidden(request: ExecutionRequest, settings: Settings) -> list[str]:
    """Return the files that the program of a request could not read; those of the workspace relative to it.

    Raises OSError.
    """
    from paddock.confinement.sandbox.child.hiding import find_hidden
    from paddock.gate.processes import read_hiding

    if not isinstance(request.work, RuntimeRun) or request.work.access == "none":
        return []
    workspace = str(request.workspace.resolve())
    folders = [workspace, *(str(each.path.resolve()) for each in request.work.directories)]
    found = find_hidden(folders, read_hiding(settings.workspace))
    return [each.path.removeprefix(f"{workspace}/") for each in found]


def try_path(workspace: Path, path: str, settings: Settings) -> PathTrial:
    """Return what programs may do with a path of the workspace. Raises OSError, and ValueError for a path outside."""
    from paddock.confinement.sandbox.child.hiding import find_hidden, find_rule
    from paddock.gate.change_sets import find_protected_paths
    from paddock.gate.processes import read_hiding
    from paddock.policy.decisions.workdir import is_confined

    if not is_confined(path):
        raise ValueError("a path of the workspace is relative to it, and has no `..`")
    names = [name for name in path.split("/") if name not in {"", "."}]
    if "\0" in path or not names:
        raise ValueError("name a file or a folder of the workspace")
    top, relative, rules = workspace.resolve(), "/".join(names), read_hiding(settings.workspace)
    real = Path(os.path.realpath(top / relative))
    if not real.is_relative_to(top):  # whether something is there is nothing that a program could know
        return PathTrial(relative, leads_out=True)
    both = {top / relative, *(top / relative).parents, real, *real.parents}
    is_hidden = not both.isdisjoint(Path(each.path) for each in find_hidden([str(top)], rules))
    rule, exists = find_rule(str(top), relative, rules), real.exists()
    return PathTrial(
        relative,
        (rule or "a link") if is_hidden else "" if exists else rule,
        protected=not both.isdisjoint(top / each for each in find_protected_paths(settings, workspace)),
        exists=exists,
    )
