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

| library | package | images | approvals | structured content | notes |
|---|---|---|---|---|---|
"""
FEET = """
* **images**: an image in the result of a tool arrives as an image.
* **approvals**: the library passes a question for the user to the program that uses it. With the others the call ends
  as `waiting`, and the user [answers in a terminal](approvals.md#from-another-terminal).
* **structured content**: the data of an answer arrive with its text or instead of it. Every native tool except
  `call_tool` declares [all fields of its answers](mcp-tools.md), including those of failures.

Arguments of the native tools are in snake case. Camel case is accepted too (`timeoutMs` is `timeout_ms`), and `null`
means that an argument was not given. No argument has a name that one of these libraries reserves.

## Connect and call

Each program starts `paddock serve mcp` in the current directory, which is the workspace, and prints the result 42.
Libraries connect to a server that listens ([`paddock serve mcp --http`](agents.md#serve)) by its URL, with the header
`Authorization: Bearer TOKEN`.
"""


def page() -> str:
    """Return the page."""
    libraries = tomllib.loads((PINS / "libraries.toml").read_text(encoding="utf-8"))["library"]
    return HEAD + "\n".join(rows(libraries)) + "\n" + FEET + "".join(map(example, libraries))


def rows(libraries: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of the table."""
    for each in libraries:
        package = f"`{each['package']}` {version(each['environment'], each['package'])}"
        marks = " | ".join("yes" if each[name] else "no" for name in ("images", "approvals", "structured"))
        yield f"| {each['name']} | {package} | {marks} | {each.get('note', '')} |"


def example(library: dict[str, Any]) -> str:
    """Return the section with the program that connects with a library and calls a tool."""
    script = library["script"]
    code = (PINS / "examples" / script).read_text(encoding="utf-8")
    return f"\n### {library['name']}\n\n```{'js' if script.endswith('.mjs') else 'python'}\n{code}```\n"


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
