"""Which registries packages come from: the user's and the system's configuration, without their secrets."""

from pathlib import Path

import pytest

from paddock.engines.packages.interface import PackagesError
from paddock.engines.packages.registries import (
    DEFAULT,
    NodeRegistries,
    PythonRegistries,
    read_node,
    read_python,
    strip_credentials,
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, on a machine whose system configures nothing."""
    monkeypatch.setattr(
        "paddock.engines.packages.registries._PIP_FILES", ("~/.pip/pip.conf", "~/.config/pip/pip.conf")
    )
    monkeypatch.setattr(
        "paddock.engines.packages.registries._UV_FILES", (str(tmp_path / "none"), "~/.config/uv/uv.toml")
    )
    return tmp_path


def python(home: Path, allowed: tuple[str, ...] = (), **environ: str) -> PythonRegistries:
    return read_python({"HOME": str(home), **environ}, allowed)


def node(home: Path, allowed: tuple[str, ...] = (), **environ: str) -> NodeRegistries:
    return read_node({"HOME": str(home), "npm_config_globalconfig": "/dev/null/none", **environ}, allowed)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_without_configuration_each_installer_uses_its_own_default(home: Path) -> None:
    assert python(home).names == (DEFAULT,)
    assert "UV_DEFAULT_INDEX" not in python(home).make_environment()
    assert node(home).names == (DEFAULT,)
    assert node(home).make_npmrc() == ""


def test_the_configuration_of_uv_counts_before_that_of_pip(home: Path) -> None:
    write(
        home / ".config/pip/pip.conf", "[global]\nindex-url = https://pip.example/simple\ncert = /pip.pem\n"
    )
    assert python(home).names == ("https://pip.example/simple",)
    assert python(home).make_environment()["SSL_CERT_FILE"] == "/pip.pem"
    write(
        home / ".config/uv/uv.toml",
        '[[index]]\nname = "own"\nurl = "https://own.example"\n[[index]]\nurl = "https://a.example"\ndefault = true\n',
    )
    found = python(home, UV_INDEX_OWN_PASSWORD="secret")
    assert found.names == ("https://own.example", "https://a.example")
    assert found.make_environment()["UV_INDEX"] == "own=https://own.example"
    assert found.secrets == ["secret"]
    assert python(home, UV_DEFAULT_INDEX="https://b.example").names[-1] == "https://b.example"


def test_variables_of_pip_count_before_its_files(home: Path) -> None:
    write(
        home / ".pip/pip.conf",
        "[global]\nindex-url = https://a.example\nextra-index-url = https://x.example\n",
    )
    found = python(home, PIP_INDEX_URL="https://b.example")
    assert found.names == ("https://x.example", "https://b.example")
    assert python(home, PIP_CONFIG_FILE="/dev/null").names == (DEFAULT,)


def test_a_directory_needs_no_network(home: Path) -> None:
    (wheels := home / "wheels").mkdir()
    found = python(home, PIP_NO_INDEX="1", PIP_FIND_LINKS=str(wheels))
    assert (found.is_local, found.readable) == (True, (wheels,))
    assert found.make_environment()["UV_NO_INDEX"] == "1"
    assert not python(home, PIP_FIND_LINKS=str(wheels)).is_local


def test_credentials_are_in_the_installation_only(home: Path) -> None:
    write(home / ".netrc", "machine a.example login reader password p%ss\n")
    found = python(
        home, UV_DEFAULT_INDEX="https://a.example/simple", UV_INDEX="https://u:w@b.example/x?token=t"
    )
    assert found.names == ("https://b.example/x", "https://a.example/simple")
    assert found.make_environment()["UV_DEFAULT_INDEX"] == "https://reader:p%25ss@a.example/simple"
    assert {"u:w", "w", "token=t", "reader:p%25ss", "p%25ss", "p%ss"} <= set(found.secrets)
    assert strip_credentials("https://u:p@a.example:1/b?c=d#e") == "https://a.example:1/b"


def test_a_setting_narrows_the_registries(home: Path) -> None:
    both = {"UV_DEFAULT_INDEX": "https://a.example/simple/", "UV_INDEX": "https://b.example"}
    assert python(home, ("https://A.example/simple",), **both).names == ("https://a.example/simple/",)
    with pytest.raises(
        PackagesError, match=r"packages.registries allows none of the configured registries: https://b"
    ):
        python(home, ("https://c.example",), **both)
    assert python(home, (DEFAULT,)).names == (DEFAULT,)
    with pytest.raises(PackagesError, match=r"allows none of the configured registries: default"):
        node(home, ("https://c.example",))


def test_npm_gets_what_concerns_connections_and_nothing_else(home: Path) -> None:
    lines = (
        "registry=https://a.example/\n@own:registry=https://b.example/\n//b.example/:_authToken=${TOKEN}\n"
        "script-shell=/bin/evil\n; comment\nignore-scripts=false\n"
    )
    write(home / ".npmrc", lines)
    found = node(home, TOKEN="secret")
    assert found.make_npmrc() == (
        "@own:registry=https://b.example/\nregistry=https://a.example/\n//b.example/:_authToken=secret\n"
    )
    assert found.secrets == ["secret"]
    assert found.names == ("https://a.example/", "@own=https://b.example/")
