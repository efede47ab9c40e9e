"""Programs that change what the driver of their session runs on: options, traps, functions, streams."""

import re
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
    "verbose": [("set -v", (*KEPT, "")), ("echo a\necho b", (*KEPT, "echo a\na\necho b\nb\n"))],
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


STATUSES = {
    "a failure": [("false", ("failed", "kept", "")), ("echo $?; echo $?", (*KEPT, "1\n0\n"))],
    "an exit": [("exit 3", ("failed", "kept", "")), ("echo $?", (*KEPT, "3\n"))],
    "errexit": [
        ("set -e; false", ("failed", "kept", "")),
        ("echo $?; (exit 4)", ("failed", "kept", "1\n")),
        ("echo $?", (*KEPT, "4\n")),
    ],
    "nounset": [("set -u", (*KEPT, "")), ("(exit 5)", ("failed", "kept", "")), ("echo $?", (*KEPT, "5\n"))],
    "trace": [
        ("set -x; (exit 6)", ("failed", "kept", "++ exit 6\n")),
        ("echo $?", (*KEPT, "++ echo 6\n6\n")),
    ],
    "traps": [
        ("trap 'echo debug' DEBUG; trap 'echo err' ERR", (*KEPT, "debug\n")),
        ("(exit 7)", ("failed", "kept", "debug\nerr\n")),
        ("echo $?", (*KEPT, "debug\n7\n")),
    ],
    "functions": [
        ("builtin() { :; }; exit() { :; }; return() { :; }; (command false)", ("failed", "kept", "")),
        ("echo $?", (*KEPT, "1\n")),
    ],
}


@pytest.mark.parametrize("what", STATUSES)
def test_the_status_of_the_last_program_in_bash(workspace: Path, what: str) -> None:
    programs, ends = zip(*STATUSES[what], strict=True)
    assert run_each(workspace, "shell", list(programs)) == list(ends)


def test_bash_counts_the_lines_of_the_program(workspace: Path) -> None:
    programs = [
        "echo a\necho b\nnosuchcmd",
        "\ncat << END\n$LINENO\nEND\necho $LINENO",
        "f() {\n  nosuchcmd\n}",
        "f",
        "trap 'echo $LINENO' ERR; set -uo pipefail",
        "\n\nfalse",
        "\necho $unset",
        "echo $LINENO\n\nif",
    ]
    texts = [re.sub(r"\S*/code\.sh", "code.sh", text) for *_, text in run_each(workspace, "shell", programs)]
    assert texts == [
        "a\nb\ncode.sh: line 3: nosuchcmd: command not found\n",
        "2\n5\n",
        "",
        "code.sh: line 2: nosuchcmd: command not found\n",
        "",
        "3\n",
        "code.sh: line 2: unset: unbound variable\n",
        "1\ncode.sh: eval: line 4: syntax error: unexpected end of file\n",
    ]


REDECLARED = [
    ("const rows = JSON.parse('bad')", "SyntaxError: Unexpected token 'b', \"bad\" is not valid JSON"),
    ("rows", "ReferenceError: rows is not defined"),
    ("const rows = [1]; rows", "[ 1 ]\n"),
    ("let rows = null.x", "TypeError: Cannot read properties of null (reading 'x')"),
    ("rows", "[ 1 ]\n"),
    ("rows = 2", "TypeError: Assignment to constant variable."),
    ("let rows = 3; rows++; rows", "4\n"),
    ("var rows = 7; rows", "7\n"),
    (
        "const { rows, list: [first, ...rest], more = 8 } = { rows: 1, list: [2, 3] }; [rows, first, rest, more]",
        "[ 1, 2, [ 3 ], 8 ]\n",
    ),
    ("const { rows } = null", "TypeError: Cannot destructure property 'rows' of 'null' as it is null."),
    ("[rows, first]", "[ 1, 2 ]\n"),
    ("rows++", "TypeError: Assignment to constant variable."),
    ("{ let rows = 9; rows++; console.log(rows) }", "10\n"),
    ("later; const later = 1", "ReferenceError: Cannot access 'later' before initialization"),
    ("later", "ReferenceError: later is not defined"),
    ("const slow = await Promise.resolve(11); slow", "11\n"),
    ("const slow = 12; slow", "12\n"),
    ("const crypto = require('crypto'); typeof crypto.createHash", "'function'\n"),
    ("class named {}; named", "[class named]\n"),
    ("function named() { return 5 }\nnamed()", "5\n"),
    ("const named = () => 6; named()", "6\n"),
    ("let empty; empty", ""),
    ("let twice; let twice", "SyntaxError: Identifier 'twice' has already been declared"),
    ("export const shared = 13; shared", "13\n"),
]
IMPORTED = [
    ("import fs from 'fs'; typeof fs.readFileSync", "'function'\n"),
    (
        'import { readFileSync as read, existsSync } from "node:fs"\ntypeof read + typeof existsSync',
        "'functionfunction'\n",
    ),
    ("import * as os from 'os'; import 'path'\ntypeof os.cpus", "'function'\n"),
    ("import path, { join } from 'path'; path.join === join", "true\n"),
    ("import path, * as all from 'path'; all.default === path", "true\n"),
    (
        "import { nope } from 'fs'",
        "SyntaxError: The requested module 'fs' does not provide an export named 'nope'",
    ),
    ("import own, { value } from './own.mjs'; [own, value]", "[ 2, 1 ]\n"),
    ("import data from './data.json' with { type: 'json' }; data", "{ a: 1 }\n"),
    (
        "import {\n  join as a,\n  sep\n} from 'path'\nnull.x",
        "TypeError: Cannot read properties of null (reading 'x')",
    ),
]


STANDARD = [
    ("const _ = { a: 1 }", ""),
    ("5", "5\n"),
    ("_.a", "1\n"),
    ("const Buffer = 3, process = 4, Error = 5, Object = 6, String = 7; Buffer", "3\n"),
    ("class Map {}; new Map()", "Map {}\n"),
    ("console.log([process]); let Reflect = 8; Reflect", "[ 4 ]\n8\n"),
    ("const Set = 9, globalThis = 10; [Set, globalThis]", "[ 9, 10 ]\n"),
    ("nope", "ReferenceError: nope is not defined"),
]
"""Names of the language and of node, which the driver needs as well."""


@pytest.mark.parametrize(
    "programs", [REDECLARED, IMPORTED, STANDARD], ids=["declarations", "imports", "standard names"]
)
def test_names_in_sessions_of_node(workspace: Path, programs: list[tuple[str, str]]) -> None:
    files = {"own.mjs": "export const value = 1; export default 2", "data.json": '{"a": 1}'}

    def look(outcome: Outcome) -> str:
        return outcome.text if outcome.ok or outcome.error is None else outcome.error.message

    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("node", files=files) as s:
        assert [look(s.run(program)) for program, _ in programs] == [end for _, end in programs]


def test_lines_after_an_import_in_node(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=PATIENT) as p, p.session("node") as s:
        outcome = s.run("import {\n  join\n} from 'path'\n\nnull.x")
        assert outcome.error is not None
        assert outcome.error.line == 5


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
