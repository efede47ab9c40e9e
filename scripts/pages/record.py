"""The ledger: every event, and every fact that a record may hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

from paddock.audit import sink
from paddock.audit.line_format import FORMAT_VERSION
from paddock.audit.sink import AuditRecord
from pages.text import described, spoken, table

SOURCE = Path(__file__).resolve().parents[2] / "src" / "paddock"
_FACTS = "dict[str, Field]"
EVENTS = {
    "asked": "a person is asked whether it may run, and the request waits",
    "answered": "what they said, or that nobody answered",
    "decided": "nothing ran: policy or a person refused it, or it was a rehearsal",
    "started": "the request is claimed, and its engine starts after this",
    "looked": "a program looks which tools a server has, which may be started for that; `status` says if it may",
    "finished": "what became of it",
    "recovered": "the ledger found a record that was cut off, by a crash or a full disk, and says what it dropped",
    "repaired": "a file or directory of Paddock's own could be read by others, or not by its owner; its mode was set",
}
FACTS = {
    "actor": "who asked",
    "surface": "through which door: `cli`, `mcp`, `library`, `guest` for a program's own call, `sequence`, `temporal`",
    "kind": "what was asked for: a program, a call of a server, a method of the SDK, a runtime, a script tool",
    "audit_hash": "SHA-256 over the decision and the identity of the request",
    "rule": "which rule decided",
    "question": "id of a question to a person",
    "call_sha256": "hash of all that would be done after a yes",
    "answer": "the answer",
    "answered_by": "who gave it: a client, a terminal, or `paddock` itself when nobody could",
    "name": "name of the script, of the tool, of the method or of the runtime",
    "prompt": "the prompt that a script tool belongs to",
    "profile": "`script`, `execute` or `compute`",
    "tool": "what a computation is called by other systems",
    "span": "the same, for their traces",
    "jit": "whether V8 could compile",
    "bytes_in": "size of the program, or of the arguments",
    "source_sha256": "hash of the program's text",
    "arguments_sha256": "hash of the arguments, as canonical JSON",
    "content_sha256": "hash of what a runtime was given",
    "script_sha256": "hash of the script of a tool",
    "argument_count": "number of command line arguments",
    "cwd": "working directory, relative to the workspace",
    "executable": "the executable that was asked for",
    "file": "the file that was asked for, relative to the workspace",
    "access": "what it may do with the workspace",
    "network": "what it may reach",
    "status": "how it ended: [statuses](answers.md); `planned` is a call that a rehearsal did not make",
    "code": "the same in the words of computations",
    "ms": "wall time in milliseconds",
    "cpu_ms": "processor time in milliseconds",
    "peak_bytes": "most memory it had",
    "bytes_out": "size of result and console, or of what a computation emitted",
    "calls": "number of its calls",
    "tier": "[tier](confinement.md) of the confinement; missing, like `cpu_ms`, where the caller was cancelled",
    "layers": "what confined it, by layer",
    "phase": "how far a program came: `compile` means that it did not run itself",
    "exit_code": "exit code of the process",
    "signal": "signal that ended it",
    "stdout_bytes": "bytes it wrote to standard output",
    "stderr_bytes": "bytes it wrote to standard error",
    "artifact": "handle of the stored output",
    "cached": "whether a compiled program came out of the cache",
    "compile_ms": "wall time of the compile step, 0 where there is none",
    "survivors": "processes that the kernel had not let die in time; anything but 0 is a fault",
    "limit": "the limit that ended it",
    "reason": "of `recovered`: what had happened",
    "torn_bytes": "of `recovered`: how many bytes were cut off",
    "torn_sha256": "of `recovered`: their hash",
    "path": "of `repaired`: which file or directory",
    "mode_before": "of `repaired`: its mode, in octal digits",
    "mode_after": "of `repaired`: the mode that it has now",
    "violations": "protected paths that it changed, and that were put back",
}
"""What is written about a request, by name. The test that nothing is missing: tests/docs/test_reference.py."""

HEAD = """\
# The record

<!-- Written by scripts/reference.py from src/paddock/app/audit_facts.py; `make check` compares. Change the texts
there or in scripts/pages/record.py. -->

The ledger is a directory of files, one for each UTC day, one line of JSON for each record. The hash of each
record is in the one after it; `paddock audit verify` follows the chain. Records hold names, sizes and hashes. They
never hold a program, its data, its output or a secret.

`paddock audit show ID` and the filters of `paddock audit tail` use an index beside these files, `index.sqlite`. The
reader makes it and brings it up to date; it holds nothing that the files do not hold, and it may be removed at any
time. What is printed is read from the ledger. `verify` does not use the index.

A request runs at most once. Paddock mints the ids of requests itself, with 80 random bits from the kernel. An id that a
caller brings is looked up in the ledger first, and the file `brought` grows by one byte for each of them.

## Events

"""

REQUESTS = """\
A request that runs has two records, `started` and `finished`; one that is refused has `decided`. A record `started`
without its `finished` is a request that was under way when Paddock was killed. A second Ctrl-C or SIGTERM ends Paddock
at once, too, but the requests under way are recorded as `cancelled` first. The `finished` of a program's call is
written with the next record, at most 0.2 s later (`audit.sync = "always"`: at once).
"""


def page() -> str:
    """Return the page."""
    texts = described(AuditRecord)
    members = [("`v`", f"Version of the format, {FORMAT_VERSION}.")]
    members += [(f"`{name}`", spoken(texts[name])) for name in AuditRecord.model_fields if name != "fields"]
    if unlike := facts() ^ set(FACTS):
        raise ValueError(
            f"FACTS of scripts/pages/record.py and the source differ: {', '.join(sorted(unlike))}"
        )
    return HEAD + "\n".join(
        [
            table(("event", "what it means"), [(f"`{name}`", EVENTS[name]) for name in sink.EVENTS]),
            REQUESTS,
            "## Members of every record\n",
            table(("member", "what it is"), members),
            "## Facts\n",
            table(("fact", "what it is"), [(f"`{name}`", text) for name, text in FACTS.items()]),
        ]
    )


def facts() -> set[str]:
    """Return the names of all facts that a record may hold: the keys of every `dict[str, Field]` of the source."""
    return {
        key
        for path in sorted(SOURCE.rglob("*.py"))
        for key in facts_of(ast.parse(path.read_text(encoding="utf-8")))
    }


def facts_of(tree: ast.Module) -> Iterator[str]:
    """Yield the keys that a module gives to such a dictionary, where it is made or returned and later."""
    made = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == _FACTS
    ]
    names = {ast.unparse(node.target) for node in made}
    added = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) in names
    ]
    returned = [
        node
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        and function.returns
        and ast.unparse(function.returns) == _FACTS
        for node in ast.walk(function)
        if isinstance(node, ast.Return)
    ]
    for value in [node.value for node in (*made, *added, *returned) if node.value is not None]:
        yield from (
            key.value
            for given in _dictionaries(value)
            for key in given.keys
            if isinstance(key, ast.Constant) and isinstance(key.value, str)
        )


def _dictionaries(value: ast.expr) -> Iterator[ast.Dict]:
    """Yield a dictionary, or those of which a condition chooses one."""
    if isinstance(value, ast.Dict):
        yield value
    elif isinstance(value, ast.IfExp):
        yield from (*_dictionaries(value.body), *_dictionaries(value.orelse))
    elif isinstance(value, ast.BinOp):
        yield from (*_dictionaries(value.left), *_dictionaries(value.right))
