"""Every language through the gate: input, arguments and exit code, then once more out of the cache."""

import tomllib
from pathlib import Path

import pytest

from paddock.confine.process import Sandbox
from paddock.model.outcome import SandboxFacts

PROGRAMS = tomllib.loads(
    (Path(__file__).parents[1] / "runtimes" / "programs.toml").read_text(encoding="utf-8")
)
RUNTIMES = sorted(PROGRAMS)
NUMBERS = "".join(f"{number}\n" for number in range(1, 101)).encode()


@pytest.fixture(scope="module")
def languages(toolchains, programs):
    """Programs that find every toolchain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchains)
        yield programs


@pytest.mark.parametrize("name", RUNTIMES)
def test_s19_s28_s29_s54_every_language(languages, name):
    for cached in (False, True):
        outcome = languages.run(name, PROGRAMS[name]["sum"], args=("x", "y z"), stdin=NUMBERS)
        program = outcome.program
        assert program is not None, outcome.error
        assert (program.stdout.head, program.stderr.head) == ("100 5050 x|y z\n", "")
        assert (outcome.status, program.exit_code, program.phase) == ("failed", 7, "run")
        assert program.survivors == 0
        if program.compile_ms or program.cached:
            assert program.cached == cached


@pytest.mark.parametrize("name", RUNTIMES)
def test_s30_every_language_says_where_it_does_not_parse(languages, name):
    outcome = languages.run(name, PROGRAMS[name]["syntax"])
    assert outcome.program is not None, outcome.error
    assert outcome.status == "failed"
    assert outcome.program.exit_code
    said = outcome.program.stderr.head + outcome.program.stdout.head
    assert ("c <- )" if name == "r" else "3") in said  # R shows the text and no line


@pytest.mark.parametrize("word", ["GOPATH", "GOMODCACHE"])
def test_s27_what_a_toolchain_goes_by(languages, monkeypatch, tmp_path, word):
    monkeypatch.setenv(word, str(tmp_path))
    code = f'package main\nimport ("fmt"; "os")\nfunc main() {{ fmt.Println(os.Getenv("{word}")) }}\n'
    assert languages.text("go", code) == f"{tmp_path}\n"


def test_the_next_place_is_made_beside_a_compiler(open_programs, monkeypatch):
    programs = open_programs("landlock")
    programs.session.processes._sandbox = Sandbox(SandboxFacts(tier="landlock"), "landlock", spares=1)
    made, refill = [], Sandbox._refill

    def note(sandbox, grants, limits):
        made.append(grants.access)
        refill(sandbox, grants, limits)

    monkeypatch.setattr(Sandbox, "_refill", note)
    for number in range(2):
        assert (
            programs.text("c", f'#include <stdio.h>\nint main() {{ puts("{number}"); }}\n') == f"{number}\n"
        )
    assert made[:2] == ["read-only", "none"]  # the program's, and then the compiler's own
