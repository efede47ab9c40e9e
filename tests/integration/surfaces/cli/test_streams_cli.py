"""Commands whose standard streams are full, endless, gone, or somebody else's, too."""

import os
import subprocess
from pathlib import Path

import pytest
from tests.support.command import PADDOCK, run_command, run_paddock
from tests.support.processes import PATIENCE_S

LINES = 5000
PROGRAM = f"for (let n = 0; n < {LINES}; n++) console.log('x'.repeat(99)); throw new Error('last words')"
CODE = f"i=0; while [ $i -lt {LINES} ]; do printf '%099d\\n' 0; i=$((i + 1)); done; exit 3"
SEQUENCE = '[[step]]\nname = "one"\nscript = "one"\n'


@pytest.fixture
def place(workspace):
    """A workspace with a script and a sequence of it, and no settings but its own."""
    for name, file, text in (("scripts", "one.js", "return 1"), ("sequences", "all.toml", SEQUENCE)):
        (folder := workspace / ".paddock" / name).mkdir(parents=True)
        (folder / file).write_text(text)
    return workspace


@pytest.mark.parametrize(
    ("args", "given", "code", "size"),
    [
        (("run", "-"), PROGRAM, 1, 100 * LINES),
        (("exec", "shell", "-c", CODE), "", 3, 100 * LINES),
        (("tool", "fill", "-"), "x" * 500_000, 0, 500_001),
    ],
)
def test_a_full_pipe_that_does_not_block_is_waited_for(place, args, given, code, size):
    """So Node leaves the pipes that its children inherit."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with subprocess.Popen(
        [PADDOCK, *args], cwd=place, stdin=subprocess.PIPE, stdout=theirs, text=True
    ) as process:
        os.close(theirs)
        process.stdin.write(given)
        process.stdin.close()
        with os.fdopen(ours, "rb") as output:
            assert len(output.read()) == size
        assert process.wait(PATIENCE_S) == code


@pytest.mark.parametrize(
    ("args", "code", "out"),
    [
        (("sequence", "run", "all"), 0, "1\n"),
        (("run", "missing"), 1, ""),
        (("missing",), 2, ""),
        (("exec", "shell", "-c", "echo out; kill -9 $$"), 137, "out\n"),
        (("output", "query", "runtime-a-1-0123456789abcdef", "--term", "x"), 1, ""),
    ],
)
def test_words_that_are_not_taken_change_nothing(place, args, code, out):
    ours, theirs = os.pipe()
    os.close(ours)
    with Path("/dev/full").open("w") as full, os.fdopen(theirs, "w") as gone:
        for errors in (full, gone):
            assert run_paddock(place, *args, stderr=errors) == (code, out, "")


def test_output_of_a_program_that_is_not_taken_is_told_by_the_exit_code(place):
    with Path("/dev/full").open("w") as full:
        assert run_paddock(place, "exec", "shell", "-c", "echo bad >&2", stderr=full) == (125, "", "")
        found = run_paddock(place, "exec", "perl", "-c", "print 1", stdout=full)
    assert found == (125, "", "cannot write the output: No space left on device\n")


@pytest.mark.parametrize("args", [("--version",), ("--help",), ("run", "--help"), ("config", "show")])
def test_nobody_reads(place, args):
    ours, theirs = os.pipe()
    os.close(ours)
    with os.fdopen(theirs, "w") as gone:
        assert run_paddock(place, *args, stdout=gone) == (141, "", "")


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("run", "one", "--input", "-"), "standard input"),
        (("run", "one", "--input", "@/dev/zero"), "/dev/zero"),
        (("servers", "call", "any", "any", "-"), "standard input"),
        (("tool", "run", "any", "--input", "-"), "standard input"),
        (("tool", "fill", "-"), "standard input"),
        (("tool", "fill", "/dev/zero"), "/dev/zero"),
    ],
)
def test_input_that_never_ends_is_told(place, args, what):
    with Path("/dev/zero").open() as endless:
        done = run_paddock(place, *args, stdin=endless)
    told = f"{what}: cannot be read: larger than 67108864 bytes\n"
    assert done == (1, "", told)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("x" * 65538, "a secret has 1 to 65536 bytes, not 65538"),
        ("\u00e9" * 60_000, "a secret has 1 to 65536 bytes, but standard input has more"),
    ],
)
def test_a_secret_that_is_too_long_is_called_that(place, given, told):
    assert run_paddock(place, "vault", "set", "key", stdin=given) == (1, "", f"{told}\n")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("exec", "nothing", "-c", "1"), 127),
        (("exec", "shell"), 2),
        (("run", "missing"), 1),
        (("missing",), 2),
    ],
)
def test_an_error_whose_json_is_not_taken_keeps_its_exit_code(place, args, code):
    ours, theirs = os.pipe()
    os.close(ours)
    with Path("/dev/full").open("w") as full, os.fdopen(theirs, "w") as gone:
        for output in (full, gone):
            found, _, told = run_paddock(place, *args, "--json", stdout=output)
            assert (found, "Traceback" in told, bool(told)) == (code, False, True)


def test_what_the_system_refuses_is_json_too(place):
    (gone := place / "gone").mkdir()
    command = f'rmdir {gone}; exec "$0" run ./one.js -w {place} --json'
    done = run_command(gone, "sh", "-c", command, PADDOCK)
    told = "the current directory was removed; go to another one"
    assert done == (
        1,
        f'{{"error": {{"message": "{told}"}}}}\n',
        f"{told}\n",
    )
