"""The variables that lead programs to the proxy."""

from paddock.confinement.network.environment import make_proxy_environment, stop_retries
from paddock.model.network import NetworkRule

LOCAL = "localhost,127.0.0.1,::1"


def test_every_client_finds_its_variable():
    address = "http://127.0.0.1:4000"
    assert make_proxy_environment(4000, []) == {
        "HTTP_PROXY": address,
        "HTTPS_PROXY": address,
        "ALL_PROXY": address,
        "NO_PROXY": LOCAL,
        "http_proxy": address,
        "https_proxy": address,
        "all_proxy": address,
        "no_proxy": LOCAL,
        "NODE_USE_ENV_PROXY": "1",
    }


def test_loopback_of_the_machine_is_reached_through_the_proxy_if_a_rule_names_it():
    rules = [NetworkRule(host="localhost", effect="ask"), NetworkRule(host="127.0.0.1", effect="deny")]
    assert make_proxy_environment(4000, rules)["NO_PROXY"] == "127.0.0.1,::1"


def test_installers_fail_at_once_on_a_network_without_registries():
    retries = {
        "PIP_RETRIES": "0",
        "UV_HTTP_RETRIES": "0",
        "CARGO_NET_RETRY": "0",
        "npm_config_fetch_retries": "0",
    }
    assert stop_retries("none", {"A": "b"}) == {**retries, "A": "b"}
    assert stop_retries("loopback", {}) == retries
    assert stop_retries("hosts", {"A": "b"}) == {"A": "b"}
    assert stop_retries("full", {}) == {}


def test_the_users_own_retries_stay():
    own = {
        "PIP_RETRIES": "3",
        "UV_HTTP_RETRIES": "",
        "CARGO_NET_RETRY": "1",
        "NPM_CONFIG_FETCH_RETRIES": "2",
    }
    assert stop_retries("none", own) == own
