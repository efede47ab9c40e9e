"""What the rules decide on hosts: each file separately, deny before ask before allow, and no file widens another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.network import HostDecision, HostGrant, HttpRequest, NetworkRule
from paddock.policy.network import decide_host, list_useless_hosts, narrow_hosts

USER, WORKSPACE, SYSTEM = {"origin": "user"}, {"origin": "workspace"}, {"origin": "system"}
ADD = 'add a [[network.rule]] with host = "api.example.com" and effect = "allow"'


def allow(host: str, **more: object) -> NetworkRule:
    return NetworkRule(host=host, effect="allow", **{**USER, **more})


def ask(host: str, **more: object) -> NetworkRule:
    return NetworkRule(host=host, effect="ask", **{**USER, **more})


def deny(host: str, **more: object) -> NetworkRule:
    return NetworkRule(host=host, effect="deny", **{**USER, **more})


def decide(*rules: NetworkRule, host: str = "api.example.com", port: int = 443, names=None) -> HostDecision:
    return decide_host(narrow_hosts(rules, names), host, port)


def test_without_rules_nothing_is_allowed():
    assert decide() == HostDecision(
        effect="deny", reason=f"no rule allows api.example.com:443; {ADD} to the user's paddock.toml"
    )


def test_a_refusal_names_the_port_if_it_is_not_443():
    rules = [allow("api.example.com")]
    assert decide(*rules, port=80) == HostDecision(
        effect="deny",
        rule="user network rules",
        reason="api.example.com:80 is not allowed by any of the user network rules; "
        f"{ADD.replace(' and', ',')} and ports = [80] to the user's paddock.toml",
    )


def test_an_allowed_host():
    rules = [allow("other.example"), allow("*.example.com", addresses=["10.0.0.0/8"])]
    expected = HostDecision(effect="allow", rule="user network rule 2", networks=(("10.0.0.0/8",),))
    assert decide(*rules) == expected


@pytest.mark.parametrize(
    "rules",
    [[deny("*.example.com"), allow("api.example.com")], [allow("api.example.com"), deny("*.example.com")]],
)
def test_deny_beats_allow_in_any_order(rules):
    number = 1 + [rule.effect for rule in rules].index("deny")
    assert decide(*rules) == HostDecision(
        effect="deny",
        rule=f"user network rule {number}",
        reason=f"api.example.com:443 is denied by user network rule {number}",
    )


def test_deny_without_ports_denies_every_port():
    rules = [allow("*.example.com", ports=[80, 443]), deny("api.example.com")]
    assert decide(*rules, port=80).effect == "deny"
    assert decide(*rules, host="cdn.example.com", port=80).effect == "allow"


def test_ask_beats_allow():
    assert decide(allow("*.example.com"), ask("api.example.com")) == HostDecision(
        effect="ask",
        rule="user network rule 2",
        reason="connecting to api.example.com:443 needs a person's approval, says user network rule 2",
        networks=((),),
    )


def test_the_reason_of_a_rule_is_used():
    assert decide(deny("*.example.com", reason="use the mirror")).reason == "use the mirror"


def test_a_workspace_alone_allows_nothing():
    for effect in ("allow", "ask"):
        found = decide(NetworkRule(host="api.example.com", effect=effect, **WORKSPACE))
        assert found == HostDecision(
            effect="deny", reason=f"no rule allows api.example.com:443; {ADD} to the user's paddock.toml"
        )


def test_a_workspace_narrows_the_user():
    rules = [allow("*.example.com"), allow("cdn.example.com", **WORKSPACE)]
    assert decide(*rules) == HostDecision(
        effect="deny",
        rule="workspace network rules",
        reason="api.example.com:443 is not allowed by any of the workspace network rules; "
        f"{ADD} to the workspace's paddock.toml",
    )
    assert decide(*rules, host="cdn.example.com").effect == "allow"


def test_a_workspace_may_ask_and_deny():
    assert (
        decide(allow("*.example.com"), ask("*.example.com", **WORKSPACE)).rule == "workspace network rule 1"
    )
    assert decide(allow("*.example.com"), deny("*.example.com", **WORKSPACE)).effect == "deny"


def test_the_system_is_a_ceiling_for_the_user():
    rules = [allow("*.corp.example", **SYSTEM), allow("api.example.com")]
    assert decide(*rules).rule == "system network rules"
    assert decide(*rules, host="git.corp.example").rule == "user network rules"


def test_denials_of_the_system_allow_nothing():
    assert decide(deny("x.example", **SYSTEM)).reason.startswith("no rule allows api.example.com:443")
    assert decide(deny("x.example", **SYSTEM), allow("api.example.com")).effect == "allow"


def test_networks_are_kept_by_file():
    rules = [
        allow("*.example.com", **SYSTEM, addresses=["10.0.0.0/8", "fd00::/8"]),
        allow("api.example.com", addresses=["10.1.0.0/16"]),
        allow("api.example.com", **WORKSPACE),
    ]
    assert decide(*rules).networks == (("10.0.0.0/8", "fd00::/8"), ("10.1.0.0/16",), ())


def test_a_rule_for_an_address_names_its_network():
    assert decide(allow("10.0.0.5"), host="10.0.0.5").networks == (("10.0.0.5",),)


def test_the_names_of_a_request_narrow():
    rules = [allow("*.example.com")]
    assert decide(*rules, names=["API.example.com."]).effect == "allow"
    assert decide(*rules, names=["*.example.com"]).effect == "allow"
    assert decide(*rules, names=["cdn.example.com"]) == HostDecision(
        effect="deny",
        rule="request",
        reason="api.example.com:443 is not among the hosts of this request (cdn.example.com); request api.example.com, too",
    )
    assert decide(*rules, names=[]).reason.endswith("of this request (none); request api.example.com, too")
    many = [f"h{number}.example.com" for number in range(7)]
    assert (
        "(h0.example.com, h1.example.com, h2.example.com, h3.example.com, h4.example.com and 2 more)"
        in decide(*rules, names=many).reason
    )


def test_the_names_of_a_request_never_widen():
    assert decide(names=["api.example.com"]).effect == "deny"
    assert decide(allow("cdn.example.com"), names=["api.example.com"]).effect == "deny"


def test_a_requested_host_that_no_rule_allows_is_reported():
    rules = (allow("*.example.com"), deny("evil.example"))
    grant = HostGrant(
        rules=rules, hosts=("api.example.com", "*.api.example.com", "evil.example", "example.com")
    )
    assert list(list_useless_hosts(grant)) == [
        (
            "network.rule",
            f'no rule allows {host}; add a [[network.rule]] with host = "{host}" and effect = "allow" to the user\'s paddock.toml',
        )
        for host in ("evil.example", "example.com")
    ]


def test_a_grant_is_a_hashable_value():
    assert hash(narrow_hosts([allow("a.example")], ["a.example"])) == hash(
        narrow_hosts([allow("a.example")], ["a.example"])
    )


@pytest.mark.parametrize(
    ("method", "target", "remedy"),
    [
        ("POST", "/v1/a", "add its method to `methods` of network rule 2"),
        ("GET", "/v2?x=1", "add its path to `paths` of network rule 2"),
        ("POST", "/v2", "add its method to `methods` and its path to `paths` of network rule 2"),
        ("POST", "/v3", "add its method to `methods` of network rule 3"),
    ],
)
def test_a_refused_request_names_the_keys_of_the_rule_on_its_host(method, target, remedy):
    rules = [
        allow("other.example"),
        allow("api.example.com", methods=["GET"], paths=["/v1/*"]),
        allow("api.example.com", methods=["PUT"], paths=["/v3"]),
    ]
    decision = decide_host(HostGrant(rules=rules), "api.example.com", 443, HttpRequest(method, target))
    where = f"{method} api.example.com:443{target.partition('?')[0]}"
    assert decision == HostDecision(
        effect="deny",
        rule="user network rules",
        reason=f"{where} is not allowed by any of the user network rules; {remedy} in the user's paddock.toml",
    )


def test_a_refused_request_to_another_host_needs_a_rule():
    rules = [allow("other.example", methods=["GET"])]
    decision = decide_host(HostGrant(rules=rules), "api.example.com", 443, HttpRequest("GET", "/"))
    told = "GET api.example.com:443/ is not allowed by any of the user network rules"
    assert decision.reason == f"{told}; {ADD} to the user's paddock.toml"


HOSTS = st.sampled_from(["a.example", "*.a.example", "b.a.example", "*.b.a.example", "c.example", "10.0.0.1"])
RULES = st.lists(
    st.builds(
        NetworkRule,
        host=HOSTS,
        effect=st.sampled_from(["allow", "ask", "deny"]),
        ports=st.sampled_from([(), (80,), (80, 443)]),
        addresses=st.just(()),
        origin=st.sampled_from(["system", "user"]),
    ),
    max_size=6,
).map(lambda rules: sorted(rules, key=lambda rule: rule.origin))
ORDER = ("allow", "ask", "deny")


@given(
    RULES,
    st.lists(
        st.builds(NetworkRule, host=HOSTS, effect=st.sampled_from(ORDER), origin=st.just("workspace")),
        max_size=4,
    ),
    HOSTS,
    st.sampled_from([80, 443]),
)
def test_no_workspace_and_no_request_widens(rules, more, host, port):
    name = host.removeprefix("*.")
    before = decide(*rules, host=name, port=port)
    after = decide(*rules, *more, host=name, port=port)
    narrowed = decide(*rules, host=name, port=port, names=["*.a.example"])
    assert ORDER.index(after.effect) >= ORDER.index(before.effect)
    assert ORDER.index(narrowed.effect) >= ORDER.index(before.effect)
