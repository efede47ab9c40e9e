"""Paddock's server with the tools and prompts that the official conformance suite wants to find; prints its port.

Its argument is a directory of its own. As one of several replicas, it also gets the address of a database, a file of keys
and the port of the balancer.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import uvicorn
from conformance_asking import ONLY_TASKS, TASK_AFTER_S, ask, asking_tools, task_tools
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.uri_template import UriTemplate

from paddock.cluster.peers import find_peers
from paddock.gate.cluster import Cluster, open_cluster
from paddock.gate.question_directory import QuestionDirectory
from paddock.gate.questions import FileQuestions
from paddock.model.outcome import ConsoleLine
from paddock.policy.settings.schema import Settings
from paddock.surfaces.http_api.forwarding import Forwarding
from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send
from paddock.surfaces.http_server.entry import HOP_KEY, TENANT_KEY, HttpEntry, OneToken
from paddock.surfaces.http_server.hosts import HostNames
from paddock.surfaces.mcp_server.client_questions import Context, ElicitationRounds
from paddock.surfaces.mcp_server.http.app import PROBE_PATHS, Probes, build_application
from paddock.surfaces.mcp_server.list_changes import ChangeNotifier
from paddock.surfaces.mcp_server.output_resources import UnknownResourceError
from paddock.surfaces.mcp_server.pending_calls import FETCH_TOOLS, PendingCalls
from paddock.surfaces.mcp_server.prompts import UnknownPromptError
from paddock.surfaces.mcp_server.prompts_resources import PromptsAndResources
from paddock.surfaces.mcp_server.protocol import build_protocol_server
from paddock.surfaces.mcp_server.requests import InFlightRequests
from paddock.surfaces.mcp_server.tasks import Tasks, require_extension
from paddock.surfaces.mcp_server.toolbox import (
    Arguments,
    Inquire,
    McpCaller,
    McpTool,
    ToolAnswer,
    Toolbox,
    object_schema,
    text_block,
)
from paddock.surfaces.tenants.refusals import Refusals
from paddock.testing.fakes import MemoryAudit

TOKEN = "correct-horse-battery-staple"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
RICH = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

HEADER = object_schema(["region"], region={"type": "string", "x-mcp-header": "Region"})

IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
TEXT_RESOURCE = {
    "uri": "test://embedded-resource",
    "mimeType": "text/plain",
    "text": "This is an embedded resource content.",
}
MIXED_RESOURCE = {
    "uri": "test://mixed-content-resource",
    "mimeType": "application/json",
    "text": json.dumps({"test": "data", "value": 123}),
}

URI = {"name": "resourceUri", "description": "An address", "required": True}
TEMPLATE = "test://template/{id}/data"
RESOURCES: dict[str, dict[str, Any]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
}

CONTENT: dict[str, list[dict[str, Any]]] = {
    "test_simple_text": [text_block("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": SILENCE, "mimeType": "audio/wav"}],
    "test_embedded_resource": [{"type": "resource", "resource": TEXT_RESOURCE}],
    "test_multiple_content_types": [
        text_block("Multiple content types test:"),
        IMAGE,
        {"type": "resource", "resource": MIXED_RESOURCE},
    ],
}


def constant(name: str, content: list[dict[str, Any]]) -> McpTool:
    async def run(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        return ToolAnswer(content)

    return McpTool(name, name, f"Gives {name}.", NO_ARGUMENTS, run)


async def fail(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
    text = "This tool intentionally returns an error for testing"
    return ToolAnswer([text_block(text)], is_error=True)


async def progress(_arguments: Arguments, caller: McpCaller) -> ToolAnswer:
    for percent in (0, 50, 100):
        if caller.on_console is not None:
            caller.on_console(ConsoleLine(level="log", text=f"{percent} %"))
        await asyncio.sleep(0.05)
    return ToolAnswer([text_block("done")])


async def logging(_arguments: Arguments, caller: McpCaller) -> ToolAnswer:
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        if caller.on_console is not None:
            caller.on_console(ConsoleLine(level="info", text=text))
        await asyncio.sleep(0.05)
    return ToolAnswer([text_block("done")])


async def greet(arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
    return ToolAnswer([text_block(f"Hello, {arguments['name']}!")])


async def reconnect(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
    await asyncio.sleep(0.5)
    return ToolAnswer([text_block("the stream was resumed")])


async def prepare_call(context: Context, call_next: CallNext) -> HandlerResult:
    """Do before a call what the suite expects of its tool, and what no tool of Paddock does."""
    name = (context.params or {}).get("name") if context.method == "tools/call" else None
    if name in ONLY_TASKS:
        require_extension(context)
    if name == "test_reconnection" and context.close_sse_stream is not None:
        await context.close_sse_stream()
    return await call_next(context)


async def rich(arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
    return ToolAnswer([text_block(json.dumps(dict(arguments)))])


class FixturePrompts:
    """Prompts of the suite."""

    def list_entries(self) -> list[dict[str, Any]]:
        arguments = [
            {"name": name, "description": "An argument", "required": True} for name in ("arg1", "arg2")
        ]
        return [
            {"name": "test_simple_prompt", "description": "Says one thing."},
            {"name": "test_prompt_with_arguments", "description": "Says two things.", "arguments": arguments},
            {"name": "test_prompt_with_embedded_resource", "description": "Shows.", "arguments": [URI]},
            {"name": "test_prompt_with_image", "description": "Shows an image."},
            {"name": "test_input_required_result_prompt", "description": "Asks."},
        ]

    async def build_messages(
        self, name: str, arguments: Any, inquire: Inquire | None
    ) -> list[dict[str, Any]]:
        match name:
            case "test_simple_prompt":
                said = [text_block("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                one, two = arguments.get("arg1"), arguments.get("arg2")
                said = [text_block(f"Prompt with arguments: arg1='{one}', arg2='{two}'")]
            case "test_prompt_with_embedded_resource":
                resource = {**TEXT_RESOURCE, "uri": arguments.get("resourceUri")}
                said = [{"type": "resource", "resource": resource}, text_block("Process the resource above.")]
            case "test_prompt_with_image":
                said = [IMAGE, text_block("Analyze the image above.")]
            case "test_input_required_result_prompt":
                context = await ask(
                    inquire, "user_context", "What context should the prompt use?", context="string"
                )
                said = [text_block(f"Context: {context}")]
            case _:
                raise UnknownPromptError(name)
        return [{"role": "user", "content": each} for each in said]

    def complete_argument(self, _argument: str, begun: str) -> list[str]:
        return [word for word in ("paris", "park", "party") if word.startswith(begun)]


class FixtureResources:
    """Resources of the suite."""

    async def list_page(self, _cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        return [
            {"uri": uri, "name": uri, "mimeType": each["mimeType"]} for uri, each in RESOURCES.items()
        ], None

    def list_templates(self) -> list[dict[str, Any]]:
        return [{"uriTemplate": TEMPLATE, "name": "template", "mimeType": "application/json"}]

    async def read_resource(self, uri: str, _client: str = "") -> dict[str, Any]:
        if uri in RESOURCES:
            return {"uri": uri, **RESOURCES[uri]}
        if found := UriTemplate.parse(TEMPLATE).match(uri):
            text = json.dumps(
                {"id": found["id"], "templateTest": True, "data": f"Data for ID: {found['id']}"}
            )
            return {"uri": uri, "mimeType": "application/json", "text": text}
        raise UnknownResourceError("there is no such resource")

    async def complete_argument(self, _template: str, _argument: str, begun: str, _given: Any) -> list[str]:
        return [word for word in ("paris", "park", "party") if word.startswith(begun)]


async def main(directory: Path, replica: list[str]) -> None:
    announcer = ChangeNotifier()
    changed = directory.parent / "changed"
    """Replicas watch what they have in common, as those of a server do."""
    seen = ""

    async def change(_arguments: Arguments, _caller: McpCaller) -> ToolAnswer:
        changed.write_text(uuid4().hex)
        await watch()
        return ToolAnswer([text_block("changed")])

    async def watch() -> None:
        nonlocal seen
        before, seen = seen, changed.read_text() if changed.exists() else ""
        if seen != before:
            await announcer.announce_tools()

    tools = [
        *(constant(name, content) for name, content in CONTENT.items()),
        McpTool("test_error_handling", "Fails", "Always fails.", NO_ARGUMENTS, fail),
        McpTool("test_tool_with_progress", "Reports", "Reports progress.", NO_ARGUMENTS, progress),
        McpTool("test_tool_with_logging", "Logs", "Logs.", NO_ARGUMENTS, logging),
        McpTool("test_logging_tool", "Logs", "Logs.", NO_ARGUMENTS, logging),
        McpTool("test_trigger_tool_change", "Changes", "Says that tools changed.", NO_ARGUMENTS, change),
        McpTool("test_reconnection", "Reconnects", "Loses its stream.", NO_ARGUMENTS, reconnect),
        *asking_tools(),
        *task_tools(),
        McpTool("json_schema_2020_12_tool", "Rich", "Tool with JSON Schema 2020-12 features", RICH, rich),
        McpTool("test_header_parameter", "Header", "Takes a header.", HEADER, rich),
        McpTool("greet", "Greets", "Greets.", object_schema(["name"], name={"type": "string"}), greet),
    ]
    rounds = ElicitationRounds(
        60_000,
        PendingCalls(FileQuestions(QuestionDirectory(directory / "approvals")), FETCH_TOOLS["default"]),
    )
    offers = PromptsAndResources(FixturePrompts(), FixtureResources())
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    fronts = [f"{name}:{front}" for front in replica[2:] for name in ("127.0.0.1", "localhost")]
    names = HostNames.of(("127.0.0.1", "localhost"), port, fronts)
    settings = read_settings(port, *replica[:2]) if replica else Settings()
    async with open_cluster(settings) as cluster:
        mark = "" if cluster is None else cluster.node.mark
        tasks = Tasks(rounds, TASK_AFTER_S.get, mark)
        server = build_protocol_server(Toolbox(tools), offers, rounds, announcer, mark, tasks=tasks)
        server.middleware.append(prepare_call)
        app = build_application(server, InFlightRequests())
        if cluster is not None:
            cluster.repeat("changes", watch, pause_s=0.05)
            app = pass_on(app, settings, cluster)
        callers = OneToken(TOKEN, Refusals(MemoryAudit(), None))
        probes = Probes(app, lambda: "ok\n")
        app = add_token(HttpEntry(app, callers, names, public=probes, public_paths=PROBE_PATHS))
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="on")).serve(sockets=[listener])


def read_settings(port: int, database: str, key_file: str) -> Settings:
    node = {"node": f"r{port}", "node_url": f"http://127.0.0.1:{port}", "key_file": key_file}
    return Settings.model_validate({"cluster": {"url": database, **node}})


def add_token(app: App) -> App:
    """Return an application that gives requests the token, which the suite does not send."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope.get("headers", ())
        if all(name != b"authorization" for name, _ in headers):
            scope = {**scope, "headers": [*headers, (b"authorization", b"Bearer " + TOKEN.encode())]}
        await app(scope, receive, send)

    return answer


def pass_on(app: App, settings: Settings, cluster: Cluster) -> App:
    """Return an application that passes on what another replica has, as that of `paddock serve http` does."""
    peers = find_peers(settings.cluster, cluster.database, cluster.node.mark)
    cluster.repeat("the leases of other replicas are not read", peers.replicas.refresh)
    forwarding = Forwarding(peers, InFlightRequests(), lambda _tenant, _id: False)
    forwarded = forwarding.wrap_mcp(app)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
        else:
            with forwarding.accept_hop(scope) as hop:
                await forwarded({**scope, HOP_KEY: hop, TENANT_KEY: None}, receive, send)

    return answer


asyncio.run(main(Path(sys.argv[1]), sys.argv[2:]))
