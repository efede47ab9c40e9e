"""Decide which hosts a job may connect to: the rules of the settings, `[[network.rule]]`, narrowed by the request.

Each file with a rule that allows or asks is judged separately, and all of them must agree. A file with denials alone
only denies. The file of a workspace, which anyone may have written, never allows a host alone.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from paddock.model.base import count
from paddock.model.host_names import (
    find_common_pattern,
    match_host,
    quote_host,
    read_address,
    read_host_pattern,
)
from paddock.model.network import (
    HTTPS_PORT,
    ORIGINS_THAT_GRANT,
    HostDecision,
    HostGrant,
    HttpRequest,
    NetworkRule,
    find_path_fault,
)
from paddock.model.request import RuntimeRun, ToolRun
from paddock.policy.decisions.kinds import Reason
from paddock.policy.settings.merge import HOST_RULES_KEY, name_rule, name_rules
from paddock.policy.settings.schema import Settings

_USER = "the user's"
_OWNERS = {"system": "the system's", "user": _USER, "workspace": "the workspace's"}
_ORDER = {"deny": 0, "ask": 1, "allow": 2}
_MAX_NAMED = 5
_MAX_PATH_CHARS = 100
MAX_ASKED_CHARS = 400
"""Maximum length of method and path of a request that a person is asked about, in characters: a question shows all."""


class _NetworkRules(NamedTuple):
    """The rules of one file, with their numbers in the file."""

    origin: str
    rules: list[tuple[int, NetworkRule]]

    def name_rule(self, number: int) -> str:
        return name_rule(HOST_RULES_KEY, self.origin, number)


def narrow_hosts(rules: Sequence[NetworkRule], names: Sequence[str] | None) -> HostGrant:
    """Return the grant of a request: all that the rules allow, or of that only the hosts that it names.

    Names are hosts, or `*.` and a name. They never widen anything. Raises ValueError for a name that is not a host.
    """
    return HostGrant(
        rules=tuple(rules), hosts=None if names is None else tuple(map(read_host_pattern, names))
    )


def grant_hosts(work: RuntimeRun | ToolRun, settings: Settings) -> HostGrant | None:
    """Return the hosts that a program or script tool may connect to; None with another network than `hosts`."""
    return narrow_hosts(settings.network.rule, work.hosts) if work.network == "hosts" else None


def check_hosts(work: RuntimeRun | ToolRun, settings: Settings) -> Iterator[Reason]:
    """Yield an objection if no rule allows any host, or a host that the request names, on any port."""
    grant = grant_hosts(work, settings)
    if grant is None:
        return
    if all(rule.effect == "deny" for rule in grant.rules):
        wanted = grant.hosts or ("api.example.com",)
        why = f"no rule allows a host; {_suggest_rule(wanted[0], HTTPS_PORT, 'user')}"
        yield _find_denial(grant, wanted[0]) or ("network.rule", why)
    else:
        yield from list_useless_hosts(grant)


def list_useless_hosts(grant: HostGrant) -> Iterator[Reason]:
    """Yield an objection for each host that the request names and that no rule allows or asks about on any port."""
    for host in grant.hosts or ():
        if not any(rule.effect != "deny" and find_common_pattern(rule.host, host) for rule in grant.rules):
            why = f"no rule allows {host}; {_suggest_rule(host, HTTPS_PORT, 'user')}"
            yield _find_denial(grant, host) or ("network.rule", why)


def _find_denial(grant: HostGrant, host: str) -> Reason | None:
    """Return the name and reason of a rule that denies all of a host. Another rule that allows it changes nothing."""
    for file in _group_by_file(grant):
        for number, rule in file.rules:
            is_whole = rule.effect == "deny" and not rule.ports and not rule.is_conditional
            if is_whole and (rule.host == host or match_host(rule.host, host)):
                name = file.name_rule(number)
                return name, rule.reason or f"{quote_host(host)} is denied by {name}"
    return None


def list_matching_rules(
    grant: HostGrant, host: str, port: int, request: HttpRequest | None = None
) -> list[tuple[str, NetworkRule]]:
    """Return the rules that concern a port of a canonical host, or a request to it, with their names."""
    return [
        (file.name_rule(number), rule)
        for file in _group_by_file(grant)
        for number, rule in file.rules
        if rule.concerns(host, port, request)
    ]


def list_opened_hosts(grant: HostGrant) -> list[str]:
    """Return the hosts of a grant, as the rules name them, whose TLS is opened to see requests."""
    return [
        rule.host
        for rule in grant.rules
        if rule.inspects
        and (grant.hosts is None or any(find_common_pattern(rule.host, host) for host in grant.hosts))
    ]


def decide_host(grant: HostGrant, host: str, port: int, request: HttpRequest | None = None) -> HostDecision:
    """Return the decision on a port of a canonical host; with a `request`, on that one."""
    decision = _decide_host(grant, host, port, request)
    concerned = [
        rule for rule in grant.rules if rule.concerns(host, port) or rule.concerns(host, port, request)
    ]
    plain = {"methods": (), "paths": ()}
    denials = [  # of some requests to the port
        rule
        for rule in grant.rules
        if rule.effect == "deny" and rule.inspects and rule.model_copy(update=plain).concerns(host, port)
    ]
    inspects = any(rule.inspects for rule in (*concerned, *denials))
    if not inspects or decision.effect == "deny":
        return decision
    if request is None:
        return decision.model_copy(update={"inspects": True})
    if fault := find_path_fault(request.target.partition("?")[0]):
        return HostDecision(effect="deny", rule=decision.rule, reason=f"{quote_host(host)}:{port}: {fault}")
    if len(decision.asked_request) > MAX_ASKED_CHARS:
        reason = f"{decision.reason}, and the path is too long for a question ({MAX_ASKED_CHARS} characters)"
        return HostDecision(effect="deny", rule=decision.rule, reason=reason)
    header: dict[str, str] = {}
    for rule in grant.rules:
        # The file of a workspace, which anyone may have written, never sends a secret anywhere.
        if rule.effect != "deny" and rule.origin in ORIGINS_THAT_GRANT and rule.concerns(host, port, request):
            header = {**dict(rule.header), **header}
    return decision.model_copy(update={"inspects": True, "header": tuple(header.items())})


def _decide_host(grant: HostGrant, host: str, port: int, request: HttpRequest | None) -> HostDecision:
    where = f"{quote_host(host)}:{port}"
    if request is not None and any(rule.is_conditional for rule in grant.rules):
        where = f"{request.method} {where}{request.target.partition('?')[0][:_MAX_PATH_CHARS]}"
    if grant.hosts is not None and not any(match_host(each, host) for each in grant.hosts):
        more = len(grant.hosts) - _MAX_NAMED
        named = ", ".join(grant.hosts[:_MAX_NAMED]) + (
            f" and {count(more, 'more', 'more')}" if more > 0 else ""
        )
        reason = f"{where} is not among the hosts of this request ({named or 'none'}); request {host}, too"
        return HostDecision(effect="deny", rule="request", reason=reason)
    files = _group_by_file(grant)
    decisions = [
        decision for file in files if (decision := _decide_by_file(file, host, port, where, request))
    ]
    # A question about one request covers one about its host, and not the other way round.
    found = min(decisions, key=lambda each: (_ORDER[each.effect], not each.asked_request), default=None)
    granting = [file for file in files if file.origin in ORIGINS_THAT_GRANT and _has_grants(file)]
    if not granting and (found is None or found.effect != "deny"):
        return HostDecision(
            effect="deny", reason=f"no rule allows {where}; {_suggest_rule(host, port, 'user')}"
        )
    assert found is not None, "a file that grants something has a decision on every host"
    networks = tuple(file for each in decisions for file in each.networks)
    return found.model_copy(update={"networks": networks if found.effect != "deny" else ()})


def _group_by_file(grant: HostGrant) -> list[_NetworkRules]:
    return [
        _NetworkRules(origin, list(enumerate(rules, 1)))
        for origin, rules in groupby(grant.rules, attrgetter("origin"))
    ]


def _has_grants(file: _NetworkRules) -> bool:
    return any(rule.effect != "deny" for _, rule in file.rules)


def _decide_by_file(
    file: _NetworkRules, host: str, port: int, where: str, request: HttpRequest | None
) -> HostDecision | None:
    """Return the decision of one file; None if the file leaves the host to others.

    Before there is a request, a rule that asks about some requests only opens the host.
    """
    concerned = [(number, rule) for number, rule in file.rules if rule.concerns(host, port, request)]
    for number, rule in concerned:
        if rule.effect == "deny":
            name = file.name_rule(number)
            return HostDecision(
                effect="deny", rule=name, reason=rule.reason or f"{where} is denied by {name}"
            )
    if not concerned:
        if not _has_grants(file):
            return None
        name = name_rules(HOST_RULES_KEY, file.origin)
        remedy = _suggest_keys(file, host, port, request) if request is not None else ""
        remedy = remedy or _suggest_rule(host, port, file.origin)
        reason = f"{where} is not allowed by any of the {name}; {remedy}"
        return HostDecision(effect="deny", rule=name, reason=reason)
    allowed: list[str] = []
    for _, rule in concerned:
        allowed += rule.addresses
        if read_address(rule.host.removeprefix("*.")):  # a rule that names an address names its network
            allowed.append(rule.host)
    networks = (tuple(allowed),)
    asking = [
        (number, rule)
        for number, rule in concerned
        if rule.effect == "ask" and (request is not None or not rule.is_conditional)
    ]
    if not asking:
        return HostDecision(effect="allow", rule=file.name_rule(concerned[0][0]), networks=networks)
    number, rule = min(asking, key=lambda each: not each[1].is_conditional)
    name = file.name_rule(number)
    asked = ""
    if request is not None and rule.is_conditional:
        asked = f"{request.method} {request.target.partition('?')[0]}"
    why = (
        rule.reason
        or f"{'sending' if asked else 'connecting to'} {where} needs a person's approval, says {name}"
    )
    return HostDecision(effect="ask", rule=name, reason=why, networks=networks, asked_request=asked)


def _suggest_rule(host: str, port: int, origin: str) -> str:
    return (
        f"add a [[network.rule]] with {spell_rule(host, port)} to {_OWNERS.get(origin, _USER)} paddock.toml"
    )


def spell_rule(host: str, port: int) -> str:
    """Return the keys of a rule that allows a port of a host, as a sentence names them."""
    if port == HTTPS_PORT:
        return f'host = "{host}" and effect = "allow"'
    return f'host = "{host}", effect = "allow" and ports = [{port}]'


def _suggest_keys(file: _NetworkRules, host: str, port: int, request: HttpRequest) -> str:
    """Return which keys of a rule on the host keep a request out; "" if no rule of the file allows the host."""
    found: list[tuple[int, list[str]]] = []
    for number, rule in file.rules:
        if rule.effect != "deny" and rule.concerns(host, port):
            by_method, by_path = rule.replace(paths=()), rule.replace(methods=())
            keys = [] if by_method.concerns(host, port, request) else ["its method to `methods`"]
            keys += [] if by_path.concerns(host, port, request) else ["its path to `paths`"]
            found.append((number, keys))
    if not found:
        return ""
    number, keys = min(found, key=lambda each: len(each[1]))
    return (
        f"add {' and '.join(keys)} of network rule {number} in {_OWNERS.get(file.origin, _USER)} paddock.toml"
    )
