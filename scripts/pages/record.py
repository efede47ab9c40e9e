"""The ledger: every event, and every fact that a record may hold."""

import ast
from collections.abc import Iterator
from pathlib import Path

from paddock.record.ledger import sink
from paddock.record.ledger.line_format import FORMAT_VERSION
from paddock.record.ledger.sink import AuditRecord
from pages.text import described, spoken, table

SOURCE = Path(__file__).resolve().parents[2] / "src" / "paddock"
_FACTS = "dict[str, Field]"
EVENTS = {
    "refused": "a server over HTTP refused requests before policy saw them; one record for each cause and second",
    "asked": "the request waits for a person to allow it",
    "answered": "the person's answer, or that the question expired",
    "decided": "nothing ran: policy or a person refused the request, or it was a rehearsal",
    "started": "the request is claimed; its engine starts after this record",
    "looked": "a program lists the tools of a server, which may start it; `status` says whether policy allows that",
    "connected": "a connection of a program or confined server to a host has ended, or was refused; `parent` is the "
    "program",
    "finished": "the request has ended, with this result",
    "approved": "a person approved a changed definition of a server's tool, or accepted any text of it",
    "revoked": "a replica of [several machines](cluster.md) found that the entry of a token was removed or changed",
    "recovered": "the ledger dropped an incomplete record, left by a crash or a full disk",
    "repaired": "Paddock corrected the mode of one of its own files or directories",
    "archived": "the file of a day was moved to an archive by `paddock audit archive`",
}
FACTS = {
    "actor": "the caller",
    "surface": "the surface: `cli`, `mcp`, `http`, `library`, `sequence`, `temporal` for schedules, `webhook`, "
    "`web` (the page), or `guest` for a program's own call",
    "kind": "the kind of work: `guest` (a JavaScript program), `runtime` (a program in another language), `server` "
    "(a call of a tool), `sdk` (a method of the SDK), `tool` (a script tool), `replay`, or `changes` (accepted, undone "
    "or discarded); other events have kinds such as `connection` and `refusal`",
    "count": "of `refused`: number of requests",
    "actors": "of `refused`: their callers, where they are known; at most 10",
    "languages": "of `refused`: their languages, where they are known; at most 10",
    "audit_hash": "SHA-256 over the decision and the identity of the request",
    "rule": "the rule that decided",
    "reads": "[labels](flow.md) of the result of a call: `private`, `untrusted`",
    "labels": "everything that the run, its session and its client had read at its end",
    "flow": "what a [flow rule](flow.md) did with the call: `mark`, `ask` or `deny`",
    "flow_rule": "the flow rule that decided",
    "flow_sources": "requests that read what the flow rule names; at most 16",
    "flow_evidence": "earlier texts in the arguments: request, encoding or `plain`, and number of characters",
    "question": "id of a question to a person",
    "call_sha256": "hash of the whole action that the question describes",
    "answer": "the person's answer",
    "stopped_by": "who ended the run, if that was another one than its caller: `paddock stop`, the page",
    "answered_by": "source of the answer: a client, a terminal, or `paddock` itself if no person could answer",
    "definition_sha256": "hash of the tool's name and the definition that a person approved",
    "removed": "whether a person approved that the server no longer lists the tool",
    "unstable_text": "whether any text of the tool is accepted from then on",
    "name": "name of the script, of the tool, of the method or of the runtime",
    "method": "the method of a server that was called in place of a tool, such as `resources/read`",
    "prompt": "the prompt that a script tool belongs to",
    "action": "what was done with a [change set](overlay.md): `accept`, `discard` or `undo`",
    "path_count": "number of paths that it wrote",
    "recovered": "`true` if a later command wrote this end, because the process of the request was killed",
    "left": "number of paths that must be named to be accepted",
    "conflicts": "number of paths that were changed meanwhile; if there are any, nothing was written",
    "paths": "the first paths that it wrote",
    "merge": "whether text files that were changed since were merged",
    "repeats": "id of the recorded run that a [replay](replay.md) repeats; empty for a test of a script",
    "against": "of a replay: `recorded` or `live`, which answers its calls",
    "owner": "of a replay: actor of the recorded run, if a person named another one",
    "same": "of a replay: whether it did the same as the recorded run",
    "recording_sha256": "hash of the encrypted [recording](replay.md) of a program",
    "profile": "`script`, `execute` or `compute`",
    "tool": "name of the computation in other systems",
    "span": "id of the computation in traces of other systems",
    "jit": "whether V8 could compile",
    "bytes_in": "size of the program, or of the arguments",
    "source_sha256": "hash of the program's text",
    "arguments_sha256": "hash of the arguments, as canonical JSON",
    "content_sha256": "hash of the input of a runtime",
    "script_sha256": "hash of the script of a tool",
    "argument_count": "number of command line arguments",
    "cwd": "working directory, relative to the workspace",
    "executable": "the requested executable",
    "file": "the requested file, relative to the workspace",
    "file_count": "number of files that a program was given",
    "variables": "names of the environment variables of one program",
    "requirements": "packages that a program asks for",
    "kernel": "kernel of a session, if it is `ipython`",
    "background": "whether the session runs between two programs, too",
    "packages": "packages of the program's environment, each `name==version`",
    "packages_lock": "SHA-256 of the lock of these packages",
    "session": "hash of the handle of a [session](sessions.md); `new` opened one",
    "session_state": "`kept` or `lost`: whether the session still has its variables and files",
    "access": "access to the workspace",
    "directories": "directories beside the workspace, with the access to each",
    "network": "network access",
    "hosts": "the hosts that a program asks for",
    "server": "of `connected`: the confined server that made the connection, which belongs to no request",
    "host": "of `connected`: the host",
    "port": "of `connected`: its port",
    "address": "of `connected`: the address that was connected to",
    "verdict": "of `connected`: `allowed` or `refused`",
    "sent_bytes": "of `connected`: bytes from the program or server to the host",
    "received_bytes": "of `connected`: bytes from the host to the program",
    "status": "[status](answers.md) of the end; `planned` is a call that a rehearsal did not make, `replayed` a "
    "request that [another replica](cluster.md) ran before",
    "replays": "id of that request",
    "code": "the status as an error code of computations",
    "ms": "wall time in milliseconds",
    "queue_ms": "time that it waited for its turn, in milliseconds; missing below 1 ms",
    "claim_sha256": "hash of the caller and the key that were claimed in a cluster",
    "token_sha256": "of `revoked`: hash of the entry, which contains no token",
    "claim_ms": "time that it waited for its claim in a cluster, in milliseconds; missing below 1 ms",
    "cpu_ms": "processor time in milliseconds",
    "peak_bytes": "peak memory in bytes",
    "bytes_out": "size of result and console output, or of a computation's output",
    "calls": "number of its calls",
    "tier": "[tier](confinement.md) of the confinement; missing, like `cpu_ms`, if the caller cancelled the request",
    "layers": "the confinement, by layer",
    "phase": "phase of the end: `compile` means that the program itself did not run",
    "exit_code": "exit code of the process",
    "signal": "signal that ended it",
    "stdout_bytes": "bytes written to standard output",
    "stderr_bytes": "bytes written to standard error",
    "artifact": "handle of the stored output",
    "cached": "whether a compiled program came from the cache",
    "changes": "ID of the change set of a program with the access `overlay`, empty if it changed nothing",
    "changes_method": "how the workspace was overlaid: `overlayfs`, or `copy`",
    "changed": "how many paths were added, modified and deleted",
    "directory_changes": "IDs of the change sets of directories beside the workspace",
    "compile_ms": "wall time of the compile step, 0 where there is none",
    "survivors": "processes that could not be killed in time; any value except 0 is a fault",
    "limit": "the limit that ended the request",
    "reason": "of `recovered` and `refused`: the cause; of `connected`: why it was refused or failed",
    "torn_bytes": "of `recovered`: number of bytes that were dropped",
    "torn_sha256": "of `recovered`: hash of these bytes",
    "path": "of `repaired`: the file or directory",
    "mode_before": "of `repaired`: the mode before, in octal digits",
    "mode_after": "of `repaired`: the mode after, in octal digits",
    "day": "of `archived`: the day, in UTC",
    "folder": "of `archived`: the directory of the archive",
    "file_sha256": "of `archived`: hash of the file of that day",
    "last_seq": "of `archived`: number of the last record until the end of that day",
    "last_hash": "of `archived`: hash of that record, which the next day continues",
    "violations": "protected paths that the program changed and Paddock restored",
}
"""Description of each fact of a record. The test that nothing is missing: tests/docs/test_reference.py."""

HEAD = """\
# The record

<!-- Written by scripts/reference.py from src/paddock/gate/audit_facts.py; `make check` compares. Change the texts
there or in scripts/pages/record.py. -->

The ledger is a directory of files, one for each UTC day, with one record in each line as JSON. Each record
contains the hash of the record before it. `paddock audit verify` checks this chain. Records contain names,
sizes and hashes. They never contain a program, its data, its output or a secret.

`paddock audit show ID` and the filters of `paddock audit tail` use an index beside these files,
`index.sqlite`. The reader creates and updates it. The index contains nothing that the files do not contain,
and you may delete it at any time. The printed records come from the ledger files. `verify` does not use the
index.

A request is claimed at most once. Paddock creates the ids of requests itself, with 80 random bits from the kernel.
If a caller supplies an id, Paddock searches the ledger for it first. The file `brought` grows by one byte for
each such id.

`paddock audit archive` moves old days to [an archive](operations.md#retention). `verify` continues the chain with
their `archived` records.

Several machines can share [one record](cluster.md#one-record-of-all-replicas), with signed checkpoints. Each machine
keeps its own ledger as described here.

## Events

"""

REQUESTS = """\
A request that runs has two records, `started` and `finished`. A refused request has `decided`. A record
`started` without `finished` means that Paddock was killed while the request ran. If it accepted or undid changes, the
next command for that workspace finishes or undoes the rest, and writes `finished` with `recovered`. A second
Ctrl-C or SIGTERM also ends Paddock at once, but running requests are recorded as `cancelled` first. The `finished`
of a program's call is written with the next record, at most 0.2 s later (`audit.sync = "always"`: at once).
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
