"""The variables of programs that reach hosts, and what those that failed are told of refused connections."""

from pathlib import Path

import pytest

from paddock.engines.run_clock import RunClock
from paddock.gate.host_access import ConnectionWatch, HostAccess, RequestHosts
from paddock.model.network import Connection, HostGrant, NetworkLimits
from paddock.model.outcome import ErrorInfo, RawResult, Status
from paddock.policy.decisions.environment import TRUST

BUNDLE = "/etc/ssl/certs/ca-certificates.crt"


def list_trusted() -> dict[str, str]:
    variables = HostAccess(HostGrant()).environment
    return {name: variables[name] for name in TRUST if name in variables}


def test_programs_get_the_certificate_authorities_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in TRUST:
        monkeypatch.setenv(name, BUNDLE)
    assert list_trusted() == dict.fromkeys(TRUST, BUNDLE)


def test_no_other_path_of_the_machine_reaches_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path would be looked for below the current directory, and an empty one would be that directory."""
    for name in TRUST:
        monkeypatch.delenv(name, raising=False)
    link = tmp_path / "link.pem"
    link.symlink_to("/etc/ssl/../../home/own.pem")
    monkeypatch.setenv("PIP_CERT", str(link))
    monkeypatch.setenv("SSL_CERT_DIR", f"/etc/ssl/certs:{tmp_path}")
    monkeypatch.setenv("CURL_CA_BUNDLE", "share/own.pem")
    monkeypatch.setenv("GIT_SSL_CAINFO", "/etc/ssl/../../home/own.pem")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "")
    monkeypatch.chdir("/usr")
    assert list_trusted() == {}


@pytest.mark.parametrize(("of_program", "hint"), [(True, "grant a.example"), (False, "guessed")])
def test_a_failed_program_is_told_of_its_own_refused_connections_only(*, of_program: bool, hint: str) -> None:
    hosts = RequestHosts(
        ConnectionWatch(RunClock(), None, lambda connection: connection, NetworkLimits(), None)
    )  # type: ignore[arg-type]
    turn = hosts.open_for_program(HostAccess(HostGrant())) if of_program else hosts.open(HostGrant())
    refused = Connection(
        host="a.example", port=443, verdict="refused", rule="default", reason="grant a.example"
    )
    turn.take(refused)
    error = ErrorInfo(name="ExitCode", message="it failed", hint="guessed", phase="run")
    result = hosts.add_connections(RawResult(status=Status.FAILED, error=error))
    assert (result.error and result.error.hint, result.network) == (hint, (refused,))
