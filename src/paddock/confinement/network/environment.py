"""Environment variables that lead the programs of a job to its proxy."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from urllib.parse import quote

from paddock.model.network import Network, NetworkRule

_BUNDLE_VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO"),
    *("PIP_CERT", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE"),
)
"""Each names a file with the only certificates that a client trusts. Which variables of Paddock's own environment
reach servers is another question: `policy.decisions.environment.TRUST`."""
_RETRIES = ("PIP_RETRIES", "UV_HTTP_RETRIES", "CARGO_NET_RETRY", "npm_config_fetch_retries")
_LOCAL = ("localhost", "127.0.0.1", "::1")


@cache
def make_node_options() -> str:
    """Return options with which Node.js before version 24 uses the proxy, too, also for `fetch`."""
    text = Path(__file__).with_name("node_proxy.mjs").read_text()
    return f"--import data:text/javascript,{quote(text, safe='')}"


def make_trust_environment(bundle: str) -> dict[str, str]:
    """Return the variables with which clients trust the certificates in a file, in place of their own."""
    return dict.fromkeys(_BUNDLE_VARIABLES, bundle)


def make_proxy_environment(port: int, rules: Iterable[NetworkRule]) -> dict[str, str]:
    """Return the variables for a proxy on `port` of the job's 127.0.0.1.

    Servers of the job itself are reached without the proxy, except under a name that a rule allows: that one is of the
    machine. `ALL_PROXY` has the scheme http, because clients without a SOCKS library fail at the mere sight of another
    one. Node.js reads these variables only if it is told to (https://nodejs.org/api/cli.html#node_use_env_proxy1).
    """
    granted = {rule.host for rule in rules if rule.effect != "deny"}
    address = f"http://127.0.0.1:{port}"
    values = {
        "HTTP_PROXY": address,
        "HTTPS_PROXY": address,
        "ALL_PROXY": address,
        "NO_PROXY": ",".join(name for name in _LOCAL if name not in granted),
    }
    return {**values, **{name.lower(): value for name, value in values.items()}, "NODE_USE_ENV_PROXY": "1"}


def stop_retries(network: Network, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which installers of packages fail at once on a network without registries.

    pip, npm, uv and cargo try three to six times otherwise, which takes up to a minute. The environment's own values
    stay; npm ignores the case of its variables.
    """
    if network not in {"none", "loopback"}:
        return dict(environment)
    given = {name.lower() for name in environment}
    return {**{name: "0" for name in _RETRIES if name.lower() not in given}, **environment}
