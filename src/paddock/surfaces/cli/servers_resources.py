"""`paddock servers resources|prompts`: what upstream servers offer besides tools. Policy and the ledger apply."""

from pathlib import Path
from typing import Never, cast

import click

from paddock.model.base import Json
from paddock.model.request import ExecutionRequest, ServerCall
from paddock.policy.settings.loader import load
from paddock.surfaces.cli import completions, options
from paddock.surfaces.cli.folding import print_note
from paddock.surfaces.cli.help import render_examples
from paddock.surfaces.cli.opening import find_actor
from paddock.surfaces.cli.run_request import execute_and_exit
from paddock.surfaces.cli.table import print_output, print_table
from paddock.surfaces.cli.variables import read_input
from paddock.surfaces.rendering import render


@click.command(
    "resources",
    epilog=render_examples(
        "paddock servers resources notes", "paddock servers resources notes file:///notes.md --json"
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.argument("uri", required=False)
@options.workspace
@options.settings
@options.as_json
def resources(server: str, uri: str | None, workspace: Path, flags: dict[str, str], *, as_json: bool) -> None:
    """List the resources of a server, or print the one with this URI. Starts the server.

    Texts are printed. Use --json for binary contents, which are base64.
    """
    if uri is None:
        _send(server, "resources/list", {}, workspace, flags, as_json=as_json)
    _send(server, "resources/read", {"uri": uri}, workspace, flags, as_json=as_json)


@click.command(
    "prompts",
    epilog=render_examples(
        "paddock servers prompts notes", 'paddock servers prompts notes greet \'{"who": "Ada"}\' --json'
    ),
)
@click.argument("server", shell_complete=completions.servers)
@click.argument("prompt", required=False)
@click.argument("args", metavar="[JSON|@FILE|-]", required=False)
@options.workspace
@options.settings
@options.as_json
def prompts(
    *,
    server: str,
    prompt: str | None,
    args: str | None,
    workspace: Path,
    flags: dict[str, str],
    as_json: bool,
) -> None:
    """List the prompts of a server, or print the messages of one with its arguments. Starts the server."""
    if prompt is None:
        _send(server, "prompts/list", {}, workspace, flags, as_json=as_json)
    settings = load(workspace, flags=flags).settings
    values: object = {} if args is None else read_input(args, settings.limits.execute, "execute", "JSON")
    if not isinstance(values, dict):
        raise click.BadParameter("must be a JSON object", param_hint="JSON")
    params: dict[str, Json] = {"name": prompt, "arguments": cast("dict[str, Json]", values)}
    _send(server, "prompts/get", params, workspace, flags, as_json=as_json)


def _send(
    server: str,
    method: str,
    params: dict[str, Json],
    workspace: Path,
    flags: dict[str, str],
    *,
    as_json: bool,
) -> Never:
    """Send a method, print its value, and exit."""
    work = ServerCall(server=server, tool=method, arguments=params, is_method=True)
    request = ExecutionRequest(actor=find_actor(), surface="cli", workspace=workspace, work=work)
    settings = load(workspace, flags=flags).settings
    execute_and_exit(request, settings, as_json=as_json, print_value=_PRINTERS.get(method))


def _print_resources(value: Json) -> None:
    rows = [(each["uri"], _text(each, "mimeType"), _text(each, "description")) for each in value]
    print_table(("uri", "type", "description"), rows, empty="the server lists no resources")


def _print_contents(value: Json) -> None:
    for each in value:
        if isinstance(text := each.get("text"), str):
            print_output(text)
        else:
            print_note(f"{_text(each, 'uri')}: binary contents; --json prints them as base64")


def _print_prompts(value: Json) -> None:
    rows = [(each["name"], _list_arguments(each), _text(each, "description")) for each in value]
    print_table(("prompt", "arguments", "description"), rows, empty="the server lists no prompts")


def _print_messages(value: Json) -> None:
    for each in value["messages"]:
        content: Json = each.get("content")
        text: Json = cast("dict[str, Json]", content).get("text") if isinstance(content, dict) else None
        shown = text if isinstance(text, str) else render.value_text(content)
        print_output(f"{_text(each, 'role')}: {shown}")


_PRINTERS = {
    "resources/list": _print_resources,
    "resources/read": _print_contents,
    "prompts/list": _print_prompts,
    "prompts/get": _print_messages,
}
"""How a person sees what each method returns."""


def _text(entry: dict[str, Json], name: str) -> str:
    """Return a member of an entry as one line; empty if it is no string."""
    value = entry.get(name)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _list_arguments(prompt: dict[str, Json]) -> str:
    listed: Json = prompt.get("arguments")
    each_listed = cast("list[Json]", listed) if isinstance(listed, list) else []
    return ", ".join(
        _text(cast("dict[str, Json]", each), "name") for each in each_listed if isinstance(each, dict)
    )
