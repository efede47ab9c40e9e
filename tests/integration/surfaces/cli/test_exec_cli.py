"""`paddock exec`: the real command, its streams and exit codes."""

import json
import os
import pty
import signal
import subprocess
import threading

import pytest
from tests.support.command import PADDOCK, PATIENT, run_paddock
from tests.support.processes import PATIENCE_S


def paddock(workspace, *args, stdin=b""):
    """Return exit code, output and errors of `paddock exec`; programs have two minutes unless they ask for less."""
    patience = () if "--timeout-ms" in args else PATIENT
    own = args.index("--") if "--" in args else len(args)
    return run_paddock(workspace, "exec", *args[:own], *patience, *args[own:], stdin=stdin)


def test_output_errors_and_exit_code_pass_through(workspace):
    code = "import sys; print(sys.argv[1:]); print(sys.stdin.read(), file=sys.stderr); sys.exit(7)"
    found = paddock(workspace, "python", "-c", code, "--stdin", "--", "-a", "--", "b", stdin=b"in")
    assert found == (7, "['-a', '--', 'b']\n", "in\n")


def test_a_pipe_gets_bytes_as_they_are(workspace):
    assert paddock(workspace, "shell", "-c", r"printf '\033[2Ja\r\n'") == (0, "\x1b[2Ja\r\n", "")


def test_a_file_and_the_program_on_standard_input(workspace):
    (workspace / "hello.py").write_text("print('from a file')")
    assert paddock(workspace, "python", "hello.py") == (0, "from a file\n", "")
    assert paddock(workspace, "python", "-", stdin=b"print('from a pipe')") == (0, "from a pipe\n", "")


def test_a_file_runs_beside_what_it_imports(workspace):
    (workspace / "folder").mkdir()
    (workspace / "folder" / "helper.py").write_text("word = 'near'")
    (workspace / "folder" / "main.py").write_text("import helper; print(helper.word)")
    assert paddock(workspace, "python", "./folder/main.py") == (0, "near\n", "")
    found = paddock(workspace, "python", "-", stdin=b"import helper")
    assert found[0] == 1
    assert found[2].startswith(
        'Traceback (most recent call last):\n  File "program.py", line 1, in <module>\n'
    )
    assert "  hint: inline code cannot import files beside it; " in found[2]


def test_s18_arguments_alone(workspace):
    assert paddock(workspace, "node", "--", "-e", "console.log('hello')") == (0, "hello\n", "")


@pytest.mark.parametrize("name", ["bash", "SH", "Shell"])
def test_common_names_of_languages_are_known(workspace, name):
    assert paddock(workspace, name, "-c", "echo $((6 * 7))") == (0, "42\n", "")


@pytest.mark.parametrize(
    ("args", "code", "told"),
    [
        (("cobl", "-c", "1"), 127, "there is no runtime cobl; there are node, typescript, python, "),
        (("pyton", "-c", "1"), 127, "there is no runtime pyton; did you mean python?\n"),
        (("C+", "-c", "1"), 127, "there is no runtime c+; did you mean cpp?\n"),
        (("JavaScrip", "-c", "1"), 127, "there is no runtime javascrip; did you mean node?\n"),
        (("shell", "-c", "sleep 3600", "--timeout-ms", "200"), 124, "The program ran out of time\n  hint: it had 200 ms; runtimes.timeout_ms is the maximum\n"),
        (("shell", "-c", "1", "--timeout-ms", "30001"), 126, "Requested timeout (30001ms) exceeds maximum (30000ms)\n  hint: runtimes.timeout_ms in the settings decides this; "),
        (("shell", "-c", "1", "--cwd", "../x"), 126, 'Relative CWD "../x" contains path traversal or absolute path components\n'),
        (("shell", "-c", "1", "--cwd", "missing"), 126, "Working directory does not exist: missing\n"),
        (("python", "-c", "1", "--executable", "bash"), 126, 'Executable "bash" is not compatible with runtime "python"\n'),
        (("shell", "-c", "kill -9 $$"), 137, "The program was ended by SIGKILL\n"),
    ],
)  # fmt: skip
def test_exit_codes_that_are_not_the_programs(workspace, args, code, told):
    found = paddock(workspace, *args)
    assert (found[0], found[1], found[2].startswith(told)) == (code, "", True), found


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("shell", "--", "echo"), "Shell runtime requires the code parameter."),
        (
            ("python",),
            "There is nothing to run: give a FILE, a language with -c CODE, - for a program on standard input, or -- COMMAND.",
        ),
        (("python", "x.py", "-c", "1"), "Give either -c CODE or FILE; arguments of the program follow --."),
        (("python", "-", "--stdin"), "The program and --stdin cannot both come from standard input."),
        (("python", "missing.py"), "missing.py: cannot read this program: No such file or directory"),
        (("python", "/dev/zero"), "/dev/zero: a program has at most 1048576 characters, and this has more"),
        (("python", "x.py", "y"), "Got unexpected extra argument (y); arguments of the program follow --."),
        (("python", "-c", "1", "--timeout-ms", "99"), "a program's timeout is 100 to 600000 ms, not 99"),
        (("python", "-c", "1", "--", *"x" * 101), "A program gets at most 100 arguments, not 101."),
        (("python", "-c", "1", "-w", "/no/such/workspace"), "Directory '/no/such/workspace' does not exist."),
    ],
)
def test_s14_s15_command_lines_without_sense(workspace, args, told):
    found = paddock(workspace, *args)
    assert (found[0], told in found[2]) == (2, True), found


def test_s15_an_unknown_workspace_comes_before_broken_settings(workspace):
    (workspace / "paddock.toml").write_text("[runtimes]\nenabled = 1\n")
    assert "does not exist" in paddock(workspace, "python", "-c", "1", "-w", "/no/such/workspace")[2]
    code, _, told = paddock(workspace, "python", "-c", "1")
    assert (code, "runtimes.enabled must be true or false, not 1" in told) == (125, True)


def test_more_standard_input_than_fits(workspace):
    code, _, told = paddock(workspace, "python", "-c", "1", "--stdin", stdin=b"x" * 16_777_217)
    assert (code, "at most 16777216 bytes of standard input" in told) == (2, True)


def test_writing_is_a_power_that_the_command_line_gives(workspace):
    code = "echo x > file"
    assert paddock(workspace, "shell", "-c", code)[0] != 0
    assert not (workspace / "file").exists()
    assert paddock(workspace, "shell", "-c", code, "--access", "workspace-write") == (0, "", "")
    assert (workspace / "file").read_text() == "x\n"


def test_what_is_put_back_after_the_program_is_told(workspace):
    told = "restored, because your own tools run or trust it: .vscode\n"
    code = "mkdir .vscode; echo {} > .vscode/settings.json; echo ok"
    assert paddock(workspace, "shell", "-c", code, "--access", "workspace-write") == (0, "ok\n", told)
    assert not (workspace / ".vscode").exists()
    _, text, _ = paddock(workspace, "shell", "-c", code, "--access", "workspace-write", "--json")
    assert json.loads(text)["violations"] == [".vscode"]


def test_output_that_is_not_kept_is_told(workspace):
    code = "head -c 2000 /dev/zero | tr '\\0' x"
    small = ("shell", "-c", code, "--set", "artifacts.max_bytes=1024")
    told = "output is not kept: it is larger than artifacts.max_bytes = 1024\n"
    assert paddock(workspace, *small) == (0, "x" * 2000, told)
    assert paddock(workspace, *small, "--no-keep") == (0, "x" * 2000, "")
    assert paddock(workspace, *small, "--set", "artifacts.enabled=false") == (0, "x" * 2000, "")


def test_writing_that_the_workspace_forbids(workspace):
    (workspace / "paddock.toml").write_text('[runtimes]\naccess = "none"\n')
    code, _, told = paddock(workspace, "shell", "-c", "1", "--access", "workspace-write")
    assert (code, told.partition(";")[0]) == (
        126,
        "access workspace-write to the workspace is not granted (granted: none)",
    )
    assert paddock(workspace, "shell", "-c", "ls; pwd | cut -c1-13")[1] == "code.sh\n/tmp/paddock-\n"


def test_json_is_one_line(workspace):
    code, text, told = paddock(workspace, "shell", "-c", "echo out; exit 3", "--json")
    assert (code, told, text.count("\n")) == (3, "", 1)
    assert json.loads(text)["exitCode"] == 3


def test_nobody_reads_any_more(workspace):
    words = [PADDOCK, "exec", "shell", "-c", "while :; do echo yes; done", "-w", workspace]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"yes\n"
        process.stdout.close()
        assert process.wait(PATIENCE_S) == 128 + signal.SIGPIPE


def test_s23_an_interrupt_ends_the_program(workspace):
    words = [PADDOCK, "exec", "shell", "-c", "echo go; sleep 3600", "-w", workspace]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"go\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(PATIENCE_S), process.stderr.read()) == (
            128 + signal.SIGINT,
            b"The program was cancelled\n",
        )


def test_s23_what_was_written_before_an_interrupt_is_answered_and_kept(workspace):
    os.mkfifo(workspace / "begun")
    code = "echo go; echo > begun; sleep 3600"
    words = [PADDOCK, "exec", "shell", "-c", code, "-w", workspace, "--access", "workspace-write"]
    with subprocess.Popen([*words, "--mode", "summary", "--json"], stdout=subprocess.PIPE) as process:
        (workspace / "begun").read_text()
        process.send_signal(signal.SIGINT)
        told = json.loads(process.stdout.read())
        assert process.wait(PATIENCE_S) == 128 + signal.SIGINT
    assert (told["status"], told["exitCode"], told["stdoutSummary"]) == ("cancelled", None, "go")
    assert told["error"]["message"] == "The program was cancelled"
    assert run_paddock(None, "output", "show", told["artifactHandle"], "-w", workspace) == (0, "go\n", "")


def test_a_terminal_sees_output_as_it_comes_and_no_control_characters(workspace):
    ours, theirs = pty.openpty()
    code = "import sys, time; print('\\033[2Jfirst', flush=True); time.sleep(3600)"
    words = [PADDOCK, "exec", "python", "-c", code, "-w", workspace]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        watchdog = threading.Timer(PATIENCE_S, process.kill)
        watchdog.start()
        shown = b""
        while not shown.endswith(b"\n"):  # the terminal passes on text and newline one after the other
            shown += os.read(ours, 100)
        assert shown == b"\\x1b[2Jfirst\r\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 128 + signal.SIGTERM
        watchdog.cancel()
    os.close(ours)


def test_a_program_in_its_users_home_sees_no_secret_and_no_record(workspace, tmp_path):
    stored = run_paddock(
        workspace, "vault", "set", "token", "--set", "vault.backend=file", stdin=b"hunter2hunter2"
    )
    assert stored.returncode == 0
    assert paddock(workspace, "shell", "-c", "echo kept")[:2] == (0, "kept\n")
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
    (workspace / "file").touch()
    done = paddock(tmp_path, "python", "-c", code)
    assert (done[0], set(done[1].splitlines())) == (0, {"FileNotFoundError", "['file']"})
    grant = 'import os; os.makedirs("XDG_CONFIG_HOME/paddock", exist_ok=True); open("XDG_CONFIG_HOME/paddock/paddock.toml", "w")'
    refused = paddock(tmp_path, "python", "--access", "workspace-write", "-c", grant)
    assert (refused[0], refused[2].splitlines()[-3]) == (
        1,
        "OSError: [Errno 30] Read-only file system: 'XDG_CONFIG_HOME/paddock/paddock.toml'",
    )


def test_a_file_is_run_by_the_language_of_its_suffix(workspace):
    (workspace / "one.py").write_text("import sys; print(sys.argv[1:])")
    (workspace / "two.SH").write_text("echo $1")
    (workspace / "three.foo").write_text("")
    assert paddock(workspace, "one.py", "--", "-a") == (0, "['-a']\n", "")
    assert paddock(workspace, "./two.SH", "--", "b") == (0, "b\n", "")
    told = (
        "./three.foo: no language has the suffix of this file; name one: paddock exec RUNTIME ./three.foo\n"
    )
    assert paddock(workspace, "./three.foo")[2].endswith(told)
    cure = "name the file of a program, or a runtime with -c CODE\n"
    assert paddock(workspace, "./none")[2].endswith(f"./none: there is no such file; {cure}")
    assert paddock(workspace, "./")[2].endswith(f"./: is a directory; {cure}")
    code, _, told = paddock(workspace, "none.py")
    assert (code, "none.py: cannot read this program: No such file or directory" in told) == (2, True)


def test_a_command_runs_by_its_runtime_or_by_the_shell(workspace):
    (workspace / "a b").write_text("")
    assert paddock(workspace, "--", "python3", "-c", "import sys; print(sys.argv)", "x") == (
        0,
        "['-c', 'x']\n",
        "",
    )
    assert paddock(workspace, "--", "ls", "a b") == (0, "a b\n", "")
    assert paddock(workspace, "--", "sh", "-c", "exit 7")[0] == 7
    code, _, told = paddock(workspace, "--", "no-such-command")
    assert (code, "no-such-command: not found" in told) == (127, True)
    code, _, told = paddock(workspace, "ls")
    assert (code, told.endswith("; to run the command ls: paddock exec -- ls\n")) == (127, True)
    denied = paddock(workspace, "--set", 'runtimes.allowed=["python"]', "--", "ls")
    assert denied[0] == 126


def test_piped_input_is_passed_and_an_idle_pipe_is_not(workspace):
    code = "import sys; print(repr(sys.stdin.read()))"
    for flags, told in (((), "'ada'\n"), (("--no-stdin",), "''\n")):
        read_end, write_end = os.pipe()
        with os.fdopen(read_end, "rb") as piped:
            with os.fdopen(write_end, "wb") as full:
                full.write(b"ada")  # before the start: a command waits for 0.1 s only
            assert paddock(workspace, "python", "-c", code, *flags, stdin=piped) == (0, told, "")
    (workspace / "names").write_text("ada\n")
    with (workspace / "names").open("rb") as names:
        assert paddock(workspace, "python", "-c", code, stdin=names) == (0, "'ada\\n'\n", "")
    read_end, write_end = os.pipe()  # nothing is ever written, and it does not end
    with os.fdopen(read_end, "rb") as idle, os.fdopen(write_end, "wb"):
        assert paddock(workspace, "python", "-c", code, stdin=idle) == (0, "''\n", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--with", "numpy"), "No such option '--with'. Did you mean '--package'?"),
        (
            ("--memory", "1"),
            "1 is 1 byte, and no program runs with less than 1MiB; write a size such as 500kB, 64MiB or 2GiB",
        ),
        (
            ("--network", "localhost"),
            "'localhost' is neither none, loopback, hosts, full nor a list of hosts, such as "
            "api.example.com,files.example.com; for servers that the program starts itself, write loopback",
        ),
    ],
)
def test_what_to_write_instead(workspace, words, told):
    code, _, errors = paddock(workspace, "python", "-c", "1", *words)
    assert (code, " ".join(errors.split()).endswith(told)) == (2, True)
