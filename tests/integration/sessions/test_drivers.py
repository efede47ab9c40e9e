"""Programs that change what the driver of their session runs on: options, traps, functions, streams."""

from pathlib import Path

import pytest

from paddock import BlockingPaddock, Outcome

PATIENT = {"runtimes": {"timeout_ms": 120_000}}
SHORT_MS = 400
KEPT = "ok", "kept"
SHADOWED = [
    "alias",
    "cd",
    "declare",
    "echo",
    "eval",
    "exec",
    "exit",
    "local",
    "printf",
    "read",
    "set",
    "shopt",
    "source",
    "trap",
    "unset",
]
SHADOWS = "; ".join(
    f"{name}() {{ builtin echo '{name}'; }}" for name in SHADOWED if name not in ("exit", "echo")
)


def run_each(workspace: Path, language: str, programs: list[str]) -> list[tuple[str, str, str]]:
    """Return status, state of the session and output of programs that run one after another in a session."""

    def look(outcome: Outcome) -> tuple[str, str, str]:
        assert outcome.session is not None
        return outcome.status.value, outcome.session.state, outcome.text

    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session(language) as s:
        return [look(s.run(program)) for program in programs]


SHELL = {
    "trace": [
        ("set -x; echo a", (*KEPT, "++ echo a\na\n")),
        ("echo b", (*KEPT, "++ echo b\nb\n")),
        ("set +x", (*KEPT, "++ set +x\n")),
        ("echo c", (*KEPT, "c\n")),
    ],
    "trace in the output": [
        ("BASH_XTRACEFD=1; set -x; echo a", (*KEPT, "++ echo a\na\n")),
        ("echo b", (*KEPT, "++ echo b\nb\n")),
    ],
    "verbose": [("set -v", (*KEPT, "")), ("echo a\necho b", (*KEPT, "a\necho b\nb\n"))],
    "errexit": [
        ("set -eo pipefail; x=5", (*KEPT, "")),
        ("false; echo no", ("failed", "kept", "")),
        ("echo $x; false | true; echo no", ("failed", "kept", "5\n")),
    ],
    "noglob": [("set -f; set -C; set +B", (*KEPT, "")), ("echo * {a,b} $-", (*KEPT, "* {a,b} fhC\n"))],
    "separators": [
        ("IFS=0123456789", (*KEPT, "")),
        ("x=a1b; echo $x", (*KEPT, "a b\n")),
        ("readonly IFS LC_ALL", (*KEPT, "")),
        ("echo on", (*KEPT, "on\n")),
    ],
    "functions": [
        (SHADOWS, (*KEPT, "")),
        ("printf a; eval b; cd /", (*KEPT, "printf\neval\ncd\n")),
        ("builtin exit 3", ("failed", "kept", "")),
        ("read a; trap; builtin unset -f read", (*KEPT, "read\ntrap\n")),
    ],
    "builtin": [
        ("builtin() { echo mine; }; x=5", (*KEPT, "")),
        ("builtin echo", (*KEPT, "mine\n")),
        ("exit 3", ("failed", "kept", "")),
        ("builtin echo; echo $x; unset -f builtin; builtin echo a", (*KEPT, "mine\n5\na\n")),
    ],
    "no functions": [
        ("unset -f $(compgen -A function) 2>/dev/null", ("failed", "kept", "")),
        ("echo on", (*KEPT, "on\n")),
    ],
    "aliases": [
        (
            f"shopt -s expand_aliases; alias {' '.join(f'{name}=false' for name in SHADOWED)} builtin=false",
            (*KEPT, ""),
        ),
        (r"\builtin \echo on", (*KEPT, "on\n")),
        (r"\exit 3", ("failed", "kept", "")),
        (r"\echo on; \unalias -a", (*KEPT, "on\n")),
    ],
    "traps": [
        ("trap 'echo failed' ERR; trap 'echo debug >&2' DEBUG", (*KEPT, "")),
        ("trap - DEBUG; false", ("failed", "kept", "debug\nfailed\n")),
        ("trap - ERR; false", ("failed", "kept", "")),
    ],
    "exit trap": [
        ("trap 'echo bye' EXIT", (*KEPT, "")),
        ("exit 3", ("failed", "kept", "")),
        ("echo on", (*KEPT, "on\n")),
    ],
    "exit trap of the same program": [("trap 'echo bye' EXIT; exit 3", ("failed", "lost", "bye\n"))],
    "loops": [
        ("x=5; break", (*KEPT, "")),
        ("echo $x; continue 7; echo no", (*KEPT, "5\n")),
        ("for i in 1 2; do break; done; echo $i", (*KEPT, "1\n")),
    ],
    "declarations": [("declare -A m=([a]=b)", (*KEPT, "")), ("echo ${m[a]}", (*KEPT, "b\n"))],
    "directories": [
        ("mkdir d; cd d; TMPDIR=/none; unset PATH PWD", (*KEPT, "")),
        ("exit 3", ("failed", "kept", "")),
        ("PATH=/bin; basename $(pwd)", (*KEPT, "d\n")),
    ],
    "nothing is executed": [("echo on; set -n", ("ok", "lost", "on\n"))],
}


@pytest.mark.parametrize("what", SHELL)
def test_a_session_of_bash_stays_after(workspace: Path, what: str) -> None:
    programs, ends = zip(*SHELL[what], strict=True)
    assert run_each(workspace, "shell", list(programs)) == list(ends)


def test_output_of_node_after_an_interrupt(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("node") as s:
        for stream in ("log", "error"):
            outcome = s.run(f"for (;;) console.{stream}('again')", timeout_ms=SHORT_MS)
            assert outcome.session is not None
            assert (outcome.status.value, outcome.session.state) == ("timeout", "kept")
            assert outcome.text.endswith("\nError: Script execution was interrupted by `SIGINT`\n")
            assert s.run("console.log('next')").text == "next\n"


NODE = [
    ("process.stdout.write('a'); process.stderr.write(new Uint8Array([66])); undefined", (*KEPT, "aB")),
    ("process.stdout.write('Yw==', 'base64')", (*KEPT, "ctrue\n")),
    ("await new Promise((done) => process.stdout.write('d', done))", (*KEPT, "d")),
    ("require('stream').Readable.from(['x', 'y']).pipe(process.stdout); await 1", (*KEPT, "xy1\n")),
    ("try { process.stdout.write(5) } catch (error) { error.name }", (*KEPT, "'TypeError'\n")),
]


def test_writing_in_node(workspace: Path) -> None:
    programs, ends = zip(*NODE, strict=True)
    assert run_each(workspace, "node", list(programs)) == list(ends)
