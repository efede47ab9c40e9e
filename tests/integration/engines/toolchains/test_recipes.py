"""Every recipe, with its real toolchain, as a confined job of a user without powers."""

import re
import tomllib
from pathlib import Path

import pytest

from paddock.engines.programs.recipe import HELLO_OUTPUT, recipes
from paddock.engines.programs.steps import hello

PROGRAMS = tomllib.loads(Path(__file__).with_name("programs.toml").read_text())
RUNTIMES = sorted(PROGRAMS)
TIERS = ("landlock", "namespaces")


def test_every_recipe_but_one_is_tried():
    """No registry that the tests may use has PowerShell."""
    assert set(recipes()) - set(PROGRAMS) == {"powershell"}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", RUNTIMES)
def test_hello(bench, name, tier):
    toolchain = bench.toolchain(name)
    ended = bench.run(tier, toolchain, hello(toolchain))
    assert (ended.stdout, ended.stderr, ended.exit_code) == (f"{HELLO_OUTPUT}\n", "", 0)


@pytest.mark.parametrize(
    ("name", "code"), [(name, code) for name in RUNTIMES for code in PROGRAMS[name].get("styles", ())]
)
def test_the_other_style_is_as_good(bench, name, code):
    ended = bench.run("landlock", bench.toolchain(name), code)
    assert (ended.stdout, ended.stderr, ended.exit_code) == (f"{HELLO_OUTPUT}\n", "", 0)


@pytest.mark.parametrize("name", RUNTIMES)
def test_s19_s29_s54_input_arguments_and_exit_code_are_those_of_the_program(bench, name):
    numbers = "".join(f"{number}\n" for number in range(1, 101)).encode()
    ended = bench.run(
        "namespaces", bench.toolchain(name), PROGRAMS[name]["sum"], arguments=["x", "y z"], stdin=numbers
    )
    assert (ended.stdout, ended.stderr, ended.exit_code) == ("100 5050 x|y z\n", "", 7)


@pytest.mark.parametrize("name", RUNTIMES)
def test_what_nobody_catches_ends_the_program_and_says_what_it_was(bench, name):
    ended = bench.run("landlock", bench.toolchain(name), PROGRAMS[name]["uncaught"])
    assert (ended.phase, ended.status) == ("run", "failed")
    assert "boom" in ended.stderr
    assert ended.stdout == ""
    assert ended.exit_code or ended.signal


@pytest.mark.parametrize("name", RUNTIMES)
def test_s30_a_syntax_error_names_the_line_and_nothing_is_run(bench, name):
    toolchain = bench.toolchain(name)
    ended = bench.run("landlock", toolchain, PROGRAMS[name]["syntax"])
    assert ended.phase == ("compile" if toolchain.variant.compile else "run")
    assert ended.exit_code
    said = PROGRAMS[name].get("syntax_says")
    text = ended.stdout + ended.stderr
    assert said in text if said else re.search(r"(code|Main)\.\w+[:(]3\b|line 3\b", text), text


@pytest.mark.parametrize(
    ("name", "executable"),
    [("node", "bun"), ("shell", "sh"), ("typescript", "tsx"), ("typescript", "esbuild"), ("csharp", "mcs")],
)
def test_the_second_choice_works_too(bench, name, executable):
    toolchain = bench.toolchain(name, executable)
    ended = bench.run("landlock", toolchain, hello(toolchain))
    assert (ended.stdout, ended.stderr, ended.exit_code) == (f"{HELLO_OUTPUT}\n", "", 0)


def test_s18_arguments_alone(bench):
    ended = bench.run("namespaces", bench.toolchain("node"), None, arguments=["-e", "console.log('hello')"])
    assert (ended.stdout, ended.exit_code) == ("hello\n", 0)
