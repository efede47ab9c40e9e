"""Verdicts on real programs: in each family of languages, for each end, by each comparison."""

import pytest

from paddock import Checker

SUMS = {
    "python": "print(sum(map(int, input().split())))",
    "c": '#include <stdio.h>\nint main() { long a, b; scanf("%ld %ld", &a, &b); printf("%ld\\n", a + b); return 0; }',
    "cpp": "#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << a + b << std::endl; }",
    "java": "import java.util.Scanner;\npublic class Main { public static void main(String[] args) { "
    "Scanner in = new Scanner(System.in); System.out.println(in.nextLong() + in.nextLong()); } }",
    "rust": "use std::io::*;\nfn main() { let mut text = String::new(); stdin().read_to_string(&mut text).unwrap();\n"
    'println!("{}", text.split_whitespace().map(|word| word.parse::<i64>().unwrap()).sum::<i64>()); }',
    "node": "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number); console.log(a + b)",
}
COMPILED = ("c", "cpp", "java", "rust")
TESTS = (("1 2", "3"), ("20 22\n", "42\n"), ("1 1", "3"))


@pytest.mark.parametrize("language", SUMS)
def test_every_case_has_a_verdict_in_its_order(batch, language):
    result = batch.judge(SUMS[language], *TESTS, language=language)
    assert [(case.verdict.value, case.message) for case in result.tests] == [
        ("accepted", ""),
        ("accepted", ""),
        ("wrong_answer", "line 1 differs"),
    ]
    assert (result.verdict.value, result.ok) == ("wrong_answer", False)
    assert result.outcome == result.tests[2].outcome


@pytest.mark.parametrize("language", COMPILED)
def test_a_program_is_compiled_once_for_all_its_cases(batch, language):
    result = batch.judge(f"{SUMS[language]}\n// once", *TESTS, language=language)
    programs = [case.outcome.program for case in result.tests]
    assert [(program.cached, program.compile_ms > 0) for program in programs] == [
        (False, True),
        (True, False),
        (True, False),
    ]


@pytest.mark.parametrize("language", COMPILED)
def test_a_compile_error_is_that_of_every_case(batch, language):
    result = batch.judge("int main( {", *TESTS, language=language)
    assert [case.verdict.value for case in result.tests] == ["compile_error"] * 3
    assert result.outcome.program.phase == "compile"
    assert result.outcome.program.stderr.text


def test_a_compiler_has_limits_of_its_own(batch):
    slow = 'fn main() { println!("3"); } // ' + "x" * 1000
    result = batch.judge(slow, ("", "3"), language="rust", timeout_ms=PATIENT, memory_bytes=16 << 20)
    assert result.verdict.value == "accepted"
    assert result.tests[0].outcome.program.compile_ms > 0


PATIENT = 60_000


@pytest.mark.parametrize("language", ["python", "node", "typescript"])
def test_a_syntax_error_of_an_interpreted_language_is_a_runtime_error(batch, language):
    assert batch.verdicts("int main( {", ("", ""), language=language) == ["runtime_error"]


@pytest.mark.parametrize(
    ("code", "verdict", "fields"),
    [
        ("while True: pass", "time_limit", {"timeout_ms": 300}),
        ("import time; time.sleep(3600)", "time_limit", {"timeout_ms": 300}),
        ("while True: pass", "time_limit", {"cpu_ms": 200}),
        ("data = bytearray(300 << 20)", "memory_limit", {"memory_bytes": 64 << 20}),
        ("while True: print('x' * 1000)", "output_limit", {"output_bytes": 100_000}),
        (
            "import sys\nwhile True: print('x' * 1000, file=sys.stderr)",
            "output_limit",
            {"output_bytes": 100_000},
        ),
        ("print(3); exit(1)", "runtime_error", {}),
        ("import os; print(3, flush=True); os.kill(os.getpid(), 9)", "runtime_error", {}),
        ("print(3); raise ValueError", "runtime_error", {}),
        ("print(4)", "wrong_answer", {}),
        ("pass", "wrong_answer", {}),
        ("print(3)", "accepted", {}),
        ("print('x' * 100_001)", "output_limit", {"output_bytes": 100_000}),
    ],
)
def test_each_end_has_its_verdict(batch, code, verdict, fields):
    assert batch.verdicts(code, ("", "3"), **fields) == [verdict]


def test_output_of_the_size_of_its_limit_is_compared(batch):
    assert batch.verdicts("print('x' * 99_999)", ("", "x" * 99_999), output_bytes=100_000) == ["accepted"]


def test_right_output_is_accepted_though_the_input_was_not_read(batch):
    assert batch.verdicts("print(3)", ("x" * 500_000, "3")) == ["accepted"]


def test_output_is_compared_before_secrets_are_removed_and_shown_without_them(batch):
    secret = "password=hunter2-hunter2-hunter2"
    key = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    result = batch.judge("print(input())", (key, key), (secret, secret))
    assert result.verdict.value == "accepted"
    assert key not in result.model_dump_json()


def test_a_case_has_limits_of_its_own(batch):
    code = "if input() == 'wait':\n while True: pass\nprint(3)"
    tests = [
        {"stdin": "wait", "expect": "3", "timeout_ms": 300, "name": "slow"},
        {"stdin": "go", "expect": "3", "name": "quick"},
    ]
    result = batch.judge(code, tests=tests)
    assert [(case.name, case.verdict.value) for case in result.tests] == [
        ("slow", "time_limit"),
        ("quick", "accepted"),
    ]
    assert result.verdict.value == "time_limit"


def test_the_first_failure_may_be_the_last_case(batch):
    tests = (("1", "1"), ("2", "3"), ("3", "3"))
    assert batch.verdicts("print(input())", *tests, stop_on_failure=True) == ["accepted", "wrong_answer"]
    assert batch.verdicts("print(input())", *tests) == ["accepted", "wrong_answer", "accepted"]


@pytest.mark.parametrize(
    ("how", "verdicts"),
    [
        ("lines", ["accepted", "wrong_answer", "wrong_answer"]),
        ("exact", ["wrong_answer", "wrong_answer", "wrong_answer"]),
        ("tokens", ["accepted", "accepted", "wrong_answer"]),
        ("float", ["accepted", "accepted", "accepted"]),
    ],
)
def test_the_comparison_is_chosen(batch, how, verdicts):
    code = "print(input().replace('/', '\\n'))"
    tests = (("1 2  ", "1 2"), ("1/2", "1 2"), ("1.0000001 2", "1 2"))
    assert batch.verdicts(code, *tests, compare=how) == verdicts


CHECKER = """
import sys
given, expected, actual = (open(name).read() for name in sys.argv[1:])
if sorted(actual.split()) != sorted(expected.split()):
    print("not the same numbers as", given.strip())
    sys.exit(1)
"""


def test_a_checker_judges_instead_of_a_comparison(batch):
    checker = Checker(language="python", code=CHECKER)
    result = batch.judge("print(*input().split()[::-1])", ("1 2", "1 2"), ("3 4", "3 5"), checker=checker)
    assert [(case.verdict.value, case.message) for case in result.tests] == [
        ("accepted", ""),
        ("wrong_answer", "not the same numbers as 3 4"),
    ]


def test_a_checker_is_not_asked_about_a_program_that_failed(batch):
    checker = Checker(language="python", code="")
    assert batch.verdicts("print(3); exit(2)", ("", ""), checker=checker) == ["runtime_error"]


@pytest.mark.parametrize(
    ("language", "code"),
    [("python", "exit(2)"), ("python", "import os; os.abort()"), ("c", "int main( {"), ("no-such", "")],
)
def test_a_checker_that_fails_is_no_fault_of_the_program(batch, language, code):
    result = batch.judge("print(3)", ("", "3"), checker=Checker(language=language, code=code))
    assert result.verdict.value == "internal"
    assert result.tests[0].message.startswith("the checker failed: ")


def test_a_language_that_cannot_run_is_no_wrong_answer(batch):
    result = batch.judge("1", ("", "3"), executable="python9.99")
    assert (result.verdict.value, result.outcome.status.value) == ("internal", "denied")
    assert batch.judge("1", ("", "3"), language="no-such").verdict.value == "internal"


def test_a_verdict_about_the_program_outweighs_others(batch):
    checker = "import sys\nsys.exit(2 if open('input').read() == 'odd' else 1)"
    result = batch.judge(
        "print(3)", ("odd", "3"), ("even", "3"), checker=Checker(language="python", code=checker)
    )
    assert [case.verdict.value for case in result.tests] == ["internal", "wrong_answer"]
    assert result.verdict.value == "wrong_answer"


def test_only_the_ends_of_long_output_are_kept(batch):
    result = batch.judge("print('x' * 1_000_000)", ("", "x" * 1_000_000))
    stdout = result.outcome.program.stdout
    assert (result.verdict.value, stdout.total_bytes) == ("accepted", 1_000_001)
    assert len(stdout.head + stdout.tail) == 8 * 1024
