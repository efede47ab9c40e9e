"""Files into a program and out of it: by `paddock exec`, the library, and MCP."""

import base64
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.support.command import PATIENT, Ended, run_paddock

from paddock import BlockingPaddock, Outcome, Status

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
PATIENT_MS = 120_000


def execute(workspace: Path, language: str, code: str, **given: object) -> Outcome:
    overrides = given.pop("overrides", {})
    merged = {**overrides, "runtimes": {"timeout_ms": PATIENT_MS, **overrides.get("runtimes", {})}}
    with BlockingPaddock(workspace, overrides=merged) as p:
        outcome = p.exec(language, code, **given)
        for file in outcome.files:
            if file.handle:
                assert len(file.read()) >= 0
        return outcome


def command(workspace: Path, *words: str | Path) -> Ended:
    return run_paddock(workspace, *words, *PATIENT, stdin=subprocess.DEVNULL)


PROGRAMS = {
    "python": "import helper\ndata = open('in/a.csv').read()\nopen('out.csv', 'w').write(data * 2)\nprint(helper.n)",
    "node": "const fs = require('fs');\nfs.writeFileSync('out.csv', fs.readFileSync('in/a.csv', 'utf8').repeat(2));\n"
    "console.log(require('./helper.js').n)",
    "shell": 'cat in/a.csv in/a.csv > out.csv; test "$PWD" = "$PADDOCK_WORKDIR" && . ./helper.sh && echo $n',
    "c": '#include <stdio.h>\nint main(void) { char t[9]; FILE *f = fopen("in/a.csv", "r"); size_t n = fread(t, 1, 9, f);'
    'f = fopen("out.csv", "w"); fwrite(t, 1, n, f); fwrite(t, 1, n, f); puts("7"); }',
}
HELPERS = {"helper.py": "n = 7", "helper.js": "exports.n = 7", "helper.sh": "n=7"}


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_works_in_a_directory_of_its_own(workspace: Path, language: str) -> None:
    (workspace / "in").mkdir()
    (workspace / "in" / "a.csv").write_text("the workspace's")
    given = {"in/a.csv": b"1,2\n", **HELPERS}
    outcome = execute(workspace, language, PROGRAMS[language], files=given, outputs=["*.csv"])
    assert outcome.error is None
    assert outcome.program is not None
    assert outcome.program.stdout.text == "7\n"
    assert [(file.path, file.size, file.media_type) for file in outcome.files] == [("out.csv", 8, "text/csv")]
    assert [*workspace.iterdir()] == [workspace / "in"]


def test_a_file_is_read_back_and_given_to_the_next_program(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={"runtimes": {"timeout_ms": PATIENT_MS}}) as p:
        one = p.exec("python", "open('t.txt', 'w').write('hello')", outputs=["*"])
        (file,) = one.files
        assert file.read() == b"hello"
        (workspace / "w.txt").write_text("from the workspace")
        two = p.exec("python", "print(open('a').read())", files={"a": workspace / "w.txt", "b": "text"})
        assert two.program is not None
        assert (two.program.stdout.text, two.files) == ("from the workspace\n", ())


def test_files_of_a_program_that_fails_are_there_too(workspace: Path) -> None:
    outcome = execute(
        workspace, "python", "open('a.txt', 'w').write('1')\nraise SystemExit(3)", outputs=["*"]
    )
    assert (outcome.status, [file.path for file in outcome.files]) == (Status.FAILED, ["a.txt"])


HOSTILE = """
import os
os.symlink("/etc/passwd", "link.txt")
os.symlink("/", "root")
os.mkfifo("pipe.txt")
try:
    os.link("/etc/hostname", "hard.txt")
except OSError:
    pass
os.mkdir("closed"); open("closed/in.txt", "w").write("1"); os.chmod("closed", 0)
open("none.txt", "w").write("1"); os.chmod("none.txt", 0)
os.rename(os.environ["PADDOCK_WORKDIR"], os.environ["PADDOCK_WORKDIR"] + "2")
os.symlink("/etc", os.environ["PADDOCK_WORKDIR"])
"""


def test_a_directory_that_was_swapped_leads_nowhere(workspace: Path) -> None:
    outcome = execute(workspace, "python", HOSTILE, outputs=["*"])
    assert outcome.program is not None
    assert (outcome.files, outcome.program.stderr.text) == ((), "")


def test_nothing_of_the_machine_comes_out(workspace: Path) -> None:
    outcome = execute(workspace, "python", HOSTILE.rpartition("os.rename")[0], outputs=["*"])
    assert outcome.program is not None
    assert outcome.program.stderr.text == ""
    assert {file.path for file in outcome.files} <= {"hard.txt", "none.txt", "closed/in.txt"}
    assert not [file for file in outcome.files if file.path == "hard.txt" and file.handle]


def test_a_program_s_own_file_is_not_replaced(workspace: Path) -> None:
    outcome = execute(workspace, "python", "1", files={"program.py": b"print(2)"})
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message) == (
        Status.INVALID,
        "'program.py' is the program's own file; give yours another name",
    )


def test_variables_need_a_grant(workspace: Path) -> None:
    code = "import os; print(os.environ['SALT'])"
    refused = execute(workspace, "python", code, env={"SALT": "pepper"})
    assert refused.error is not None
    assert (refused.status, refused.error.message) == (
        Status.DENIED,
        "the environment variable SALT is not granted; add its name, or a pattern, to `environment` under [runtimes] "
        "in the paddock.toml of the user or the system",
    )
    granted = {"runtimes": {"environment": ["SA*"]}}
    outcome = execute(workspace, "python", code, env={"SALT": "pepper"}, overrides=granted)
    assert outcome.program is not None
    assert outcome.program.stdout.text == "pepper\n"
    ledger = b"".join(
        path.read_bytes() for path in Path(os.environ["XDG_STATE_HOME"]).rglob("*") if path.is_file()
    )
    assert b"pepper" not in ledger


def test_memory_is_limited_for_one_call(workspace: Path) -> None:
    code = "print(len(bytearray(300_000_000)))"
    outcome = execute(workspace, "python", code, memory_bytes=100 * 1024 * 1024)
    assert outcome.status is Status.MEMORY_LIMIT
    assert execute(workspace, "python", code).ok


def test_exec_copies_files_in_and_writes_them_out(workspace: Path) -> None:
    (workspace / "sales.csv").write_text("1,2\n")
    code = "import os; open('d.csv', 'w').write(open('s.csv').read() + os.environ['END']); print('done')"
    given = ("--file-in", "sales.csv:s.csv", "--output", "*.csv", "--output-dir", "out", "--env", "END=x")
    assert command(workspace, "exec", "python", "-c", code, *given) == (
        0,
        "done\n",
        "d.csv (5 bytes): out/d.csv\n",
    )
    assert (workspace / "out" / "d.csv").read_text() == "1,2\nx"
    status, out, told = command(workspace, "exec", "python", "-c", code, *given)
    assert (status, out) == (125, "done\n")
    kept = told.rpartition(" get ")[2].split()[0]
    assert told == (
        "out/d.csv cannot be written: it exists already; remove it, or choose another directory; it is stored: "
        f"paddock output get {kept} -o d.csv\n"
    )
    assert command(workspace, "output", "get", kept) == (0, "1,2\nx", "")
    assert command(workspace, "output", "get", kept, "-o", "copy.csv") == (0, "", "")
    assert (workspace / "copy.csv").read_text() == "1,2\nx"


def test_what_is_written_out_goes_through_no_link_and_makes_no_tool_run(
    workspace: Path, tmp_path: Path
) -> None:
    code = """
import os
for path in ("plain.txt", "sub/in.txt", ".git/hooks/x", "HEAD", "deep/.envrc"):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    open(path, "w").write("x")
"""
    given = ("exec", "python", "-c", code, "--output-dir", "out")
    (outside := tmp_path / "outside").mkdir()
    (workspace / "out").symlink_to(outside)
    status, _, told = command(workspace, *given)
    assert (status, " cannot be written: Not a directory; " in told) == (125, True)
    (workspace / "out").unlink()
    (workspace / "out").mkdir()
    (workspace / "out" / "sub").symlink_to(outside)
    status, _, told = command(workspace, *given)
    assert (status, "out/sub/in.txt cannot be written: Not a directory; " in told) == (125, True)
    (workspace / "out" / "sub").unlink()
    (workspace / "out" / "plain.txt").unlink()
    status, _, told = command(workspace, *given)
    assert status == 0
    assert [line.partition(":")[0] for line in told.splitlines()] == [
        ".git/hooks/x (1 byte) was not written, because tools may run what .git holds",
        "HEAD (1 byte) was not written, because tools may run what HEAD holds",
        "deep/.envrc (1 byte) was not written, because tools may run what .envrc holds",
        "plain.txt (1 byte)",
        "sub/in.txt (1 byte)",
    ]
    assert ([*outside.iterdir()], (workspace / "out" / "sub" / "in.txt").read_text()) == ([], "x")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            ("--file-in", "missing.csv"),
            "Invalid value for --file-in: missing.csv: cannot read this file: No such file or directory",
        ),
        (
            ("--file-in", "a.csv:../a.csv"),
            "Invalid value for --file-in: path: '../a.csv' leads out of the working directory",
        ),
        (("--env", "A"), "Invalid value for '--env': 'A' is not KEY=VALUE"),
        (
            ("--memory", "much"),
            "Invalid value for '--memory': must be a size such as 500kB, 64MiB or 2GiB, in whole bytes",
        ),
        (
            ("--output", "*", "--cwd", "sub"),
            "with `files`, `outputs` or `session` the program works in a separate directory: give its text as `code`, no `file` "
            "and no `cwd`",
        ),
    ],
)
def test_mistakes_on_the_command_line(workspace: Path, given: tuple[str, ...], told: str) -> None:
    (workspace / "a.csv").touch()
    status, out, said = command(workspace, "exec", "python", "-c", "1", *given)
    assert (status, out, said.splitlines()[-1]) == (2, "", f"Error: {told}")


def test_json_lists_the_files(workspace: Path) -> None:
    code = f"open('p.png', 'wb').write(bytes.fromhex('{PNG.hex()}'))"
    status, out, _ = command(workspace, "exec", "python", "-c", code, "--output", "*.csv", "--json")
    (file,) = json.loads(out)["files"]
    assert status == 0
    assert file | {"sha256": ""} == {
        "path": "p.png",
        "size": len(PNG),
        "mediaType": "image/png",
        "sha256": "",
        "handle": None,
        "notKept": "no pattern of `outputs` matches it",
    }
