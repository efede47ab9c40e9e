"""The client libraries that tests connect with, and what each can."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PINS = Path(__file__).resolve().parents[2] / "tests" / "client_libraries"
HEAD = """\
# Client libraries

<!-- Written by scripts/reference.py from tests/client_libraries; `make check` compares. -->

The tests connect each of these libraries to `paddock serve mcp`, over stdio and over HTTP. They list the tools, run a
program in JavaScript and one in Python, call a tool of another server, and answer a question as its user.

| library | package | images | approvals | structured content | sessions over stdio | notes |
|---|---|---|---|---|---|---|
"""
FEET = """
* **images**: an image in the result of a tool arrives as an image.
* **approvals**: the library passes a question for the user to the program that uses it. With the others the call ends
  as `waiting`, and the user [answers in a terminal](approvals.md#from-another-terminal).
* **structured content**: the data of an answer arrive with its text or instead of it. Every native tool except
  `call_tool` declares [all fields of its answers](mcp-tools.md), including those of failures.
* **sessions over stdio**: all calls reach one process, so that a session of `run_program` or `execute_code` lives from
  call to call. The others start a process for each call, and [need another way](#keep-sessions-over-stdio).

Arguments of the native tools are in snake case. Camel case is accepted too (`timeoutMs` is `timeout_ms`), and `null`
means that an argument was not given. No argument has a name that one of these libraries reserves.

## Connect and call

Each program starts `paddock serve mcp` in the current directory, which is the workspace, and prints the result 42.
Libraries connect to a server that listens ([`paddock serve mcp --http`](agents.md#serve)) by its URL, with the header
`Authorization: Bearer TOKEN`.
"""
SESSIONS = """
## Keep sessions over stdio

A [session](sessions.md) lives in the process of Paddock that opened it. LangChain's `get_tools()`, LlamaIndex
and AutoGen's `mcp_server_tools` start a process for each call over stdio, so that the handle of a session is unknown
to the next call:

```text
The session is lost: the process of Paddock that had it has ended. Nothing ran.
```

Over HTTP ([`paddock serve mcp --http`](agents.md#serve)) all libraries keep sessions. Over stdio, LangChain and AutoGen
can keep one process open; LlamaIndex cannot.
"""


def page() -> str:
    """Return the page."""
    libraries = tomllib.loads((PINS / "libraries.toml").read_text(encoding="utf-8"))["library"]
    shown = "".join(example(each["name"], each["script"]) for each in libraries)
    kept = "".join(
        example(f"{each['name']}: one process for all calls", each["session_script"])
        for each in libraries
        if "session_script" in each
    )
    return HEAD + "\n".join(rows(libraries)) + "\n" + FEET + shown + SESSIONS + kept


def rows(libraries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table."""
    for each in libraries:
        package = f"`{each['package']}` {version(each['environment'], each['package'])}"
        marks = " | ".join(
            "yes" if each[name] else "no" for name in ("images", "approvals", "structured", "sessions")
        )
        yield f"| {each['name']} | {package} | {marks} | {each.get('note', '')} |"


def example(title: str, script: str) -> str:
    """Return the section with a program of a library."""
    code = (PINS / "examples" / script).read_text(encoding="utf-8")
    return f"\n### {title}\n\n```{'js' if script.endswith('.mjs') else 'python'}\n{code}```\n"


def version(environment: str, package: str) -> str:
    """Return the version of a package that is pinned."""
    if environment == "npm":
        packages = json.loads((PINS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
        return packages[f"node_modules/{package}"]["version"]
    pins = (PINS / f"{environment}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(package)}(?:\[[^]]*\])?==([^ ]+)", pins, re.MULTILINE)
    if found is None:
        raise ValueError(f"{environment}.txt does not pin {package}")
    return found[1]
