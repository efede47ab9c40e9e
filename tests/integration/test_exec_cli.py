"""`paddock exec`: the real command, its streams and exit codes."""

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

PADDOCK = Path(sys.executable).with_name("paddock")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A workspace, and no settings but its own."""
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (workspace := tmp_path / "workspace").mkdir()
    return workspace


def paddock(place, *args, stdin=b""):
    """Return exit code, output and errors of `paddock exec`; programs have two minutes unless they ask for less."""
    patience = () if "--timeout-ms" in args else ("--set", "runtimes.timeout_ms=120000")
    own = args.index("--") if "--" in args else len(args)
    words = [PADDOCK, "exec", *args[:own], *patience, *args[own:]]
    done = subprocess.run(words, input=stdin, capture_output=True, cwd=place, check=False, timeout=300)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def test_output_errors_and_exit_code_pass_through(place):
    code = "import sys; print(sys.argv[1:]); print(sys.stdin.read(), file=sys.stderr); sys.exit(7)"
    found = paddock(place, "python", "-c", code, "--stdin", "--", "-a", "--", "b", stdin=b"in")
    assert found == (7, "['-a', '--', 'b']\n", "in\n")


def test_a_pipe_gets_bytes_as_they_are(place):
    assert paddock(place, "shell", "-c", r"printf '\033[2Ja\r\n'") == (0, "\x1b[2Ja\r\n", "")


def test_a_file_and_the_program_on_standard_input(place):
    (place / "hello.py").write_text("print('from a file')")
    assert paddock(place, "python", "hello.py") == (0, "from a file\n", "")
    assert paddock(place, "python", "-", stdin=b"print('from a pipe')") == (0, "from a pipe\n", "")


def test_a_file_runs_beside_what_it_imports(place):
    (place / "folder").mkdir()
    (place / "folder" / "helper.py").write_text("word = 'near'")
    (place / "folder" / "main.py").write_text("import helper; print(helper.word)")
    assert paddock(place, "python", "./folder/main.py") == (0, "near\n", "")
    found = paddock(place, "python", "-", stdin=b"import helper")
    assert found[0] == 1
    assert found[2].startswith('Traceback (most recent call last):\n  File "code.py", line 1, in <module>\n')
    assert "  hint: inline code cannot import files beside it; " in found[2]


def test_s18_arguments_alone(place):
    assert paddock(place, "node", "--", "-e", "console.log('hello')") == (0, "hello\n", "")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("cobl", "-c", "1"), 127, "there is no runtime cobl; there are node, typescript, python, "),
        (("pyton", "-c", "1"), 127, "there is no runtime pyton; did you mean python?\n"),
        (("C++", "-c", "1"), 127, "there is no runtime C++; did you mean cpp?\n"),
        (("bash", "-c", "1"), 127, "there is no runtime bash; did you mean shell?\n"),
        (("js", "-c", "1"), 127, "there is no runtime js; did you mean node?\n"),
        (("JavaScript", "-c", "1"), 127, "there is no runtime JavaScript; did you mean node?\n"),
        (("shell", "-c", "sleep 3600", "--timeout-ms", "200"), 124, "The program ran out of time\n  hint: it had 200 ms; runtimes.timeout_ms is the maximum\n"),
        (("shell", "-c", "1", "--timeout-ms", "30001"), 126, "Requested timeout (30001ms) exceeds maximum (30000ms)\n  hint: runtimes.timeout_ms in the settings decides this; "),
        (("shell", "-c", "1", "--cwd", "../x"), 126, 'Relative CWD "../x" contains path traversal or absolute path components\n'),
        (("shell", "-c", "1", "--cwd", "missing"), 126, "Working directory does not exist: missing\n"),
        (("python", "-c", "1", "--executable", "bash"), 126, 'Executable "bash" is not compatible with runtime "python"\n'),
        (("shell", "-c", "kill -9 $$"), 137, "The program was ended by SIGKILL\n"),
    ],
)  # fmt: skip
def test_exit_codes_that_are_not_the_programs(place, args, code, told):
    found = paddock(place, *args)
    assert (found[0], found[1], found[2].startswith(told)) == (code, "", True), found


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("shell", "--", "echo"), "Shell runtime requires the code parameter."),
        (
            ("python",),
            "There is nothing to run: give -c CODE, a FILE, - for a program on standard input, or -- ARGS for ",
        ),
        (("python", "x.py", "-c", "1"), "Give either -c CODE or FILE; arguments of the program follow --."),
        (("python", "-", "--stdin"), "The program and --stdin cannot both come from standard input."),
        (("python", "missing.py"), "missing.py: cannot read this program: No such file or directory"),
        (("python", "/dev/zero"), "/dev/zero: a program has at most 1048576 characters, and this has more"),
        (("python", "x.py", "y"), "Got unexpected extra argument (y); arguments of the program follow --."),
        (("python", "-c", "1", "--timeout-ms", "99"), "a program's timeout is 100 to 600000 ms, not 99"),
        (("python", "-c", "1", "--", *"x" * 101), "A program gets at most 100 arguments, not 101."),
        (("python", "-c", "1", "-w", "/no/such/place"), "Directory '/no/such/place' does not exist."),
    ],
)
def test_s14_s15_command_lines_without_sense(place, args, told):
    found = paddock(place, *args)
    assert (found[0], told in found[2]) == (2, True), found


def test_s15_an_unknown_workspace_comes_before_broken_settings(place):
    (place / "paddock.toml").write_text("[runtimes]\nenabled = 1\n")
    assert "does not exist" in paddock(place, "python", "-c", "1", "-w", "/no/such/place")[2]
    code, _, told = paddock(place, "python", "-c", "1")
    assert (code, "runtimes.enabled must be true or false, not 1" in told) == (125, True)


def test_more_standard_input_than_fits(place):
    code, _, told = paddock(place, "python", "-c", "1", "--stdin", stdin=b"x" * 524_289)
    assert (code, "at most 524288 bytes of standard input" in told) == (2, True)


def test_writing_is_a_power_that_the_command_line_gives(place):
    code = "echo x > file"
    assert paddock(place, "shell", "-c", code)[0] != 0
    assert not (place / "file").exists()
    assert paddock(place, "shell", "-c", code, "--access", "workspace-write") == (0, "", "")
    assert (place / "file").read_text() == "x\n"


def test_what_is_put_back_after_the_program_is_told(place):
    told = "restored, because your own tools run or trust it: .vscode\n"
    code = "mkdir .vscode; echo {} > .vscode/settings.json; echo ok"
    assert paddock(place, "shell", "-c", code, "--access", "workspace-write") == (0, "ok\n", told)
    assert not (place / ".vscode").exists()
    _, text, _ = paddock(place, "shell", "-c", code, "--access", "workspace-write", "--json")
    assert json.loads(text)["violations"] == [".vscode"]


def test_output_that_is_not_kept_is_told(place):
    code = "head -c 2000 /dev/zero | tr '\\0' x"
    small = ("shell", "-c", code, "--set", "artifacts.max_bytes=1024")
    told = "output is not kept: it is larger than artifacts.max_bytes = 1024\n"
    assert paddock(place, *small) == (0, "x" * 2000, told)
    assert paddock(place, *small, "--no-keep") == (0, "x" * 2000, "")
    assert paddock(place, *small, "--set", "artifacts.enabled=false") == (0, "x" * 2000, "")


def test_writing_that_the_workspace_forbids(place):
    (place / "paddock.toml").write_text('[runtimes]\naccess = "none"\n')
    code, _, told = paddock(place, "shell", "-c", "1", "--access", "workspace-write")
    assert (code, told.partition(";")[0]) == (
        126,
        "access workspace-write to the workspace is not granted (granted: none)",
    )
    assert paddock(place, "shell", "-c", "ls; pwd | cut -c1-13")[1] == "code.sh\nhome\ntmp\n/tmp/paddock-\n"


def test_json_is_one_line(place):
    code, text, told = paddock(place, "shell", "-c", "echo out; exit 3", "--json")
    assert (code, told, text.count("\n")) == (3, "", 1)
    assert json.loads(text)["exitCode"] == 3


def test_nobody_reads_any_more(place):
    words = [PADDOCK, "exec", "shell", "-c", "while :; do echo yes; done", "-w", place]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"yes\n"
        process.stdout.close()
        assert process.wait(60) == 128 + signal.SIGPIPE


def test_s23_an_interrupt_ends_the_program(place):
    words = [PADDOCK, "exec", "shell", "-c", "echo go; sleep 3600", "-w", place]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr.read()) == (
            128 + signal.SIGINT,
            b"The program was cancelled\n",
        )


def test_s23_what_was_written_before_an_interrupt_is_answered_and_kept(place):
    os.mkfifo(place / "begun")
    code = "echo go; echo > begun; sleep 3600"
    words = [PADDOCK, "exec", "shell", "-c", code, "-w", place, "--access", "workspace-write"]
    with subprocess.Popen([*words, "--mode", "summary", "--json"], stdout=subprocess.PIPE) as process:
        (place / "begun").read_text()
        process.send_signal(signal.SIGINT)
        told = json.loads(process.stdout.read())
        assert process.wait(60) == 128 + signal.SIGINT
    assert (told["status"], told["exitCode"], told["stdoutSummary"]) == ("cancelled", None, "go")
    assert told["error"]["message"] == "The program was cancelled"
    kept = subprocess.run(
        [PADDOCK, "output", "show", told["artifactHandle"], "-w", place], capture_output=True, check=True
    )
    assert kept.stdout == b"go\n"


def test_a_terminal_sees_output_as_it_comes_and_no_control_characters(place):
    ours, theirs = pty.openpty()
    code = "import sys, time; print('\\033[2Jfirst', flush=True); time.sleep(3600)"
    words = [PADDOCK, "exec", "python", "-c", code, "-w", place]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        assert os.read(ours, 100) == b"\\x1b[2Jfirst\r\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM
        watchdog.cancel()
    os.close(ours)


def test_a_program_in_its_users_home_sees_no_secret_and_no_record(place, tmp_path):
    words = [PADDOCK, "vault", "set", "token", "--set", "vault.backend=file"]
    subprocess.run(words, input=b"hunter2hunter2", cwd=place, check=True, capture_output=True)
    assert paddock(place, "shell", "-c", "echo kept")[:2] == (0, "kept\n")
    secrets = [path for path in (tmp_path / "XDG_STATE_HOME/paddock").rglob("*") if path.is_file()]
    assert {"vault", "audit", "artifacts"} <= {path.relative_to(tmp_path).parts[2] for path in secrets}
    code = f"""
import os
for path in {[str(path) for path in secrets]!r}:
    try:
        print(path, open(path, "rb").read())
    except OSError as error:
        print(type(error).__name__)
print(sorted(os.listdir("workspace")))
"""
    (place / "file").touch()
    done = paddock(tmp_path, "python", "-c", code)
    assert (done[0], set(done[1].splitlines())) == (0, {"FileNotFoundError", "['file']"})
    grant = 'import os; os.makedirs("XDG_CONFIG_HOME/paddock", exist_ok=True); open("XDG_CONFIG_HOME/paddock/paddock.toml", "w")'
    refused = paddock(tmp_path, "python", "--access", "workspace-write", "-c", grant)
    assert (refused[0], refused[2].splitlines()[-3]) == (
        1,
        "OSError: [Errno 30] Read-only file system: 'XDG_CONFIG_HOME/paddock/paddock.toml'",
    )
