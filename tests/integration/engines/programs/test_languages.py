"""Every language through the gate: input, arguments and exit code, then once more out of the cache."""

import re
import tomllib
from pathlib import Path

import pytest

from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts

PROGRAMS = tomllib.loads(
    (Path(__file__).parents[1] / "toolchains" / "programs.toml").read_text(encoding="utf-8")
)
RUNTIMES = sorted(PROGRAMS)
NUMBERS = "".join(f"{number}\n" for number in range(1, 101)).encode()


@pytest.fixture(scope="module")
def languages(toolchain_path, programs):
    """Programs that find every toolchain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchain_path)
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
    assert re.search(r"\b3\b", said), said


@pytest.mark.parametrize("word", ["GOPATH", "GOMODCACHE"])
def test_s27_what_a_toolchain_goes_by(languages, monkeypatch, tmp_path, word):
    monkeypatch.setenv(word, str(tmp_path))
    code = f'package main\nimport ("fmt"; "os")\nfunc main() {{ fmt.Println(os.Getenv("{word}")) }}\n'
    assert languages.text("go", code) == f"{tmp_path}\n"


def test_the_next_place_is_made_beside_a_compiler(open_programs, monkeypatch):
    programs = open_programs("landlock")
    programs.session.processes.use_sandbox(KernelSandbox(SandboxFacts(tier="landlock"), "landlock", spares=1))
    made, prepare = [], KernelSandbox.prepare

    async def note(sandbox, grants, limits, count):
        made.append(grants.access)
        await prepare(sandbox, grants, limits, count)

    monkeypatch.setattr(KernelSandbox, "prepare", note)
    for number in range(2):
        assert (
            programs.text("c", f'#include <stdio.h>\nint main() {{ puts("{number}"); }}\n') == f"{number}\n"
        )
    assert made[:2] == ["read-only", "none"]  # the program's, and then the compiler's own


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("cat('a')\nf <- function() {\n  1 +\n}\n", ":4:1: unexpected '}'"),
        ("cat('a')\nx <- c(1,\n", ":3:0: unexpected end of input"),
    ],
)
def test_r_runs_what_it_can_parse_and_names_the_line_of_what_it_cannot(languages, code, line):
    program = languages.run("r", code).program
    assert (program.exit_code, program.stdout.head) == (1, "a")
    assert line in program.stderr.head


def test_r_says_of_other_errors_what_it_says_anyway(languages):
    program = languages.run("r", "stop('boom')\nc <- )\n").program
    assert (program.exit_code, program.stderr.head) == (1, "Error: boom\nExecution halted\n")
    assert languages.text("r", "cat(Sys.getenv('R_PROFILE_USER'), ls(), sep = '')") == ""


def test_r_draws_with_the_fonts_of_the_machine(languages):
    code = 'name <- tempfile(); png(name); plot(1:3); invisible(dev.off()); cat(rawToChar(readBin(name, "raw", 4)[2:4]))'
    result = languages.run("r", code=code).program
    assert (result.stdout.head, result.stderr.head) == ("PNG", "")


def test_go_without_a_main_package_is_no_program(languages):
    outcome = languages.run("go", "package other\n\nfunc main() {}\n")
    assert (outcome.status, outcome.program.phase) == ("failed", "compile")
    assert outcome.program.stderr.head == "-buildmode=exe requires exactly one main package\n"
