"""The hosts that an installation may connect to: those of its registries, and what the rules on hosts add or deny."""

from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from paddock.engines.packages.interface import PackagesError
from paddock.engines.packages.registries import DEFAULT
from paddock.model.host_names import find_common_pattern, read_host
from paddock.model.network import HTTP_PORT, HTTPS_PORT, ORIGINS_THAT_GRANT, HostGrant, NetworkRule

_DEFAULT_HOSTS = {"uv": ("pypi.org", "files.pythonhosted.org"), "npm": ("registry.npmjs.org",)}
"""Hosts of the registries that the installers have by default. PyPI keeps its files on a separate host."""
_SCHEMES = {"http": HTTP_PORT, "https": HTTPS_PORT}
_ANYWHERE = ("0.0.0.0/0", "::/0")
"""A registry may be in a private network: a company's own, or a mirror of a public one that its name servers name."""


def grant_registries(installer: str, names: Iterable[str], rules: Sequence[NetworkRule]) -> HostGrant:
    """Return the hosts for an installation from the registries with these `names` (addresses without credentials).

    The hosts that `rules` of the user or the system allow, or ask about, are added. Denials and questions of all
    sources apply to all of these, also those of a workspace or a token. Raises PackagesError for an address without a
    host.
    """
    found: list[NetworkRule] = []
    for name in names:
        found += _list_rules(installer, name.partition("=")[2] if name.startswith("@") else name)
    # One file for all: files are judged separately, and the rules of the user need not name the registries.
    granted = (rule for rule in rules if rule.effect != "deny" and rule.origin in ORIGINS_THAT_GRANT)
    found += [rule.replace(origin="") for rule in granted]
    found += _narrow_questions(rules, found)
    return HostGrant(rules=(*found, *(rule for rule in rules if rule.effect == "deny")))


def _narrow_questions(rules: Sequence[NetworkRule], granted: Sequence[NetworkRule]) -> list[NetworkRule]:
    """Return the questions of a workspace or a token about hosts and ports that are granted. They add no others."""
    found: list[NetworkRule] = []
    for rule in rules:
        if rule.effect != "ask" or rule.origin in ORIGINS_THAT_GRANT:
            continue
        for each in granted:
            host = find_common_pattern(rule.host, each.host)
            ports = set(rule.ports or (HTTPS_PORT,)) & set(each.ports or (HTTPS_PORT,))
            if host and ports:
                found.append(NetworkRule(host=host, effect="ask", ports=tuple(ports), reason=rule.reason))
    return found


def _list_rules(installer: str, address: str) -> list[NetworkRule]:
    """Return the rules for one registry; none for a directory of this machine."""
    defaults = _DEFAULT_HOSTS[installer]
    parts = urlsplit(address)
    if address == DEFAULT:
        return [_allow(host, HTTPS_PORT) for host in defaults]
    if parts.scheme not in _SCHEMES:
        return []
    try:
        host, port = read_host(parts.hostname or ""), parts.port or _SCHEMES[parts.scheme]
    except ValueError as problem:
        raise PackagesError(
            f"the registry {address} has no valid host: {problem}", "correct its address"
        ) from None
    if host in defaults:
        return [_allow(each, port) for each in defaults]
    return [_allow(host, port)]


def _allow(host: str, port: int) -> NetworkRule:
    return NetworkRule(host=host, effect="allow", ports=(port,), addresses=_ANYWHERE)
