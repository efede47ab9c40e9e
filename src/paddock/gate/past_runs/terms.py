"""Ask the policy in force about a recorded request again: its limits, and what would allow it.

The record has no payload, no workspace and no limits that a caller asked for. Therefore the request is rebuilt with an
empty program and without arguments, which policy does not read, and its limits are those of the settings.
"""

import re
from collections.abc import Mapping
from glob import escape
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from paddock.gate.past_runs.describe import DECIDED, PastRun, read_number, read_text, read_texts
from paddock.gate.work import KINDS
from paddock.model.base import Json
from paddock.model.limits import GuestLimits
from paddock.model.outcome import Decision
from paddock.model.program import ProgramTerms
from paddock.model.request import ExecutionRequest
from paddock.model.tool import ToolTerms
from paddock.policy.decisions.decision import Policy
from paddock.policy.decisions.kinds import FindExecutables
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings

_RULE_NAME = re.compile(r"(.{0,200}) rules?(?: ([0-9]{1,6}))?")
_FIELD_OF_RULE = {"server": "tool", "runtime": "runtime", "tool": "script", "sdk": "method"}
"""The field of a rule that names the work, by kind."""


class LimitUse(NamedTuple):
    """How much of a limit a run used."""

    name: str
    used: float
    allowed: float
    unit: str
    """`ms`, `bytes`, or empty for a number."""
    was_reached: bool
    """Whether it ended the run."""


class Remedy(NamedTuple):
    """What the policy in force says of a request that was refused, and what would allow it."""

    verdict: str
    """`allowed`, `ask` or `denied`: the decision today."""
    rule: str
    """The rule that decides today."""
    reasons: tuple[str, ...]
    """Its reasons. Most of them name the setting to change."""
    hint: str
    """A further remedy; empty for none."""
    present: str
    """The rule in the settings that refuses it, as TOML; empty if no rule does."""
    wanted: str
    """The rule that would allow it, as TOML; empty if none is missing."""


class Terms:
    """Asks the policy of some settings about recorded requests."""

    def __init__(self, settings: Settings, workspace: Path, catalogue: FindExecutables) -> None:
        self._settings = settings
        self._workspace = workspace
        self._policy = Policy(settings, KINDS, catalogue)

    def suggest_remedy(self, facts: Mapping[str, object]) -> Remedy | None:
        """Return what would allow a recorded request; None if it cannot be rebuilt from its facts."""
        request = rebuild_request(facts, self._workspace)
        if request is None:
            return None
        request = self._policy.add_defaults(request)
        decision = self._policy.decide(request)
        refused = decision.replace(rule=read_text(facts, "rule"))
        present, wanted = self._find_rules(facts, decision)
        return Remedy(
            "ask" if decision.asks else "allowed" if decision.allowed else "denied",
            decision.rule,
            decision.reasons,
            self._policy.suggest_remedy(request, refused),
            present,
            wanted,
        )

    def _find_rules(self, facts: Mapping[str, object], decision: Decision) -> tuple[str, str]:
        """Return the rule that refuses a request today, and the one that would allow it, as TOML."""
        found = _RULE_NAME.fullmatch(decision.rule)
        if decision.allowed or decision.asks or found is None:
            return "", ""
        origin, number = found[1], found[2]
        if number is None:  # there are `allow` rules, and none of them matches
            kind = read_text(facts, "kind")
            name, field = read_text(facts, "name"), _FIELD_OF_RULE.get(kind)
            return "", "" if field is None else _write_rule({"effect": "allow", field: escape(name)})
        rules = [rule for rule in self._settings.policy.rule if (rule.origin or "policy") == origin]
        index = int(number) - 1
        return _write_rule(_list_fields(rules[index])) if 0 <= index < len(rules) else "", ""

    def list_limits(self, past: PastRun) -> list[LimitUse]:
        """Return the limits of a run by the settings in force, with what it used; none if it did not run or end."""
        request = rebuild_request(past.facts, self._workspace)
        if request is None or past.run.ended is None or past.start.event == DECIDED:
            return []
        decision = self._policy.decide(self._policy.add_defaults(request))
        reached = {read_text(past.facts, "limit"), past.run.status}
        # Time limits stop while a person decides about a call of the run.
        waited_ms = sum(each.ms or 0.0 for each in past.questions if each.request != past.run.id)
        facts = {**past.facts, "ms": max(0.0, read_number(past.facts, "ms") - waited_ms)}
        return [
            LimitUse(name, used, allowed, unit, not reached.isdisjoint(ends))
            for name, used, allowed, unit, ends in _list_uses(decision, facts, read_text(facts, "kind"))
            if allowed
        ]


def rebuild_request(facts: Mapping[str, object], workspace: Path) -> ExecutionRequest | None:
    """Return a recorded request without its payload; None for facts that make no request."""
    name, kind = read_text(facts, "name"), read_text(facts, "kind")
    work: dict[str, Json] = {"kind": kind}
    match kind:
        case "guest":
            work |= {
                "source": "",
                "name": name or "program",
                "profile": read_text(facts, "profile") or "execute",
            }
        case "server" if method := read_text(facts, "method"):
            work |= {"server": name.removesuffix(f"/{method}"), "tool": method, "is_method": True}
        case "server":
            server, _, tool = name.rpartition("/")
            work |= {"server": server, "tool": tool}
        case "runtime":
            work |= {"runtime": name, "code": "", **_list_program_fields(facts)}
        case "tool":
            shared = {
                key: value for key in ("access", "network", "prompt") if (value := read_text(facts, key))
            }
            work |= {"tool": name, **shared, **_list_hosts(facts)}
        case "sdk":
            work |= {"method": name}
        case "changes":
            work |= {"action": read_text(facts, "action"), "id": read_text(facts, "changes")}
        case "replay":
            work |= {
                "run": read_text(facts, "repeats") or "test",
                "against": read_text(facts, "against") or "recorded",
            }
        case _:
            return None
    try:
        return ExecutionRequest.model_validate(
            {
                "actor": read_text(facts, "actor"),
                "surface": read_text(facts, "surface"),
                "workspace": workspace,
                "work": work,
                "jit": facts.get("jit") is True,
            }
        )
    except ValidationError:
        return None


def _list_program_fields(facts: Mapping[str, object]) -> dict[str, Json]:
    given: dict[str, Json] = {
        "executable": read_text(facts, "executable") or None,
        "access": read_text(facts, "access") or None,
        "network": read_text(facts, "network") or None,
        "env": dict.fromkeys(read_text(facts, "variables").split(), ""),
        "packages": list(read_texts(facts, "requirements")),
        **_list_hosts(facts),
    }
    if not given["packages"] and "session" not in facts and not facts.get("file_count"):
        given |= {"cwd": read_text(facts, "cwd") or ".", "file": read_text(facts, "file")}
    return {key: value for key, value in given.items() if value}


def _list_hosts(facts: Mapping[str, object]) -> dict[str, Json]:
    hosts = read_texts(facts, "hosts")
    return {"hosts": list(hosts)} if hosts else {}


_Use = tuple[str, float, float | None, str, set[str]]


def _list_uses(decision: Decision, facts: Mapping[str, object], kind: str) -> list[_Use]:
    """Return each limit: its name, what was used, what is allowed, its unit, and the ends that mean it was reached."""
    wall, memory, ms = read_number(facts, "ms"), read_number(facts, "peak_bytes"), "ms"
    match decision.program, decision.tool:
        case ProgramTerms(limits=limits), _:
            streams = max(read_number(facts, "stdout_bytes"), read_number(facts, "stderr_bytes"))
            return [
                ("wall time", wall, limits.timeout_ms, ms, {"wall", "timeout"}),
                ("processor time", read_number(facts, "cpu_ms"), limits.cpu_ms, ms, {"cpu"}),
                ("memory", memory, limits.memory_bytes, "bytes", {"memory", "memory_limit"}),
                ("output of a stream", streams, limits.output_bytes, "bytes", {"output", "output_limit"}),
            ]
        case _, ToolTerms() as terms:
            return [
                ("wall time", wall, terms.timeout_ms, ms, {"wall", "timeout"}),
                ("memory", memory, terms.memory_bytes, "bytes", {"memory", "memory_limit"}),
                (
                    "standard output",
                    read_number(facts, "stdout_bytes"),
                    terms.output_bytes,
                    "bytes",
                    {"output"},
                ),
            ]
        case _:
            return _list_guest_uses(decision.limits, facts, kind)


def _list_guest_uses(limits: GuestLimits, facts: Mapping[str, object], kind: str) -> list[_Use]:
    wall: _Use = ("wall time", read_number(facts, "ms"), limits.timeout_ms, "ms", {"timeout"})
    if kind != "guest":
        return [wall]
    return [
        wall,
        ("memory", read_number(facts, "peak_bytes"), limits.memory_bytes, "bytes", {"memory_limit"}),
        ("calls", read_number(facts, "calls"), limits.host_calls, "", set()),
        ("program", read_number(facts, "bytes_in"), limits.code_bytes, "bytes", set()),
        (
            "result and console",
            read_number(facts, "bytes_out"),
            limits.result_bytes + limits.output_bytes,
            "bytes",
            {"output_limit"},
        ),
    ]


def _list_fields(rule: Rule) -> dict[str, Json]:
    return rule.model_dump(mode="json", exclude={"origin"}, exclude_defaults=True)


def _write_rule(fields: Mapping[str, Json]) -> str:
    import tomlkit

    return f"[[policy.rule]]\n{tomlkit.dumps(dict(fields))}".strip()
