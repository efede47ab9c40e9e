"""Resources and prompts of upstream servers: the methods of the protocol that a program may call besides tools.

`servers.NAME.resources` and `servers.NAME.prompts` call them. Rules and the record name a method as they name a tool:
`NAME/resources/read`. A method has no schema and no pin, so that its parameters and its answer are checked here.
"""

import json
import re
from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from paddock.model.base import Json, count, kind
from paddock.model.errors import InvalidArguments, ServerUnavailable
from paddock.model.invisible import has_invisible, spell_invisible, spell_invisible_in_json
from paddock.model.numbers import dumps, loads

Capability = Literal["resources", "prompts"]
"""What a server may declare besides tools."""


class ServerMethod(NamedTuple):
    """One method."""

    capability: Capability
    member: str
    """The member of the answer that is its value."""
    key: str
    """The member by which an entry of a list is named; empty for a method that does not list."""
    parameters: str
    """What a program passes, as TypeScript."""
    entry: str
    """The members of each object in the value, as TypeScript."""
    beside: str = ""
    """Members of the answer beside those objects; with some, the value is an object with them, not an array."""

    def declare(self, name: str, entry: str) -> str:
        """Return a declaration of the method `name`, as TypeScript; `entry` is the type of the objects in its value."""
        value = f"{{ {self.beside} {self.member}: {entry}[] }}" if self.beside else f"{entry}[]"
        return f"{name}({self.parameters}): Promise<{value}>;"


METHODS: Mapping[str, ServerMethod] = {
    "resources/list": ServerMethod(
        capability="resources",
        member="resources",
        key="uri",
        parameters="",
        entry="uri: string; name: string; title?: string; description?: string; mimeType?: string; size?: number; "
        "annotations?: any; icons?: any; _meta?: any;",
    ),
    "resources/read": ServerMethod(
        capability="resources",
        member="contents",
        key="",
        parameters="uri: string | { uri: string }",
        entry="uri: string; mimeType?: string; text?: string; blob?: string; _meta?: any;",
    ),
    "prompts/list": ServerMethod(
        capability="prompts",
        member="prompts",
        key="name",
        parameters="",
        entry="name: string; title?: string; description?: string; "
        "arguments?: { name: string; description?: string; required?: boolean }[]; icons?: any; _meta?: any;",
    ),
    "prompts/get": ServerMethod(
        capability="prompts",
        member="messages",
        key="",
        parameters="name: string, args?: Record<string, string>",
        entry='role: "user" | "assistant"; content: any;',
        beside="description?: string;",
    ),
}


def list_methods(capability: str) -> dict[str, ServerMethod]:
    """Return the methods of what a server declares, by the names in a program; none for other capabilities."""
    return {name.partition("/")[2]: each for name, each in METHODS.items() if each.capability == capability}


def list_declarations(capability: str) -> list[str]:
    """Return what a program may call of what a server declares, as TypeScript; nothing for other capabilities."""
    return [each.declare(name, f"{{ {each.entry} }}") for name, each in list_methods(capability).items()]


MAX_URI_CHARS = 8_192
_URI_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s\x00-\x1f\x7f]+")
"""An absolute URI (RFC 3986, 3), as far as it matters: the server judges the rest."""
_MAX_SHOWN_CHARS = 100


class MethodResult(NamedTuple):
    """What a method returned."""

    value: Json
    warnings: tuple[str, ...] = ()
    """What is missing from the value, and what was changed in it."""


def name_method(server: str, method: str) -> str:
    """Return a method as a program calls it, such as `notes.resources.read`."""
    return f"{server}.{method.replace('/', '.')}"


def check_parameters(server: str, method: str, params: Mapping[str, Json]) -> None:
    """Raise InvalidArguments for an unknown method, and for parameters that no server accepts."""
    if fault := _find_fault(method, params):
        raise InvalidArguments(spell_invisible(f"{name_method(server, method)} was not called: {fault}."))


def _find_fault(method: str, params: Mapping[str, Json]) -> str:
    match method:
        case "resources/list" | "prompts/list":
            return "it takes no arguments" if params else ""
        case "resources/read":
            uri = params.get("uri")
            if not isinstance(uri, str):
                return f"its argument must be a URI, or a resource link with one, not {kind(uri)}"
            if len(uri) > MAX_URI_CHARS:
                return f"the URI has {len(uri)} characters, and at most {MAX_URI_CHARS} are sent"
            if not _URI_PATTERN.fullmatch(uri) or has_invisible(uri):
                return f"{json.dumps(uri[:_MAX_SHOWN_CHARS], ensure_ascii=False)} is not a URI, such as file:///notes.md"
            return ""
        case "prompts/get":
            name, given = params.get("name"), params.get("arguments", {})
            if not isinstance(name, str) or not name:
                return f"its first argument must be the name of a prompt, not {kind(name)}"
            if not isinstance(given, dict):
                return f"the arguments of a prompt must be an object, not {kind(given)}"
            for key, value in cast("dict[str, Json]", given).items():
                if not isinstance(value, str):
                    return f"the argument `{key[:_MAX_SHOWN_CHARS]}` of a prompt must be a string, not {kind(value)}"
            return ""
        case _:
            known = ", ".join(METHODS)
            return f"programs may call these methods: {known}"


def read_answer(server: str, method: str, answer: Json) -> MethodResult:
    """Return the value of the answer to a method. Raises ServerUnavailable if the answer breaks the protocol."""
    found, fields = METHODS[method], cast("dict[str, Json]", answer) if isinstance(answer, dict) else {}
    listed = fields.get(found.member)
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in cast("list[Json]", listed)):
        text = f"Server {server} sent no complete answer: `{found.member}` of {method} is not an array of objects."
        raise ServerUnavailable(text, sent=True)
    entries = cast("list[dict[str, Json]]", listed)
    if found.key:
        return _read_list(found, entries)
    if method == "resources/read":
        return MethodResult(entries)
    about = fields.get("description")
    described = {"description": spell_invisible(about)} if isinstance(about, str) else {}
    return MethodResult({**described, "messages": entries})


def _read_list(method: ServerMethod, entries: list[dict[str, Json]]) -> MethodResult:
    """Return the entries of a list that can be named. Models read descriptions: what hides in them is spelled out."""
    named = [each for each in entries if _is_visible(each.get(method.key))]
    warnings: list[str] = []
    if left_out := len(entries) - len(named):
        are = f"{count(left_out, method.capability[:-1])} {'is' if left_out == 1 else 'are'} left out"
        warnings.append(f"{are}: without a `{method.key}`, or with invisible characters in it")
    text = dumps(named, ensure_ascii=False)
    if has_invisible(text):
        named = cast("list[dict[str, Json]]", loads(spell_invisible_in_json(text)))
        warnings.append("invisible characters in descriptions are spelled out")
    return MethodResult(named, tuple(warnings))


def _is_visible(name: Json) -> bool:
    return isinstance(name, str) and name != "" and not has_invisible(name)
