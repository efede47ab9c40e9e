"""Which hosts an installation may connect to: those of its registries, under the rules of every file."""

import pytest

from paddock.engines.packages.hosts import grant_registries
from paddock.model.network import NetworkRule
from paddock.policy.decisions.network import decide_host

REGISTRY = "https://registry.example/simple"


def find_effects(*rules, places=(("registry.example", 443),)) -> list[str]:
    grant = grant_registries("uv", [REGISTRY], rules)
    return [decide_host(grant, host, port).effect for host, port in places]


def test_without_rules_only_the_registry_is_granted():
    places = [("registry.example", 443), ("registry.example", 80), ("other.example", 443)]
    assert find_effects(places=places) == ["allow", "deny", "deny"]


@pytest.mark.parametrize("origin", ["system", "user", "workspace", "token"])
@pytest.mark.parametrize(
    ("host", "effect"), [("registry.example", "ask"), ("*.example", "ask"), ("*.registry.example", "allow")]
)
def test_a_question_of_any_file_holds_for_a_registry(origin, host, effect):
    assert find_effects(NetworkRule(host=host, effect="ask", origin=origin)) == [effect]


@pytest.mark.parametrize("origin", ["system", "user", "workspace", "token"])
def test_a_denial_of_any_file_beats_a_question(origin):
    rules = [
        NetworkRule(host="registry.example", effect="ask", origin="user"),
        NetworkRule(host="registry.example", effect="deny", origin=origin),
    ]
    assert find_effects(*rules) == ["deny"]


@pytest.mark.parametrize("effect", ["allow", "ask"])
@pytest.mark.parametrize(
    ("origin", "added"), [("user", True), ("system", True), ("workspace", False), ("token", False)]
)
def test_a_workspace_or_a_token_adds_neither_hosts_nor_ports(effect, origin, added):
    rules = [
        NetworkRule(host="files.example.com", effect=effect, origin=origin),
        NetworkRule(host="registry.example", effect=effect, ports=(22,), origin=origin),
    ]
    places = [("files.example.com", 443), ("registry.example", 22)]
    assert find_effects(*rules, places=places) == [effect if added else "deny"] * 2


@pytest.mark.parametrize("origin", ["workspace", "token"])
def test_such_a_question_does_not_widen_the_networks_of_a_host(origin):
    allowed = NetworkRule(host="*.example.com", effect="allow", origin="user")
    asked = NetworkRule(host="files.example.com", effect="ask", addresses=["10.0.0.0/8"], origin=origin)
    decision = decide_host(grant_registries("uv", [REGISTRY], [allowed, asked]), "files.example.com", 443)
    assert (decision.effect, decision.networks) == ("ask", ((),))
