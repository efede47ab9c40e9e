"""How judged programs run: buffers, stacks, threads, working directories, and limits that show only at the end."""

import asyncio

import pytest

from paddock import Case, Paddock, Program
from paddock.confinement.sandbox.sandbox import KernelSandbox
from paddock.model.outcome import SandboxFacts

MIB = 1024 * 1024
TIERS = ("namespaces", "landlock")
PROBE = "import os; print('PYTHONUNBUFFERED' in os.environ, sorted(os.listdir('.')))"
DEEP = """
#include <stdio.h>
int f(int n) { volatile long b[12]; b[0] = n; return n ? 1 + f(n - 1) + (int)(b[0] & 0) : 0; }
int main(int c, char **v) { (void)v; printf("%d\\n", f(200000 + c - 1)); }
"""
THREADS = """
#include <pthread.h>
#include <stdio.h>
static pthread_barrier_t all;
static void *wait_for_all(void *p) { pthread_barrier_wait(&all); return p; }
int main(void) {
    pthread_t t[100];
    pthread_barrier_init(&all, 0, 101);
    for (int i = 0; i < 100; i++) if (pthread_create(&t[i], 0, wait_for_all, 0)) return 1;
    pthread_barrier_wait(&all);
    for (int i = 0; i < 100; i++) pthread_join(t[i], 0);
    puts("100");
}
"""
REFUSED = {
    "data": '#include <stdio.h>\nstatic char a[1000000000];\nint main(void) { for (long i = 0; i < 1000000000; i += 4096) a[i] = 1; printf("%d\\n", a[0]); }',
    "malloc": '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { int *p = malloc(1500000000); p[0] = 1; printf("%d\\n", p[0]); }',
    "calloc": "#include <stdlib.h>\nint main(void) { for (;;) { char *p = calloc(100000000, 1); p[0] = 1; } }",
    "recursion": "int f(int n) { volatile char b[1000]; b[0] = n; return f(n + 1) + b[0]; }\nint main(void) { return f(0); }",
}


@pytest.fixture(params=TIERS)
def judge(request, tmp_path):
    """Judge programs in a tier, and return their results by id."""

    async def run(programs):
        async with (
            KernelSandbox(SandboxFacts(tier=request.param), request.param) as sandbox,
            Paddock(workspace=tmp_path, sandbox=sandbox) as paddock,
        ):
            return {result.id: result async for result in paddock.map(programs)}

    return lambda *programs: asyncio.run(run(programs))


def program(name, language, code, expect="1", **fields):
    return Program(id=name, language=language, code=code, tests=[Case(expect=expect)], **fields)


def verdicts(results):
    return {name: (str(each.verdict), each.outcome.program.limit) for name, each in results.items()}


def test_a_judged_program_is_buffered_and_alone_in_its_directory(judge):
    results = judge(
        program(
            "python",
            "python",
            "import os; os.mkdir('tmp'); os.mkdir('home')\n" + PROBE,
            expect="False ['home', 'program.py', 'tmp']",
        ),
        program(
            "shell",
            "shell",
            'mkdir program; echo *; case "$HOME $TMPDIR" in "$PWD"/*) echo inside; esac',
            expect="code.sh program",
        ),
    )
    assert verdicts(results) == {"python": ("accepted", None), "shell": ("accepted", None)}


def test_the_stack_is_as_large_as_the_memory_allows_and_threads_have_stacks_of_the_usual_size(judge):
    results = judge(
        program("deep", "c", DEEP, expect="200000"),
        program("threads", "c", THREADS, expect="100", memory_bytes=256 * MIB),
    )
    assert verdicts(results) == {"deep": ("accepted", None), "threads": ("accepted", None)}


def test_a_file_that_is_too_large_is_an_output_limit(judge):
    code = "f = open('a', 'wb')\nwhile 1: f.write(b'x' * 1000000)"
    assert verdicts(judge(program("python", "python", code))) == {"python": ("output_limit", "file_size")}


def test_a_refused_allocation_is_a_memory_limit(judge):
    results = judge(
        *(program(name, "c", code, memory_bytes=256 * MIB) for name, code in REFUSED.items()),
        program("fault", "c", "int main(void) { volatile int *p = 0; *p = 1; }"),
    )
    assert verdicts(results) == {
        **dict.fromkeys(REFUSED, ("memory_limit", "memory")),
        "fault": ("runtime_error", None),
    }


def test_a_program_that_copes_with_a_refused_allocation_is_judged_by_its_output(judge):
    code = (
        "#include <stdio.h>\n#include <stdlib.h>\n"
        'int main(void) { printf("%d\\n", malloc(1500000000) == NULL); int *p = malloc(8); *p = 1; free(p); }'
    )
    assert verdicts(judge(program("copes", "c", code, memory_bytes=256 * MIB))) == {
        "copes": ("accepted", None)
    }


def test_a_peak_above_the_limit_is_a_memory_limit_whoever_saw_it_first(judge):
    results = judge(
        *(
            program(str(n), "python", "a = bytearray(280 << 20); print(1)", memory_bytes=256 * MIB)
            for n in range(3)
        )
    )
    assert verdicts(results) == dict.fromkeys("012", ("memory_limit", "memory"))
    assert all(each.outcome.usage.peak_bytes > 256 * MIB for each in results.values())


def test_a_compile_timeout_has_no_effect_where_nothing_is_compiled(judge):
    results = judge(
        program("python", "python", "print(1)", compile_timeout_ms=600_000),
        program("c", "c", "int main(void) {}", compile_timeout_ms=600_000),
    )
    assert {name: str(each.outcome.status) for name, each in results.items()} == {
        "python": "ok",
        "c": "denied",
    }
    assert (
        results["c"].outcome.error.message == "Requested compile timeout (600000ms) exceeds maximum (30000ms)"
    )


@pytest.mark.parametrize(
    ("end", "kept"), [("raise SystemExit(1)", "out\n"), ("1 / 0", "out\n"), ("os.kill(os.getpid(), 9)", "")]
)
def test_a_buffer_is_written_at_the_exit_and_lost_with_a_kill(judge, end, kept):
    [result] = judge(program("ends", "python", f"import os\nprint('out')\n{end}")).values()
    assert (str(result.verdict), result.outcome.program.stdout.text) == ("runtime_error", kept)


def test_programs_of_unknown_languages_are_answered_first(tmp_path):
    async def run():
        async with Paddock(workspace=tmp_path) as paddock:
            programs = [
                Program(id="runs", language="bash", code="echo 1"),
                Program(id="no", language="pythn", code="print(1)"),
            ]
            return [
                (each.id, str(each.outcome.status)) async for each in paddock.map(programs, max_parallel=1)
            ]

    assert asyncio.run(run()) == [("no", "invalid"), ("runs", "ok")]
