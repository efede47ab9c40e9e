"""Programs that are files of the workspace run where they stand, when they may; everything else runs from a copy."""

import os
import re

import pytest

NEIGHBOURS = {
    "python": ("main.py", "import beside\nprint(beside.word)\n", "beside.py", "word = 'near'\n"),
    "node": (
        "main.mjs",
        "import { word } from './beside.mjs'\nconsole.log(word)\n",
        "beside.mjs",
        "export const word = 'near'\n",
    ),
    "typescript": (
        "main.ts",
        "import { word } from './beside'\nconsole.log(word)\n",
        "beside.ts",
        "export const word: string = 'near'\n",
    ),
    "shell": ("main", '. "$(dirname "$0")/beside.sh"\necho "$word"\n', "beside.sh", "word=near\n"),
    "ruby": ("main.rb", "require_relative 'beside'\nputs WORD\n", "beside.rb", "WORD = 'near'\n"),
    "php": (
        "main.php",
        "<?php require __DIR__ . '/beside.php'; echo $word, \"\\n\";\n",
        "beside.php",
        "<?php $word = 'near';\n",
    ),
    "perl": (
        "main.pl",
        'use FindBin; require "$FindBin::Bin/beside.pl"; print word(), "\\n";\n',
        "beside.pl",
        "sub word { 'near' }\n1;\n",
    ),
    "r": (
        "main.R",
        'own <- sub("^--file=", "", grep("^--file=", commandArgs(), value = TRUE)[1])\n'
        'source(file.path(dirname(own), "beside.R"))\ncat(word, "\\n", sep = "")\n',
        "beside.R",
        'word <- "near"\n',
    ),
    "elixir": (
        "main.exs",
        'Code.require_file("beside.exs", __DIR__)\nIO.puts(Beside.word())\n',
        "beside.exs",
        'defmodule Beside do\n  def word, do: "near"\nend\n',
    ),
}


@pytest.fixture(scope="module")
def languages(toolchain_path, programs):
    """Programs that find every toolchain."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", toolchain_path)
        yield programs


@pytest.fixture
def put(languages):
    """Put a file into a folder of the workspace; return its code and its path below the workspace."""

    def put(name, code, mode=0o644):
        path = languages.workspace / "standing" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(code)
        path.chmod(mode)
        return {"code": code, "file": f"standing/{name}"}

    return put


@pytest.mark.parametrize("name", sorted(NEIGHBOURS))
def test_a_file_is_run_with_what_stands_beside_it(languages, put, name):
    main, code, beside, text = NEIGHBOURS[name]
    put(beside, text)
    assert languages.text(name, **put(main, code)) == "near\n"


def test_without_the_workspace_it_runs_from_a_copy(languages, put):
    main, code, beside, text = NEIGHBOURS["python"]
    put(beside, text)
    outcome = languages.run("python", **put(main, code), access="none")
    assert "No module named 'beside'" in outcome.program.stderr.head
    code = "print(__file__.startswith('/tmp/paddock-'))"
    assert languages.text("python", **put("where.py", code), access="none") == "True\n"


@pytest.mark.parametrize(
    "there",
    ["print('another program')", "print('asked for')\n", ""],
    ids=["changed", "longer", "empty"],
)
def test_what_was_asked_for_is_run_whatever_the_file_holds_now(languages, put, there):
    """What a person or a policy agreed to is the code of the request."""
    given = put("swapped.py", there)
    assert languages.text("python", "print('asked for')", file=given["file"]) == "asked for\n"


def test_a_link_out_of_the_workspace_is_not_followed(languages, put, tmp_path):
    code = "print(__file__.startswith('/tmp/paddock-'))"
    (tmp_path / "outside.py").write_text(code)
    put("beside.py", "")
    link = languages.workspace / "standing" / "link.py"
    link.unlink(missing_ok=True)
    link.symlink_to(tmp_path / "outside.py")
    assert languages.text("python", code, file="standing/link.py") == "True\n"


def test_what_the_job_may_not_read_in_place_runs_from_a_copy(languages, put):
    """The user at the command line could read it; the job, which has his number at most, is not given more."""
    given = put("closed.py", "print('read')", mode=0o200)
    assert languages.text("python", **given) == "read\n"


def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(languages, put):
    put("beside.py", "")
    pipe = languages.workspace / "standing" / "pipe.py"
    if not pipe.exists():
        os.mkfifo(pipe)
    assert languages.text("python", "print(1)", file="standing/pipe.py") == "1\n"


def test_what_has_to_be_changed_first_runs_from_a_copy(languages, put):
    assert languages.text("php", **put("page.php", "echo 'opened';")) == "opened"
    assert languages.text("shell", **put("mark.sh", "\ufeffecho marked")) == "marked\n"
    assert languages.text("node", **put("module.txt", "console.log('text')")) == "text\n"


def test_compilers_see_the_one_file_and_call_it_by_its_name(languages, put):
    put("beside.h", "#define WORD 1\n")
    outcome = languages.run("c", **put("main.c", '#include "beside.h"\nint main(void) {}\n'))
    assert outcome.program.stderr.head.startswith(
        "main.c:1:10: fatal error: beside.h: No such file or directory\n"
    )
    assert "gcc *.c" in outcome.error.hint
    outcome = languages.run("c", **put("own name.c", "int main(void) { x }\n"))
    assert "code.c:1:18: error" in outcome.program.stderr.head


def test_the_record_names_the_file(languages, put):
    languages.text("python", **put("named.py", "print(1)"))
    assert languages.records("finished")[0].get("file") == "standing/named.py"


@pytest.mark.parametrize("file", ["/etc/passwd", "../x.py", "a/../../x.py", "a\0b"])
def test_a_file_that_is_not_below_the_workspace_is_no_request(languages, file):
    with pytest.raises(ValueError, match=r"path, within the workspace|NUL"):
        languages.request("python", "print(1)", file=file)


MODULE = {
    "go.mod": "module example/sums\n\ngo 1.18\n",
    "main.go": 'package main\n\nimport "example/sums/sum"\n\nfunc main() { print(sum.Of(1, 2)) }\n',
    "sum/sum.go": "package sum\n\nfunc Of(a, b int) int { return a + b }\n",
    "sum/sum_test.go": """package sum

import "testing"

func TestOf(t *testing.T) {
	if Of(1, 2) != 3 {
		t.Fatal(Of(1, 2))
	}
}
""",
}


def test_a_module_of_go_runs_and_its_tests_do(languages):
    for name, text in MODULE.items():
        path = languages.workspace / "module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    outcome = languages.run("go", args=("./.",), cwd="module")
    assert (outcome.status, outcome.program.stderr.head) == ("ok", "3")
    outcome = languages.run("go", args=("test", "./..."), cwd="module")
    lines = [line.split()[:2] for line in outcome.program.stdout.head.splitlines()]
    assert (outcome.status, lines) == ("ok", [["?", "example/sums"], ["ok", "example/sums/sum"]])


def test_a_warm_start_holds_the_standard_library_for_go_run_and_go_test(languages):
    """With `-v` and `-x` Go prints what it compiles: the module's own packages, and what it makes to run a test."""
    for name, text in MODULE.items():
        path = languages.workspace / "module" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            text.replace("func main() {", "func main() { _ = http.StatusOK;").replace(
                'import "example/sums/sum"', 'import ("example/sums/sum"; "net/http")'
            )
        )
    outcome = languages.run("go", args=("run", "-v", "."), cwd="module")
    assert (outcome.status, outcome.program.stderr.head) == ("ok", "example/sums/sum\nexample/sums\n3")
    outcome = languages.run("go", args=("test", "-x", "./sum"), cwd="module")
    compiled = re.findall(r"/compile .* -p (\S+)", outcome.program.stderr.head)
    vetted = re.findall(r"/vet -", outcome.program.stderr.head)
    assert (outcome.status, sorted(compiled), len(vetted)) == ("ok", ["example/sums/sum", "main"], 1)


def test_compilers_of_the_system_work_in_shell_programs(languages, put):
    put(
        "Main.java",
        "class Main { public static void main(String[] a) { System.out.print(new Other().word); } }",
    )
    put("Other.java", 'class Other { String word = "java"; }')
    code = 'javac -d "$TMPDIR" standing/Main.java standing/Other.java && java -cp "$TMPDIR" Main'
    assert languages.text("shell", code) == "java"


def test_mono_in_shell_programs_needs_a_proc_of_their_own(languages, put):
    """It asks /proc for its stack; in `landlock` a job has the entry of its first process alone."""
    put("main.cs", 'class Program { static void Main() { System.Console.Write("mono"); } }')
    outcome = languages.run(
        "shell", 'mcs -out:"$TMPDIR/main.exe" standing/main.cs && mono "$TMPDIR/main.exe"'
    )
    first = outcome.program.stdout.head.partition("\n")[0]
    assert (outcome.status, first) == {
        "namespaces": ("ok", "mono"),
        "landlock": (
            "failed",
            'mono_threads_platform_get_stack_bounds: pthread_getattr_np failed with "Permission denied" (13)',
        ),
    }[outcome.sandbox.tier]
