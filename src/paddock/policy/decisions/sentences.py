"""Describe the policy in force to people: what an agent may do, and which setting or rule decides it."""

import json
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import groupby
from typing import NamedTuple

from paddock.model.base import count
from paddock.model.limits import KIB, MIB
from paddock.model.network import NetworkRule
from paddock.policy.settings.flow import FlowLabel, FlowRule
from paddock.policy.settings.merge import FLOW_RULES_KEY, HOST_RULES_KEY, RULES_KEY, name_rule
from paddock.policy.settings.rules import Rule
from paddock.policy.settings.schema import Settings


class Sentence(NamedTuple):
    """One sentence about the policy."""

    text: str
    source: str
    """The key of the setting or the name of the rule behind it: a key of `Merged.sources`."""


class Topic(NamedTuple):
    """The sentences about one thing."""

    title: str
    sentences: tuple[Sentence, ...]


_ACCESS = {
    "none": "They do not see the files of the workspace.",
    "read-only": "They may read the workspace, and change nothing in it.",
    "overlay": "They may read the workspace. What they write waits until a person accepts it.",
    "workspace-write": "They may read and write the workspace.",
}
_NETWORK = {
    "none": "They have no network.",
    "loopback": "They have no network except for their own 127.0.0.1.",
    "hosts": "They may connect only to hosts that a rule allows.",
    "full": "They may connect to any address.",
}
_CALLS = {
    "run": "They may call every tool of these servers.",
    "read_only": "They may call only tools that their server marks as read-only.",
    "dry_run": "They may call tools that their server marks as read-only. Every other call is only rehearsed.",
}
_PACKAGES = {
    "on": "They may install packages.",
    "auto": "A person is asked before packages are installed for an agent.",
    "ask": "A person is asked before packages are installed.",
    "off": "They may not install packages.",
}
_EFFECTS = {"deny": "is denied", "ask": "waits for a person", "allow": "is allowed", "mark": "is marked"}
_TIERS = {
    "namespaces": "Programs run only with the strongest confinement, the tier namespaces.",
    "landlock": "Programs run only confined, at least with the tier landlock.",
    "unconfined": "Programs may run without any confinement.",
}


def describe_policy(settings: Settings, *, with_paths: bool = True) -> tuple[Topic, ...]:
    """Return what an agent may do under these settings, by topic; without the paths of this machine on request."""
    topics = (
        Topic("Programs in other languages", tuple(_describe_programs(settings))),
        Topic("JavaScript and methods of the SDK", tuple(_describe_guests(settings))),
        Topic("Tools of servers", tuple(_describe_servers(settings))),
        Topic("Rules", tuple(_describe_rules(settings, with_paths=with_paths))),
        Topic("Hosts", tuple(_describe_hosts(settings))),
        Topic("Flow of data", tuple(_describe_flow(settings))),
        Topic("Limits", tuple(_describe_limits(settings))),
    )
    return tuple(topic for topic in topics if topic.sentences)


def render_rule(rule: Rule | NetworkRule | FlowLabel | FlowRule) -> str:
    """Return the keys and values of a rule, as they stand in a settings file."""
    fields = rule.model_dump(exclude={"origin"}, exclude_defaults=True)
    return ", ".join(f"{name} = {json.dumps(value)}" for name, value in fields.items())


def _describe_programs(settings: Settings) -> Iterator[Sentence]:
    mine = settings.runtimes
    if not mine.enabled:
        yield Sentence("Agents may run no programs in other languages.", "runtimes.enabled")
        return
    languages = "every language" if "*" in mine.allowed else _list(mine.allowed, "no language")
    yield Sentence(f"Agents may run programs in {languages}.", "runtimes.allowed")
    if mine.executables:
        yield Sentence(f"Only these executables run them: {_list(mine.executables)}.", "runtimes.executables")
    yield Sentence(_ACCESS[mine.access], "runtimes.access")
    for each in settings.workspace.directory if mine.access != "none" else ():
        yield Sentence(f"They may use the directory {each}, too.", "workspace.directory")
    hidden = count(len(settings.workspace.hide), "pattern names", "patterns name")
    yield Sentence(f"Secrets in files stay hidden: {hidden} them.", "workspace.hide")
    yield Sentence(_NETWORK[mine.network], "runtimes.network")
    if mine.environment:
        yield Sentence(
            f"They may be given the environment variables {_list(mine.environment)}.", "runtimes.environment"
        )
    yield Sentence(_PACKAGES[settings.packages.enabled], "packages.enabled")
    if settings.packages.denied:
        yield Sentence(f"These packages are refused: {_list(settings.packages.denied)}.", "packages.denied")
    if not settings.sessions.enabled:
        yield Sentence("They may open no session.", "sessions.enabled")
    elif settings.sessions.background:
        yield Sentence("Their sessions may run between two programs, too.", "sessions.background")
    yield Sentence(_TIERS[settings.sandbox.minimum_tier], "sandbox.minimum_tier")


def _describe_guests(settings: Settings) -> Iterator[Sentence]:
    granted = settings.sdk.execute
    yield Sentence("Agents may run JavaScript. It has no access to files or to the network.", "")
    methods = "every method" if "*" in granted else _list(granted, "no method")
    yield Sentence(f"It may call these methods of the SDK: {methods}.", "sdk.execute")
    verbs = {"changes.accept": "accepts", "changes.undo": "undoes"}
    asked = [verb for method, verb in verbs.items() if any(fnmatchcase(method, name) for name in granted)]
    if asked and settings.grants.calls == "run":
        yield Sentence(
            f"A person is asked before it {' or '.join(asked)} changes, unless a rule allows it.", ""
        )
    for command in settings.sdk.commands:
        yield Sentence(f"It may call the command {command.name}, if it is granted.", "sdk.commands")
    if settings.grants.jit:
        yield Sentence("It may ask for just-in-time compilation.", "grants.jit")
    if not settings.tools.enabled:
        yield Sentence("It may run no script tools.", "tools.enabled")
    else:
        terms = f"workspace {settings.tools.access}, network {settings.tools.network}"
        yield Sentence(
            f"Script tools may have what they declare, at most: {terms}.",
            "tools.access",
        )


def _describe_servers(settings: Settings) -> Iterator[Sentence]:
    granted = settings.grants.servers
    if not granted:
        yield Sentence("Programs may call no servers.", "grants.servers")
        return
    servers = "every configured server" if "*" in granted else f"the servers {_list(granted)}"
    yield Sentence(f"Programs may call {servers}.", "grants.servers")
    yield Sentence(_CALLS[settings.grants.calls], "grants.calls")
    if asking := settings.servers.questions:
        which = "Every server" if "*" in asking else f"The servers {_list(asking)}"
        yield Sentence(f"{which} may ask a person during a call.", "servers.questions")


def _describe_rules(settings: Settings, *, with_paths: bool) -> Iterator[Sentence]:
    for origin, rules in groupby(settings.policy.rule, key=lambda rule: rule.origin):
        for number, rule in enumerate(rules, 1):
            yield Sentence(_describe_rule(rule, with_paths=with_paths), name_rule(RULES_KEY, origin, number))
    if not settings.policy.rule:
        yield Sentence(
            "There are no further rules: what the grants allow runs without a further question.", ""
        )


def _describe_rule(rule: Rule, *, with_paths: bool) -> str:
    given = rule.model_dump(exclude={"origin", "effect", "reason", "kind"}, exclude_defaults=True)
    if not with_paths:
        given |= {name: "..." for name in _PATHS if name in given}
    what = _KINDS.get(rule.about, "Every request")
    which = " and ".join(f"{name} {_show(value)}" for name, value in given.items())
    text = f"{what}{f' with {which}' if which else ''} {_EFFECTS[rule.effect]}"
    if rule.effect == "allow":
        text += ", and others of its kind are refused unless another rule of this file names them"
    return f"{text}{f' ({rule.reason})' if rule.reason else ''}."


_PATHS = ("workspace", "directory")
"""Fields of a rule that are globs over paths."""
_KINDS: dict[str | None, str] = {
    "guest": "JavaScript",
    "server": "A call of a server",
    "runtime": "A program in another language",
    "tool": "A script tool",
    "sdk": "A call of the SDK",
    "replay": "A replay",
    "changes": "A decision on a change set",
}


def _describe_hosts(settings: Settings) -> Iterator[Sentence]:
    for origin, rules in groupby(settings.network.rule, key=lambda rule: rule.origin):
        for number, rule in enumerate(rules, 1):
            yield Sentence(_describe_host_rule(rule), name_rule(HOST_RULES_KEY, origin, number))


def _describe_host_rule(rule: NetworkRule) -> str:
    ports = f" on port {_list(map(str, rule.ports))}" if rule.ports else ""
    requests = f" with {_list(rule.methods)}" if rule.methods else ""
    paths = f" for {_list(rule.paths)}" if rule.paths else ""
    added = f", with added {_list(name for name, _ in rule.header)}" if rule.header else ""
    reason = f" ({rule.reason})" if rule.reason else ""
    return f"Sending to {rule.host}{ports}{requests}{paths} {_EFFECTS[rule.effect]}{added}{reason}."


def _describe_flow(settings: Settings) -> Iterator[Sentence]:
    for origin, rules in groupby(settings.flow.rule, key=lambda rule: rule.origin):
        for number, rule in enumerate(rules, 1):
            read = " and ".join(rule.source)
            text = f"A call that can send data to others {_EFFECTS[rule.effect]} once its run has read {read} data"
            reason = f" ({rule.reason})" if rule.reason else ""
            yield Sentence(f"{text}{reason}.", name_rule(FLOW_RULES_KEY, origin, number))
    for label in settings.flow.label if settings.flow.rule else ():
        given = label.model_dump(exclude={"source", "sink"}, exclude_defaults=True)
        which = " and ".join(f"{name} {_show(value)}" for name, value in given.items())
        effects = [f"return {' and '.join(label.source)} data"] if label.source else []
        effects += ["can send data to others"] if label.sink else []
        yield Sentence(f"Calls with {which} {' and '.join(effects)}.", "flow.label")


def _describe_limits(settings: Settings) -> Iterator[Sentence]:
    mine, guest = settings.runtimes, settings.limits.execute
    yield Sentence(
        f"A program in another language runs for at most {show_time(mine.timeout_ms)}.", "runtimes.timeout_ms"
    )
    yield Sentence(f"It has at most {show_bytes(mine.memory_bytes)} of memory.", "runtimes.memory_bytes")
    yield Sentence(
        f"At most {count(mine.max_jobs, 'of them runs', 'of them run')} at a time.", "runtimes.max_jobs"
    )
    yield Sentence(
        f"JavaScript of an agent runs for {show_time(guest.timeout_ms)}, and for {show_time(guest.max_timeout_ms)} "
        "if it asks for that.",
        "limits.execute.timeout_ms",
    )
    yield Sentence(
        f"It has at most {show_bytes(guest.memory_bytes)} of memory.", "limits.execute.memory_bytes"
    )
    yield Sentence(f"It makes at most {guest.host_calls:,} calls.", "limits.execute.host_calls")
    asks = {"deny": "is refused", "clamp": "gets the maximum"}[settings.limits.timeout_policy]
    yield Sentence(f"A request that asks for more {asks}.", "limits.timeout_policy")
    yield Sentence(
        f"A person has {show_time(settings.approvals.wait_ms)} to answer. No answer is a refusal.",
        "approvals.wait_ms",
    )


def show_time(ms: int) -> str:
    """Return a time in milliseconds for people."""
    for unit, size in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if ms >= size and ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"


def show_bytes(size: int) -> str:
    """Return a number of bytes for people."""
    for unit, factor in (("GiB", 1024 * MIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= factor and size % factor == 0:
            return f"{size // factor} {unit}"
    return f"{size} bytes"


def _list(names: Iterable[str], empty: str = "") -> str:
    found: Sequence[str] = tuple(names)
    return ", ".join(found) or empty


def _show(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
