"""`/run_code`, `/run_jupyter` and the tests of open-instruct, over a socket from a real server."""

import base64
import json
import pickle
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.grading import BASIC, TOKEN, Grader, open_grader

SETTINGS = """
[runtimes]
timeout_ms = 120_000
memory_bytes = 1_073_741_824
"""
SECRET = "only-the-server-knows"


@pytest.fixture(scope="module")
def grader(tmp_path_factory: pytest.TempPathFactory, toolchain_path: str) -> Iterator[Grader]:
    with open_grader(tmp_path_factory.mktemp("grader"), SETTINGS, toolchain_path) as grader:
        (grader.workspace / "answers.txt").write_text(SECRET)
        yield grader


def find_end(answer: Any) -> tuple[Any, ...]:
    """Return status, and status, code and both streams of the run."""
    run = answer["run_result"]
    return answer["status"], run["status"], run["return_code"], run["stdout"], run["stderr"]


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        ("print(input() * 2)", {"stdin": "ab"}, ("Success", "Finished", 0, "abab\n", "")),
        ("print(open(0).read() == '')", {"stdin": None}, ("Success", "Finished", 0, "True\n", "")),
        ("print('a'); raise SystemExit(3)", {}, ("Failed", "Finished", 3, "a\n", "")),
        ("import os; os.kill(os.getpid(), 11)", {}, ("Failed", "Finished", -11, "", "")),
        (
            "import time\nprint('begun', flush=True)\ntime.sleep(3600)",
            {"run_timeout": 10},
            ("Failed", "TimeLimitExceeded", None, "begun\n", ""),
        ),
        ("print(1)", {"run_timeout": 0}, ("Failed", "TimeLimitExceeded", None, "", "")),
        ("print(1)", {"run_timeout": -3.5}, ("Failed", "TimeLimitExceeded", None, "", "")),
        (
            "import sys; sys.stdout.buffer.write(b'a\\xff\\xfeb')",
            {},
            ("Success", "Finished", 0, "a\ufffd\ufffdb", ""),
        ),
        (
            "import subprocess; subprocess.Popen(['sleep', '3600']); print('done')",
            {},
            ("Success", "Finished", 0, "done\n", ""),
        ),
        (
            "import sys; print('o' * 2**20); sys.stderr.write('e' * 2**20)",
            {},
            ("Success", "Finished", 0, "o" * 2**20 + "\n", "e" * 2**20),
        ),
    ],
)
def test_a_program_ends_in_the_words_of_the_contract(
    grader: Grader, code: str, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    assert find_end(grader.run(code, **fields)) == expected


def test_every_field_is_sent(grader: Grader) -> None:
    answer = grader.run("print(1)")
    assert isinstance(answer["run_result"].pop("execution_time"), float)
    assert answer == {
        "status": "Success",
        "message": "",
        "compile_result": None,
        "run_result": {"status": "Finished", "return_code": 0, "stdout": "1\n", "stderr": ""},
        "executor_pod_name": None,
        "files": {},
    }


def test_more_memory_or_output_than_allowed_is_told_by_the_last_line(grader: Grader) -> None:
    hungry = grader.run("held = []\nwhile True: held.append(bytearray(2**20))", memory_limit_MB=64)
    status, ended, code, stdout, stderr = find_end(hungry)
    assert (status, ended, code in {1, -9}, stdout) == ("Failed", "Finished", True, "")
    assert stderr.splitlines()[-1].startswith(
        "paddock: The program used more memory than it may (it had 64 MiB"
    )
    loud = grader.run("while True: print('x' * 2**16)")
    status, ended, code, stdout, stderr = find_end(loud)
    assert (status, ended, code, len(stdout) >= 2**20) == ("Failed", "Finished", -9, True)
    assert stderr == "paddock: The program wrote more to standard output than it may (at most 8 MiB)\n"


@pytest.mark.parametrize(
    ("language", "code", "compiles"),
    [
        ("cpp", '#include <cstdio>\nint main() { puts("hello"); }', True),
        (
            "java",
            'public class Main { public static void main(String[] a) { System.out.println("hello"); } }',
            True,
        ),
        ("go", 'package main\nimport "fmt"\nfunc main() { fmt.Println("hello") }', True),
        ("rust", 'fn main() { println!("hello"); }', True),
        ("nodejs", "console.log('hello')", False),
        ("typescript", "const text: string = 'hello'; console.log(text)", False),
        ("csharp", 'class P { static void Main() { System.Console.WriteLine("hello"); } }', False),
        ("php", "echo 'hello', PHP_EOL;", False),
        ("bash", "echo hello", False),
        ("R", 'cat("hello\\n")', False),
        ("perl", 'print "hello\\n";', False),
        ("ruby", "puts 'hello'", False),
        ("kotlin_script", 'println("hello")', False),
    ],
)
def test_a_language_runs(grader: Grader, language: str, code: str, *, compiles: bool) -> None:
    answer = grader.run(code, language)
    assert find_end(answer) == ("Success", "Finished", 0, "hello\n", "")
    compiled = answer["compile_result"]
    assert (compiled is not None) is compiles
    if compiled is not None:
        assert (compiled["status"], compiled["return_code"]) == ("Finished", 0)


def test_what_a_compiler_rejects_is_no_run(grader: Grader) -> None:
    answer = grader.run("int main() { return nothing; }", "cpp")
    compiled = answer["compile_result"]
    assert (answer["status"], answer["run_result"], compiled["status"]) == ("Failed", None, "Finished")
    assert compiled["return_code"] not in {0, None}
    assert "nothing" in compiled["stderr"]


def test_a_compile_limit_of_zero_is_over_at_once(grader: Grader) -> None:
    answer = grader.run("int main() {}", "cpp", compile_timeout=0)
    assert (answer["status"], answer["run_result"], answer["compile_result"]["status"]) == (
        "Failed", None, "TimeLimitExceeded",
    )  # fmt: skip
    late = grader.run("int main() {}", "cpp", run_timeout=0)
    assert (late["compile_result"]["return_code"], find_end(late)[:3]) == (
        0, ("Failed", "TimeLimitExceeded", None),
    )  # fmt: skip


def test_without_a_compile_command_an_error_is_one_of_the_run(grader: Grader) -> None:
    answer = grader.run("class P { static void Main() { nothing } }", "csharp")
    assert (answer["compile_result"], find_end(answer)[:3]) == (None, ("Failed", "Finished", 1))


def test_assertions_of_java_are_enabled(grader: Grader) -> None:
    answer = grader.run("class Main { public static void main(String[] a) { assert 1 > 2; } }", "java")
    assert find_end(answer)[:3] == ("Failed", "Finished", 1)


def test_tests_of_go_run(grader: Grader) -> None:
    test = 'package main\nimport "testing"\nfunc TestIt(t *testing.T) {{ if {} {{ t.Fatal("wrong") }} }}'
    assert grader.run(test.format("1 == 2"), "go_test")["status"] == "Success"
    failed = grader.run(test.format("1 == 1"), "go_test")
    assert (find_end(failed)[:3], "wrong" in failed["run_result"]["stdout"]) == (
        ("Failed", "Finished", 1),
        True,
    )


@pytest.mark.parametrize(("language", "command"), [("lua", "lua"), ("julia", "julia"), ("pytest", "pytest")])
def test_a_missing_language_is_a_missing_command(grader: Grader, language: str, command: str) -> None:
    status, ended, code, _, stderr = find_end(grader.run("print(1)", language))
    assert (status, ended, code) == ("Failed", "Finished", 127)
    assert stderr.startswith(f"bash: line 1: {command}: command not found\n")


def test_a_missing_compiler_is_a_missing_command(grader: Grader) -> None:
    answer = grader.run("x", "scala")
    compiled = answer["compile_result"]
    assert (answer["status"], answer["run_result"], compiled["return_code"]) == ("Failed", None, 127)
    assert compiled["stderr"].startswith("bash: line 1: scalac: command not found\n")


def test_files_go_in_and_out(grader: Grader) -> None:
    files = {"in/a.txt": encode("from outside"), "left": None, "IGNORE_THIS_FILE": encode("x")}
    code = (
        "import os; print(sorted(os.listdir('.'))); os.makedirs('out'); os.mkfifo('pipe')\n"
        "open('out/b', 'w').write(open('in/a.txt').read().upper()); raise SystemExit(1)"
    )
    wanted = ["out/b", "in/a.txt", "missing", "out", "pipe"]
    answer = grader.run(code, files=files, fetch_files=wanted)
    assert (answer["status"], answer["run_result"]["stdout"]) == ("Failed", "['in', 'program.py']\n")
    assert answer["files"] == {"out/b": encode("FROM OUTSIDE"), "in/a.txt": encode("from outside")}


def test_files_are_fetched_at_a_time_limit(grader: Grader) -> None:
    code = "import time\nopen('a', 'w').write('kept')\ntime.sleep(3600)"
    answer = grader.run(code, run_timeout=10, fetch_files=["a"])
    assert (find_end(answer)[1], answer["files"]) == ("TimeLimitExceeded", {"a": encode("kept")})


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"fetch_files": ["/etc/hostname"]}, ["fetch_files", 0]),
        ({"fetch_files": ["../../etc/hostname"]}, ["fetch_files", 0]),
        ({"files": {"/tmp/x": ""}}, ["files", "/tmp/x"]),
        ({"files": {"../x": ""}}, ["files", "../x"]),
    ],
)
def test_no_path_leads_out_of_the_working_directory(
    grader: Grader, fields: dict[str, Any], place: list[Any]
) -> None:
    status, answer = grader.post("/run_code", {"code": "1", "language": "python", **fields})
    assert (status, [each["loc"] for each in answer["detail"]]) == (422, [["body", *place]])


@pytest.mark.parametrize(
    "code",
    [
        "import os; os.symlink('/etc/passwd', 'x')",
        "import os; os.mkdir('d'); os.symlink('/etc', 'd/x')",
        "import os; os.symlink('/', 'x')",
        "import os; open('own', 'w').write('1'); os.link('own', 'x')",
        "import os, shutil; here = os.getcwd(); os.chdir('/tmp'); os.rmdir(here); os.symlink('/etc', here)",
    ],
)
def test_no_link_is_followed_out_of_the_working_directory(grader: Grader, code: str) -> None:
    wanted = ["x", "d/x/passwd", "x/etc/passwd", "passwd"]
    body = {"code": code, "language": "python", "run_timeout": 60, "fetch_files": wanted}
    status, answer = grader.post("/run_code", body)
    assert status in {200, 422}
    assert "root:" not in json.dumps(answer)
    assert answer.get("files", {}) == {}
    if status == 422:
        assert {tuple(each["loc"][:2]) for each in answer["detail"]} == {("body", "fetch_files")}


def test_a_program_is_pure(grader: Grader) -> None:
    """It reaches neither workspace nor server nor variables, and the packages that it names are comments."""
    code = f"""\
# /// script
# requires-python = ">=9"
# dependencies = ["left-pad"]
# ///
import os, socket

def attempt(action):
    try:
        action()
        return "done"
    except OSError as error:
        return type(error).__name__

own = socket.create_server(("127.0.0.1", 0))
print(attempt(lambda: socket.create_connection(own.getsockname())))
print(attempt(lambda: socket.create_connection(("127.0.0.1", {grader.port}))))
print(attempt(lambda: socket.create_connection(("198.51.100.1", 80), 5)))
print(attempt(lambda: open({str(grader.workspace / "answers.txt")!r}).read()))
print([name for name in os.environ if "TOKEN" in name])
print(attempt(lambda: open("/etc/paddock", "w")))
"""
    lines = grader.run(code)["run_result"]["stdout"].splitlines()
    assert (lines[0], lines[1], lines[2] != "done", lines[3] != "done", lines[4], lines[5] != "done") == (
        "done", "ConnectionRefusedError", True, True, "[]", True,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("body", "kind", "place"),
    [
        (b"", "missing", ["body"]),
        (b"{", "json_invalid", ["body", 0]),
        (b"[]", "model_attributes_type", ["body"]),
        (b'{"language": "python"}', "missing", ["body", "code"]),
        (b'{"code": "1", "language": "cobol"}', "literal_error", ["body", "language"]),
        (b'{"code": "1", "language": "python", "memory_limit_MB": null}', "int_type", ["body", "memory_limit_MB"]),
        (b'{"code": "1", "language": "python", "memory_limit_MB": 1.5}', "int_from_float", ["body", "memory_limit_MB"]),
        (b'{"code": "1\\ud800", "language": "python"}', "json_invalid", ["body", 17]),
        (b'{"code": "\xff", "language": "python"}', "json_invalid", ["body", 10]),
        (b"[" * 100_000, "json_invalid", ["body", 201]),
        (b'{"code": "' + b"x" * 2**20 + b'x", "language": "python"}', "string_too_long", ["body", "code"]),
    ],
)  # fmt: skip
def test_an_invalid_body_is_answered_as_by_fastapi(
    grader: Grader, body: bytes, kind: str, place: list[Any]
) -> None:
    status, answer = grader.request("POST", "/run_code", body)
    (error,) = answer["detail"]
    assert (status, error["type"], error["loc"]) == (422, kind, place)
    assert {"type", "loc", "msg", "input"} <= set(error)


def test_a_form_is_no_json(grader: Grader) -> None:
    headers = {"Content-Type": "text/plain", "Authorization": BASIC}
    status, answer = grader.request("POST", "/run_code", b'{"code": "1", "language": "python"}', headers)
    assert (status, answer["detail"][0]["type"]) == (422, "model_attributes_type")


def test_the_password_is_the_token(grader: Grader) -> None:
    body = b'{"code": "print(1)", "language": "python", "run_timeout": 60}'
    wrong = "Basic " + base64.b64encode(b"grader:wrong").decode()
    codes = [
        grader.request("POST", "/run_code", body, headers)[0]
        for headers in ({}, {"Authorization": wrong}, {"Authorization": f"Bearer {TOKEN}"})
    ]
    assert codes == [401, 401, 200]


def test_other_methods_and_the_ping(grader: Grader) -> None:
    assert grader.request("GET", "/run_code")[0] == 405
    assert grader.request("GET", "/v1/ping") == (200, "pong")


def test_limits_above_those_of_the_server_are_refused_with_their_setting(grader: Grader) -> None:
    for fields, setting in (
        ({"run_timeout": 121}, "`runtimes.timeout_ms`"),
        ({"memory_limit_MB": 1025}, "`runtimes.memory_bytes`"),
    ):
        status, answer = grader.post("/run_code", {"code": "1", "language": "python", **fields})
        assert (status, setting in answer["detail"]) == (403, True), answer


def test_bad_padding_and_sql_are_errors_of_the_sandbox(grader: Grader) -> None:
    answer = grader.run("1", files={"a": "abc"})
    assert (answer["status"], answer["message"]) == (
        "SandboxError",
        "a file is not base64: Incorrect padding",
    )
    answer = grader.run("select 1", "sql")
    assert (answer["status"], answer["run_result"], answer["compile_result"]) == ("SandboxError", None, None)
    assert "'sql'" in answer["message"]


def test_statements_test_a_program(grader: Grader) -> None:
    program = "def add(a, b):\n    return a + b\nif __name__ == '__main__':\n    input()\n"
    tests = ["assert add(1, 2) == 3", "assert add(0, 0) == 1", "assert add('a', 'b') == 'ab'"]
    status, answer = grader.post(
        "/test_program", {"program": program, "tests": tests, "max_execution_time": 60}
    )
    assert (status, answer["results"]) == (200, [1, 0, 1])
    assert [seconds > 0 for seconds in answer["runtimes"]] == [True, False, True]
    assert answer["runtimes"][1] == -1


def test_a_program_that_ends_before_its_test_fails_it(grader: Grader) -> None:
    for program in ("import sys; sys.exit(0)", "import os; os._exit(0)", "raise SystemExit"):
        body = {"program": program, "tests": ["assert True"], "max_execution_time": 60}
        assert grader.post("/test_program", body) == (200, {"results": [0], "runtimes": [-1.0]})


def test_inputs_and_outputs_test_a_program(grader: Grader) -> None:
    tests = [
        {"input": "4\n", "output": "2\n0"},
        {"input": ["9"], "output": " 3.00 \n0\n\n"},
        {"input": "2", "output": "2"},
        {"input": "4", "output": "2\n0"},
    ]
    program = "print(sqrt(int(input())))\nprint(defaultdict(int)[1])"
    body = {"program": program, "tests": tests, "max_execution_time": 60}
    status, answer = grader.post("/test_program_stdio", body)
    assert (status, answer["results"]) == (200, [1, 1, 0, 0])


def test_packed_tests_are_unpacked_in_a_sandbox(grader: Grader) -> None:
    def post(tests: str) -> tuple[int, Any]:
        body = {"program": "x = 1", "tests": tests, "max_execution_time": 60}
        return grader.post("/test_program", body)

    def pack(value: object) -> str:
        return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()

    assert post(json.dumps(["assert x == 1"]))[1]["results"] == [1]
    assert post(pack(json.dumps(["assert x == 1", "assert x == 2"])))[1]["results"] == [1, 0]
    written = grader.workspace / "hacked"
    status, answer = post(pack(_Writing(str(written))))
    assert (status, [each["loc"] for each in answer["detail"]]) == (422, [["body", "tests"]])
    assert not written.exists()
    assert post("no tests at all")[0] == 422


@pytest.mark.parametrize(
    ("tests", "fault"),
    [
        pytest.param("[" * 100_000, "there are more than 250000 values or 200 levels", id="levels"),
        pytest.param(f"[{'0,' * 250_000}0]", "there are more than 250000 values or 200 levels", id="values"),
        ('["\\ud800"]', "a string has half of a surrogate pair, which is not Unicode"),
    ],
)
def test_hostile_packed_tests_are_422(grader: Grader, tests: str, fault: str) -> None:
    error = {"type": "value_error", "loc": ["body", "tests"], "msg": f"Value error, {fault}", "input": None}
    for path in ("/test_program", "/test_program_stdio"):
        assert grader.post(path, {"program": "1", "tests": tests}) == (422, {"detail": [error]})


def test_a_body_with_too_many_values_is_413(grader: Grader) -> None:
    status, answer = grader.post("/test_program", {"program": "1", "tests": [0] * 250_001})
    assert (status, answer["detail"]) == (413, "The body has more than 250000 JSON values.")


class _Writing:
    """A pickle that writes a file when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.write_text, (Path(self.path), "x")


def test_cells_share_an_interpreter_and_an_error_does_not_stop_them(grader: Grader) -> None:
    cells = [
        "x = 20",
        "import sys; print('out'); print('err', file=sys.stderr); x + 1",
        "1 / 0",
        "import subprocess; subprocess.run(['echo', 'child']); None",
        "class Bold:\n    def _repr_html_(self): return '<b>b</b>'\n    def __repr__(self): return 'b'\nBold()",
        "open('made', 'w').write(open('given').read());",
        "input()",
    ]
    body = {"cells": cells, "total_timeout": 60, "files": {"given": encode("g")}, "fetch_files": ["made"]}
    status, answer = grader.post("/run_jupyter", body)
    assert (status, answer["status"], answer["driver"]["return_code"]) == (200, "Success", 0), answer
    done = [(cell["stdout"], cell["stderr"], cell["display"]) for cell in answer["cells"]]
    assert done == [
        ("", "", []),
        ("out\n", "err\n", [{"text/plain": "21"}]),
        ("", "", []),
        ("child\n", "", []),
        ("", "", [{"text/plain": "b", "text/html": "<b>b</b>"}]),
        ("", "", []),
        ("", "", []),
    ]
    errors = {number: cell["error"][0] for number, cell in enumerate(answer["cells"], 1) if cell["error"]}
    assert {number: (error["ename"], error["evalue"]) for number, error in errors.items()} == {
        3: ("ZeroDivisionError", "division by zero"),
        7: ("EOFError", "EOF when reading a line"),
    }
    assert errors[3]["traceback"][-1] == "ZeroDivisionError: division by zero"
    assert answer["files"] == {"made": encode("g")}


@pytest.mark.parametrize(
    ("cell", "driver"),
    [
        ("import os; os._exit(5)", ("Finished", 5)),
        ("while True: pass", ("TimeLimitExceeded", None)),
        ("import os\nfor number in range(3, 300):\n    try: os.write(number, b'junk')\n    except OSError: pass",
         ("Finished", 0)),
    ],
)  # fmt: skip
def test_cells_that_end_or_damage_the_interpreter_fail(
    grader: Grader, cell: str, driver: tuple[str, int | None]
) -> None:
    timeout = 3 if driver[1] is None else 60
    status, answer = grader.post("/run_jupyter", {"cells": ["1", cell], "total_timeout": timeout})
    found = answer["driver"]["status"], answer["driver"]["return_code"]
    assert (status, answer["status"], found, answer["cells"], answer["files"]) == (
        200,
        "Failed",
        driver,
        [],
        {},
    )


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
