"""A state directory in which every text that somebody else may choose is one of given strings, made by real programs.

`seed(place, words)` fills a place and keeps its server running. Two seeds with different words have the same runs, calls,
files and questions, so that their pages must have the same elements.

    programs    source, console, result, error and its name; arguments and results of calls; output in bytes; 5 MB lines
    records     names of servers and tools that do not exist, arguments of commands, languages
    files       of outputs, of a session, of change sets (paths, contents, targets of links)
    servers     descriptions, titles, schemas and names of tools; names of servers; one that fails with such a text
    questions   that wait, and that were answered: arguments by name and value
    settings    reasons of rules
"""

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

from tests.support.hostile_strings import LONG_LINE_BYTES
from tests.support.http_api import ApiClient
from tests.support.servers import make_entry, write_servers
from tests.support.web import WebPlace, WebServer

SETTINGS = """\
[record]
payloads = "kept"

[runtimes]
access = "overlay"
timeout_ms = 600000
max_jobs = 4

[serve]
max_jobs = 64

[artifacts]
max_bytes = 67108864

[approvals]
wait_ms = 3600000

[[policy.rule]]
effect = "ask"
tool = "words/ask"
reason = {reason}

[[policy.rule]]
effect = "deny"
tool = "words/tool1"
reason = {reason}

[[policy.rule]]
effect = "allow"
tool = "*/*"
"""
PROGRAM = """\
// {comment}
const word = {word};
console.log(word, {{ [word]: word }});
console.error(word);
const said = await servers.words.echo({{ text: word, [word]: [word] }});
try {{ await servers.words.fail({{ text: word }}); }} catch (error) {{ console.warn(String(error)); }}
const error = new Error(word);
error.name = word;
throw error;
"""
PRINTER = """\
import base64, json, os, sys
words = json.loads(base64.b64decode(sys.argv[1]))
data = [base64.b64decode(each) for each in json.loads(base64.b64decode(sys.argv[2]))]
for file in (sys.stdout.buffer, sys.stderr.buffer):
    for each in (*(word.encode("utf-8", "surrogatepass") for word in words), *data):
        file.write(each + b"\\n")
    file.flush()
"""
FILE_WRITER = """\
import base64, json, sys, pathlib
names, words, files = json.load(sys.stdin)
for number, name in enumerate(names):
    pathlib.Path(name).write_text(words[number % len(words)], encoding="utf-8", errors="replace", newline="")
for name, data in files.items():
    pathlib.Path(name).write_bytes(base64.b64decode(data))
"""
LINK_MAKER = """\
import json, os, sys
for number, word in enumerate(json.load(sys.stdin)):
    os.symlink(word.replace("\\0", "") or "x", f"link{number}")
"""
LIVE_PROGRAM = """\
for file in (sys.stderr.buffer, sys.stdout.buffer):
    file.write(text + b"\\n")
    file.flush()
time.sleep(3600)
"""
LONG_LINE = "import sys; sys.stdout.write(sys.stdin.read() * {times}); sys.stderr.write('x' * {size})"


class Seeds(NamedTuple):
    """What was made."""

    place: WebPlace
    server: WebServer
    words: Sequence[str]
    runs: Mapping[str, str]
    """Ids of runs: `program0` and so on, one for each word, and others by what they show."""
    session: str
    tokens: Mapping[str, str]
    """Tokens of users by their name."""


@contextmanager
def seed(
    place: WebPlace,
    words: Sequence[str],
    names: Sequence[str],
    data: Sequence[bytes],
    files: Mapping[str, bytes],
) -> Iterator[Seeds]:
    """Fill a place with words, names of files, output in bytes and files with content; keep its server running."""
    texts = [word for word in words if word == word.encode("utf-8", "replace").decode()]
    place.settings(SETTINGS.format(reason=json.dumps(" ".join(words[:5]))))
    (place.home / "words.json").write_text(json.dumps(words))
    write_servers(
        place.workspace,
        {
            "words": make_entry("words", place.home / "words.json"),
            "broken": {"command": "sh", "args": ["-c", 'printf "%s" "$0" >&2; exit 3', " ".join(words[:20])]},
        },
    )
    tokens = {name: place.make_token(name, "--approve") for name in ("ann", "bob")}
    with ExitStack() as stack:
        server = stack.enter_context(place.serve_api_with_page())
        owner = stack.enter_context(server.open_api())
        users = {name: stack.enter_context(server.open_api(token)) for name, token in tokens.items()}
        runs = run_programs(owner, words, texts) | run_commands(owner, texts, names, data, files)
        call_unknown(owner, texts)
        session = open_session(owner, names, texts, files)
        runs["live"] = begin_printing(owner, texts)
        ask(users["ann"], users["bob"], texts, answer=True)
        ask(owner, None, texts, answer=False)
        yield Seeds(place, server, words, runs, session, tokens)


def run_programs(client: ApiClient, words: Sequence[str], texts: Sequence[str]) -> dict[str, str]:
    """Run a program for each word, and one that returns all."""
    runs: dict[str, str] = {}
    for number, word in enumerate(words):
        code = PROGRAM.format(comment=json.dumps(word), word=json.dumps(word))
        runs[f"program{number}"] = client.run(language="javascript", code=code)["id"]
    code = "return { all: input, byName: Object.fromEntries(input.map((word) => [word, word])) };"
    everything = client.run(language="javascript", code=code, input=list(texts))
    denied = client.run(language="javascript", code="return await servers.words.tool1({});")
    return {**runs, "result": everything["id"], "denied": denied["id"]}


def run_commands(
    client: ApiClient,
    words: Sequence[str],
    names: Sequence[str],
    data: Sequence[bytes],
    files: Mapping[str, bytes],
) -> dict[str, str]:
    """Run programs of an interpreter: output in bytes, long lines, stored files, and changes of the workspace."""

    def encode(value: object) -> str:
        return base64.b64encode(json.dumps(value).encode()).decode()

    def run(code: str, stdin: bytes = b"", **fields: Any) -> str:
        body = {
            "language": "python",
            "code": code,
            "stdin_base64": base64.b64encode(stdin).decode(),
            **fields,
        }
        outcome = client.run(**body)
        assert outcome["status"] == "ok", outcome
        return outcome["id"]

    encoded = {name: base64.b64encode(each).decode() for name, each in files.items()}
    given = json.dumps([list(names), list(words), encoded]).encode()
    short = [word for word in words if len(word) < 1000]
    arguments = [encode(short), encode([base64.b64encode(each).decode() for each in data])]
    long = words[0].encode("utf-8", "replace") or b"x"
    times = LONG_LINE_BYTES // len(long)
    return {
        "printed": run(PRINTER, args=arguments),
        "long": run(LONG_LINE.format(times=times, size=LONG_LINE_BYTES), long),
        "files": run(FILE_WRITER, json.dumps([[], [], encoded]).encode(), access="none", outputs=["*"]),
        "changes": run(FILE_WRITER, given, access="overlay"),
        "links": run(LINK_MAKER, json.dumps(short).encode(), access="overlay"),
        "arguments": run("", args=["-c", "pass", *(word.replace("\0", "") for word in short[:50])]),
    }


def call_unknown(client: ApiClient, words: Sequence[str]) -> None:
    """Call servers and tools with such names; only the record knows of them afterwards."""
    for number, word in enumerate(filter(None, words)):
        bodies = (
            {"server": "words", "tool": word, "arguments": {word: word}},
            {"server": word, "tool": "echo", "arguments": {}},
            {"kind": "tool", "tool": word},
        )
        client.post("/v1/executions", json=bodies[number % 3])
    client.post("/v1/executions", json={"server": "words", "tool": words[0], "arguments": {}})


def open_session(
    client: ApiClient, names: Sequence[str], words: Sequence[str], files: Mapping[str, bytes]
) -> str:
    """Open a session whose directory has such files, and return its handle."""
    opened = client.post("/v1/sessions", json={"language": "python"})
    assert opened.status_code == 201, opened.text
    handle = opened.json()["id"]
    encoded = {name: base64.b64encode(each).decode() for name, each in files.items()}
    code = FILE_WRITER.replace(
        "json.load(sys.stdin)", f"json.loads({json.dumps(json.dumps([list(names), list(words), encoded]))})"
    )
    outcome = client.run(f"/v1/sessions/{handle}/executions", code=code)
    assert outcome["status"] == "ok", outcome
    return handle


def begin_printing(client: ApiClient, words: Sequence[str]) -> str:
    """Start a program that prints such words and does not end."""
    short = [word for word in words if len(word) < 200][99::-1]
    code = f"import sys, time\ntext = '\\n'.join({short!a}).encode()\n" + LIVE_PROGRAM
    return client.begin(language="python", code=code, timeout_ms=600_000)


def ask(client: ApiClient, other: ApiClient | None, words: Sequence[str], *, answer: bool) -> None:
    """Ask a person about calls with such arguments; `other` answers."""
    for some in (words[at : at + 15] for at in range(0, 60, 15)):
        arguments = {word: word for word in some} | {"text": some[0]}
        id_ = client.begin(server="words", tool="ask", arguments=arguments)
        client.wait_for(id_, lambda state: state.get("question"))
        if answer and other is not None:
            [waiting] = other.get("/v1/approvals").json()["approvals"]
            body = {"verdict": "once"}
            answered = other.post(f"/v1/approvals/{waiting['question']['id']}", json=body)
            assert answered.is_success, answered.text
            client.wait_for_end(id_)
