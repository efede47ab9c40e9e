"""The output of programs: in the order of writing where both streams are one, and line by line as it comes."""

import asyncio

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
        ["1", "Traceback (most recent call last):", '  File "code.py", line 2, in <module>'],
        "it may write to TMPDIR alone; ask for the access workspace-write, up to runtimes.access, to write to the "
        "workspace",
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


def test_lines_of_python_come_as_they_are_written(programs):
    """The program goes on when its first line was heard; a buffer would hold that until its end."""
    code = "import os, time\nprint('first')\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('second')"
    heard: list[tuple[str, bytes]] = []

    def listen(stream, data):
        heard.append((stream, data))
        (programs.workspace / "go").touch()

    outcome = programs.runner.run(
        programs.session.gate.execute(programs.request("python", code), on_output=listen)
    )
    (programs.workspace / "go").unlink()
    assert outcome.ok, outcome.error
    assert heard == [("stdout", b"first\n"), ("stdout", b"second\n")]


def test_frames_of_progress_come_as_they_are_written(programs):
    code = "import os, time\nprint('\\r50%\\r', end='')\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('100%')"
    heard: list[bytes] = []

    def listen(_stream, data):
        heard.append(data)
        (programs.workspace / "go").touch()

    outcome = programs.runner.run(
        programs.session.gate.execute(programs.request("python", code), on_output=listen)
    )
    (programs.workspace / "go").unlink()
    assert outcome.ok, outcome.error
    assert b"".join(heard) == outcome.program.stdout.head.encode() == b"\r50%\r100%\n"


def test_a_program_that_is_ended_loses_nothing_that_it_printed(programs):
    async def go():
        stop = asyncio.Event()
        request = programs.request("python", "print('done so far')\nimport time; time.sleep(3600)")
        return await programs.session.gate.execute(request, on_output=lambda *_: stop.set(), stop=stop)

    outcome = programs.runner.run(go())
    assert (outcome.status, outcome.program.stdout.head) == ("cancelled", "done so far\n")
