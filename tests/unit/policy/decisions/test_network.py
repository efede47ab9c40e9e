"""What the rules decide on hosts: each file separately, deny before ask before allow, and no file widens another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paddock.model.network import HostDecision, HostGrant, HttpRequest, NetworkRule, find_path_fault
from paddock.model.request import RuntimeRun
from paddock.policy.decisions.network import check_hosts, decide_host, list_useless_hosts, narrow_hosts
from paddock.policy.settings.schema import Settings

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
        ("user network rule 2", "evil.example is denied by user network rule 2"),
        (
            "network.rule",
            'no rule allows example.com; add a [[network.rule]] with host = "example.com" and effect = "allow" to the user\'s paddock.toml',
        ),
    ]


@pytest.mark.parametrize("rules", [(), (allow("api.example.com"),)])
def test_a_requested_host_that_a_rule_denies_is_refused_by_that_rule(rules):
    denial = deny("*.evil.example", reason="nothing goes there")
    settings = Settings.model_validate({"network": {"rule": [*rules, denial]}})
    work = RuntimeRun(runtime="python", code="", network=["a.evil.example"])
    [(name, reason)] = check_hosts(work, settings)
    assert (name, reason) == (f"user network rule {len(rules) + 1}", "nothing goes there")


@pytest.mark.parametrize("more", [{"ports": [25]}, {"methods": ["POST"]}])
def test_a_rule_that_denies_a_part_of_a_host_does_not_hide_that_no_rule_allows_it(more):
    grant = HostGrant(
        rules=(allow("cdn.example.com"), deny("api.example.com", **more)), hosts=("api.example.com",)
    )
    [(name, reason)] = list_useless_hosts(grant)
    assert (name, reason.partition(";")[0]) == ("network.rule", "no rule allows api.example.com")


def decide_request(*rules: NetworkRule, target: str, method: str = "GET") -> HostDecision:
    return decide_host(narrow_hosts(rules, None), "api.example.com", 443, HttpRequest(method, target))


READ_AND_WRITE = (allow("api.example.com", methods=["GET"]), ask("api.example.com", methods=["POST"]))


def test_a_rule_that_asks_about_some_requests_only_opens_the_host():
    assert decide(*READ_AND_WRITE) == HostDecision(
        effect="allow", rule="user network rule 1", networks=((),), inspects=True
    )
    assert decide(ask("api.example.com", paths=["/v1/*"])) == HostDecision(
        effect="allow", rule="user network rule 1", networks=((),), inspects=True
    )


def test_a_question_about_a_request_names_method_and_path():
    assert decide_request(*READ_AND_WRITE, target="/v1/items?q=1", method="POST") == HostDecision(
        effect="ask",
        rule="user network rule 2",
        reason="sending POST api.example.com:443/v1/items needs a person's approval, says user network rule 2",
        networks=((),),
        asked_request="POST /v1/items",
        inspects=True,
    )
    assert decide_request(*READ_AND_WRITE, target="/v1/items").effect == "allow"
    assert decide_request(*READ_AND_WRITE, target="/v1/items", method="DELETE").effect == "deny"


def test_a_question_about_a_request_beats_one_about_its_host():
    whole = ask("*.example.com")
    for rules in (
        (whole, ask("api.example.com", methods=["POST"])),
        (whole.replace(origin="system"), ask("api.example.com", methods=["POST"])),
        (whole, ask("api.example.com", methods=["POST"], **WORKSPACE)),
    ):
        assert (decide(*rules).effect, decide(*rules).asked_request) == ("ask", "")
        assert decide_request(*rules, target="/a", method="POST").asked_request == "POST /a"
        assert decide_request(*rules, target="/a").asked_request == ""


def test_parameters_do_not_hide_a_path_from_a_question():
    rules = [allow("api.example.com"), ask("api.example.com", paths=["/admin"])]
    assert decide_request(*rules, target="/admin;x").asked_request == "GET /admin;x"


def test_a_person_is_not_asked_about_a_path_that_is_too_long():
    rule = ask("api.example.com", methods=["POST"])
    assert decide_request(rule, target="/" + "a" * 394, method="POST").effect == "ask"
    decision = decide_request(rule, target="/" + "a" * 395, method="POST")
    assert (decision.effect, decision.reason) == (
        "deny",
        f"sending POST api.example.com:443/{'a' * 99} needs a person's approval, says user network rule 1, and the path "
        "is too long for a question (400 characters)",
    )


DOTS = "the path has an empty segment, or one of dots"
NOT_UTF_8 = "the path has encoded bytes that are not UTF-8"
ENCODED = "the path has encoded separators, control characters or percent signs"


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/v1/..;/admin", DOTS),
        ("/v1/..;x=y/admin", DOTS),
        ("/v1/%2e%2e%3bx/admin", DOTS),
        ("/v1/.;/admin", DOTS),
        ("/v1/;x/admin", DOTS),
        ("/v1/..;", DOTS),
        ("/v1/..%20/admin", DOTS),
        ("/v1/.../admin", DOTS),
        ("/v1/%c0%ae%c0%ae/admin", NOT_UTF_8),
        ("/v1/%ff", NOT_UTF_8),
        ("/secret%23f", ENCODED),
        ("/secret%3fx", ENCODED),
        ("/v1/..a/b.;c=../d", ""),
        ("/v1/%c3%bc/", ""),
    ],
)
def test_paths_that_servers_read_in_different_ways_are_refused(path, fault):
    assert find_path_fault(path) == fault
    decision = decide_request(allow("api.example.com", paths=["/*"]), target=f"{path}?q=/../")
    assert (decision.effect, decision.reason) == (
        ("deny", f"api.example.com:443: {fault}") if fault else ("allow", "")
    )


@pytest.mark.parametrize("target", ["/secret;a=1", "/secret%3Ba", "/admin;/x", "/admin;a=b/x?q", "/secret;"])
def test_parameters_do_not_hide_a_path_from_a_denial(target):
    rules = [allow("api.example.com"), deny("api.example.com", paths=["/admin/*", "/secret"])]
    decision = decide_request(*rules, target=target)
    assert (decision.effect, decision.rule) == ("deny", "user network rule 2")


def test_an_allowed_path_must_match_with_and_without_its_parameters():
    rules = [allow("api.example.com", paths=["/v1/*", "/status"])]
    effects = {
        target: decide_request(*rules, target=target).effect
        for target in ("/v1/a;x=1", "/v1/a;x/b", "/status", "/status;x", "/v1;x/a")
    }
    assert effects == {
        "/v1/a;x=1": "allow",
        "/v1/a;x/b": "allow",
        "/status": "allow",
        "/status;x": "deny",
        "/v1;x/a": "deny",
    }


@pytest.mark.parametrize("path", ["/a;b", "/a%3bb/*"])
def test_a_path_of_a_rule_has_no_parameters(path):
    with pytest.raises(
        ValueError, match=f'"{path.replace("*", "[*]")}" has a ";"; write the path without parameters'
    ):
        allow("api.example.com", paths=[path])


@pytest.mark.parametrize("path", ["/a?b", "/a#b", "/%ff", "/a/../b", "a"])
def test_a_path_of_a_rule_that_no_request_has_is_refused(path):
    with pytest.raises(ValueError, match="is not a path such as /v1/items"):
        deny("api.example.com", paths=[path])


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
