"""Correct programs over tools of real servers, and what becomes of them by one mistake.

The programs are in `tests/typed_programs/programs.txt`. A mutation changes one place of one of them.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paddock.engines.servers.calls.call_checks import make_aliases
from paddock.engines.types.check import CheckedText
from paddock.engines.types.declarations import DeclaredServer, DeclaredTool

ROOT = Path(__file__).resolve().parents[2]
PUBLISHED = json.loads((ROOT / "benchmarks/discovery/tools.json").read_text())["servers"]
CLASSES = (
    "wrong tool", "misspelt argument", "missing argument", "wrong type", "wrong enum", "missing await", "misspelt result",
)  # fmt: skip
Definitions = Mapping[str, Mapping[str, Any]]
"""By server and tool: its entry in a list of tools."""


class TypedProgram(NamedTuple):
    """A program of the corpus."""

    name: str
    text: str

    @property
    def compiler_text(self) -> CheckedText:
        """The program as the compiler gets it. The parser does this for others, for example about `export`."""
        text = self.text.replace("export default async function", "             async function")
        language = "typescript" if self.name.endswith(".ts") else "javascript"
        return CheckedText(text, self.text, language)


class Mutation(NamedTuple):
    """A program with one mistake."""

    mistake: str
    program: TypedProgram


def read_programs() -> list[TypedProgram]:
    """Return the correct programs."""
    parts = re.split(
        r"^=== (.+)\n", (ROOT / "tests/typed_programs/programs.txt").read_text(), flags=re.MULTILINE
    )
    return [TypedProgram(name, text) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


def read_published(*servers: str) -> dict[str, dict[str, Any]]:
    """Return the tools that real servers publish, by server and tool."""
    return {server: {tool["name"]: tool for tool in PUBLISHED[server]["tools"]} for server in servers}


def declare(definitions: Definitions, text: str) -> list[DeclaredServer]:
    """Return the servers as the gate declares them to a check: whole where a program names a tool."""
    servers: list[DeclaredServer] = []
    for server, tools in definitions.items():
        aliases = {name: alias for alias, name in make_aliases(tools).items()}
        declared: list[DeclaredTool] = []
        for name, tool in tools.items():
            names = (name, *([aliases[name]] if name in aliases else []))
            named = any(re.search(rf"\b{re.escape(each)}\b", text) for each in names)
            schemas = (tool["inputSchema"], tool.get("outputSchema")) if named else (None, None)
            declared.append(DeclaredTool(names, *schemas))
        servers.append(DeclaredServer(server, tuple(declared) if server in text else None))
    return servers


_CALL_PATTERN = re.compile(r"servers\.(\w+)\.(\w+)\(")
_MEMBER_PATTERN = re.compile(r"([\w$]+): ((?:\"[^\"]*\"|`[^`]*`|-?\d+|true|false|\[[^\[\]{}]*\]))(?=[,\s}])")


def list_mutations(definitions: Definitions) -> list[Mutation]:
    """Return every mutation of the corpus, in its order."""
    return [each for program in read_programs() for each in _mutate(program, definitions)]


def choose(mutations: list[Mutation], count: int) -> list[Mutation]:
    """Return `count` mutations, by turns of each class, spread over the programs."""
    by_class = {name: [each for each in mutations if each.mistake == name] for name in CLASSES}
    chosen: list[Mutation] = []
    for left in range(len(CLASSES), 0, -1):
        name = min(by_class, key=lambda each: len(by_class[each]))
        found, share = by_class.pop(name), (count - len(chosen)) // left
        step = max(len(found) / share, 1)
        chosen += [found[int(n * step)] for n in range(min(share, len(found)))]
    return chosen


def _mutate(program: TypedProgram, definitions: Definitions) -> Iterator[Mutation]:
    text = program.text

    def change(mistake: str, start: int, end: int, new: str) -> Mutation:
        return Mutation(mistake, program._replace(text=text[:start] + new + text[end:]))

    for number, call in enumerate(_CALL_PATTERN.finditer(text)):
        server, tool = call.groups()
        if tool in {"call", "callRaw"} or server not in definitions:
            continue
        wrong = _misspell(tool, number)
        yield change("wrong tool", call.start(2), call.end(2), wrong)
        found = definitions[server]
        definition = found.get(tool) or found[make_aliases(found)[tool]]
        members = _MEMBER_PATTERN.finditer(text, call.end(), _find_end(text, call.end()))
        yield from _mutate_arguments(change, members, text, definition["inputSchema"], number)
        yield from _mutate_result(change, text, call, definition.get("outputSchema"))


def _mutate_arguments(change, members, text, schema, number):
    for member in members:
        name, value = member.groups()
        property_schema = schema.get("properties", {}).get(name)
        if property_schema is None:
            continue
        yield change("misspelt argument", member.start(1), member.end(1), _misspell(name, number))
        if name in schema.get("required", ()):
            rest = re.compile(r",\s*").match(text, member.end())
            yield change("missing argument", member.start(), rest.end() if rest else member.end(), "")
        if "enum" in property_schema:
            yield change("wrong enum", member.start(2), member.end(2), '"other"')
        elif isinstance(property_schema.get("type"), str):
            other = "12" if value[0] in '"`' else '"twelve"'
            yield change("wrong type", member.start(2), member.end(2), other)


def _mutate_result(change, text, call, schema):
    before = text[: call.start()]
    bound = re.search(r"(?:const|let) (\w+)(?:: \w+)? = await $", before)
    destructured = re.search(r"(?:const|let) \{ (\w+)[^=]*\} = await $", before)
    uses = list(re.compile(rf"\b{bound[1]}(?:\.(\w+)| of\b)").finditer(text, call.end())) if bound else []
    if (bound and uses) or destructured:
        yield change("missing await", call.start() - len("await "), call.start(), "")
    members = (schema or {}).get("properties", {})
    place = next((use for use in uses if use[1] in members), None)
    if place is not None:
        yield change("misspelt result", place.start(1), place.end(1), _misspell(place[1], 0))
    elif destructured and destructured[1] in members:
        start, end = destructured.span(1)
        yield change("misspelt result", start, end, _misspell(destructured[1], 0))


def _find_end(text: str, start: int) -> int:
    """Return the offset of the parenthesis that closes a call."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    raise AssertionError("a call of the corpus is not closed")


def _misspell(name: str, number: int) -> str:
    """Return a name as a model gets it wrong: in the other case, or with a letter less."""
    camel = re.sub(r"_(\w)", lambda match: match[1].upper(), name)
    snake = re.sub(r"([A-Z])", lambda match: f"_{match[1].lower()}", name)
    other = camel if camel != name else snake
    return other if number % 2 and other != name else name[:-2] + name[-1:] if len(name) > 3 else f"{name}s"
