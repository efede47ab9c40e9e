"""The output of programs: in the order of writing where both streams are one, and line by line as it comes."""

import asyncio
import tomllib
from pathlib import Path

import pytest

TURNS = {
    "shell": "for n in 1 2 3; do echo out $n; echo err $n >&2; done",
    "python": "import sys\nfor n in 1, 2, 3:\n    print('out', n)\n    print('err', n, file=sys.stderr)",
}
IN_TURN = "out 1\nerr 1\nout 2\nerr 2\nout 3\nerr 3\n"


@pytest.mark.parametrize("runtime", TURNS)
def test_one_stream_keeps_the_order_of_writing(programs, runtime):
    outcome = programs.run(runtime, TURNS[runtime], output={"combined": True})
    end = outcome.program
    assert (outcome.status, end.combined, end.stdout.head, end.stderr.head) == ("ok", True, IN_TURN, "")
    assert (end.stdout.total_bytes, end.stderr.total_bytes, outcome.usage.console_bytes) == (36, 0, 36)
    apart = programs.run(runtime, TURNS[runtime]).program
    out, err = (IN_TURN.splitlines(keepends=True)[start::2] for start in (0, 1))
    assert (apart.combined, apart.stdout.head, apart.stderr.head) == (False, "".join(out), "".join(err))


def test_errors_in_one_stream_are_understood_like_others(programs):
    work = {"output": {"combined": True}}
    wrong = programs.run("python", "print(1)\nopen('/made', 'w')", **work)
    told = (wrong.status, wrong.program.stdout.head.splitlines()[:3], wrong.error.hint)
    assert told == (
        "failed",
        ["1", "Traceback (most recent call last):", '  File "program.py", line 2, in <module>'],
        "it may write only to TMPDIR; writing to the workspace needs the access workspace-write, or overlay, which "
        "keeps the changes until a person accepts them; a person grants both: `paddock exec --access overlay`, or for "
        "agents `access` under [runtimes] in paddock.toml",
    )
    silent = programs.run("shell", "exit 3", **work)
    assert (silent.program.exit_code, silent.program.stdout.head, silent.error.hint) == (3, "", "")


def test_what_a_compiler_writes_is_in_the_one_stream(programs):
    outcome = programs.run("c", "int main() { return wrong; }", output={"combined": True})
    end = outcome.program
    assert (outcome.status, end.phase, end.stderr.head) == ("failed", "compile", "")
    assert "code.c:1:21: error: 'wrong' undeclared" in end.stdout.head.replace("\u2018", "'").replace(
        "\u2019", "'"
    )


WAITING = tomllib.loads(Path(__file__).with_name("output.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def languages(toolchain_path, open_programs):
    """A gate for programs in every language, in the tier that runs all of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchain_path)
        yield open_programs("namespaces")


@pytest.mark.parametrize("runtime", WAITING)
def test_lines_of_every_language_come_as_they_are_written_and_in_their_order(languages, runtime):
    """The program goes on when all of its first lines were heard; a buffer would hold them until its end."""
    heard: list[bytes] = []

    def listen(_stream, data):
        heard.append(data)
        if b"err 2" in b"".join(heard):
            (languages.workspace / "go").touch()

    request = languages.request(runtime, WAITING[runtime], output={"combined": True})
    outcome = languages.execute(request, on_output=listen)
    (languages.workspace / "go").unlink()
    assert outcome.ok, outcome.error
    lines = outcome.program.stdout.head.splitlines()
    if runtime == "elixir":  # a process of its own writes each stream
        errors = [line for line in lines if line.startswith("err")]
        assert (errors, [line for line in lines if line not in errors]) == (
            ["err 1", "err 2"],
            ["out 1", "out 2", "end"],
        )
        return
    assert lines == ["out 1", "err 1", "out 2", "err 2", "end"]


@pytest.mark.parametrize("runtime", ["perl", "ruby"])
def test_lines_come_as_they_are_written_where_arguments_are_the_program(languages, runtime):
    args = ["-e", WAITING[runtime]]
    (languages.workspace / "go").touch()
    outcome = languages.run(runtime, None, args=args, output={"combined": True})
    (languages.workspace / "go").unlink()
    assert outcome.ok, outcome.error
    assert outcome.program.stdout.head == "out 1\nerr 1\nout 2\nerr 2\nend\n"


def test_a_program_in_c_may_buffer_its_output(languages):
    code = """
#include <stdio.h>
int main(void) {
    setvbuf(stdout, NULL, _IOFBF, 65536);
    puts("out");
    fputs("err\\n", stderr);
}
"""
    assert languages.run("c", code, output={"combined": True}).program.stdout.head == "err\nout\n"


def test_frames_of_progress_come_as_they_are_written(programs):
    code = "import os, time\nprint('\\r50%\\r', end='')\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('100%')"
    heard: list[bytes] = []

    def listen(_stream, data):
        heard.append(data)
        (programs.workspace / "go").touch()

    outcome = programs.execute(programs.request("python", code), on_output=listen)
    (programs.workspace / "go").unlink()
    assert outcome.ok, outcome.error
    assert b"".join(heard) == outcome.program.stdout.head.encode() == b"\r50%\r100%\n"


@pytest.mark.parametrize(
    ("runtime", "code"),
    [
        ("python", "import sys, time; sys.stdout.write('done so far\\nand '); time.sleep(3600)"),
        ("perl", 'print "done so far\\nand "; sleep 3600'),
        ("ruby", 'print "done so far\\nand "; sleep 3600'),
    ],
)
def test_a_program_that_is_ended_loses_nothing_that_it_printed(programs, runtime, code):
    """One write: what is heard first is its line, and what is left of it comes at the end."""

    async def go():
        stop = asyncio.Event()
        request = programs.request(runtime, code)
        return await programs.session.gate.execute(request, on_output=lambda *_: stop.set(), stop=stop)

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program.stdout.head) == ("cancelled", "done so far\nand ")


def test_a_program_in_c_that_is_ended_loses_no_line(programs):
    async def go():
        stop = asyncio.Event()
        code = '#include <stdio.h>\n#include <unistd.h>\nint main(void) { puts("done so far"); sleep(3600); }'
        return await programs.session.gate.execute(
            programs.request("c", code), on_output=lambda *_: stop.set(), stop=stop
        )

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program.stdout.head) == ("cancelled", "done so far\n")
