"""The variables of programs that reach hosts."""

from pathlib import Path

import pytest

from paddock.gate.host_access import HostAccess
from paddock.model.network import HostGrant
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
