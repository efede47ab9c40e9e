"""Every tool that agents see, as an MCP client is told of it."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mcp import Client, StdioServerParameters

HEAD = """\
# MCP tools

<!-- Written by scripts/reference.py: it asks `paddock serve mcp` as a client; `make check` compares.
Change the descriptions in src/paddock/surfaces/mcp_server. -->

`run_program` can keep variables and files from one call to the next: [sessions](sessions.md).

This page lists the tools of `paddock serve mcp`. After them the server lists the enabled [script
tools](tools.md) of the workspace. `--tool-names compat` lists [the names of other systems](compat.md)
instead.

The first word of an answer's text is its [status](answers.md), and so is `status` in its data. `call_tool`,
`compute` and script tools return their result unchanged, and begin with the status only after a failure.
`isError` is true for every status except `ok`. It is false for a call with the status `waiting`, which waits for [a
person](approvals.md#from-another-terminal).

Paddock checks the arguments before it runs anything. Camel case is accepted too (`timeoutMs` for
`timeout_ms`), and `null` means that an argument was not given.

"""
_PADDOCK = Path(sys.executable).with_name("paddock")


def page() -> str:
    """Return the page."""
    native, prompts = asked("default")
    index = "".join(f"| [`{tool['name']}`](#{tool['name']}) | {tool['description']} |\n" for tool in native)
    parts = ["| tool | what it is for |\n|---|---|\n" + index, *(section(tool, "##") for tool in native)]
    parts += [
        "## Prompts\n",
        "| prompt | arguments | what it is for |\n|---|---|---|\n" + "".join(prompted(prompts)),
    ]
    return HEAD + "\n".join(parts)


def asked(names: str) -> tuple[list[Any], list[Any]]:
    """Return the tools and prompts that a server lists with `--tool-names`."""
    with TemporaryDirectory() as place:
        return asyncio.run(listed(place, names))


async def listed(place: str, names: str) -> tuple[list[Any], list[Any]]:
    """Return the tools and prompts that a server in an empty workspace lists."""
    command = ["serve", "mcp", "--workspace", place, "--tool-names", names]
    environment = {"HOME": place, "PATH": "/usr/bin:/bin"}
    server = StdioServerParameters(command=str(_PADDOCK), args=command, env=environment)
    # By itself the library uses an older revision when the server is slow to start, and orders members otherwise.
    async with Client(server, mode="2026-07-28") as client:
        tools, prompts = await client.list_tools(), await client.list_prompts()
    return [plain(tool) for tool in tools.tools], [plain(prompt) for prompt in prompts.prompts]


def plain(entry: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever the protocol's library makes of it
    """Return an entry of a listing as it was sent. The library puts `type` at a place that depends on the revision."""
    told = entry.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {
        name: {"type": part.pop("type"), **part} if name in {"inputSchema", "outputSchema"} else part
        for name, part in told.items()
    }


def section(tool: dict[str, Any], mark: str) -> str:
    """Return what is told of a tool."""
    notes = [name.removesuffix("Hint") for name, on in tool.get("annotations", {}).items() if on]
    told = f"{mark} `{tool['name']}` {{#{tool['name']}}}\n\n{tool['description']}\n"
    if notes:
        told += f"\nAnnotations: {', '.join(notes)}.\n"
    told += f"\nArguments:\n\n```json\n{json.dumps(tool['inputSchema'], indent=2)}\n```\n"
    if "outputSchema" in tool:
        told += f"\nAnswer:\n\n```json\n{json.dumps(tool['outputSchema'], indent=2)}\n```\n"
    return told


def prompted(prompts: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the rows of prompts."""
    for prompt in prompts:
        names = ", ".join(f"`{argument['name']}`" for argument in prompt.get("arguments", []))
        yield f"| `{prompt['name']}` | {names} | {prompt['description']} |\n"
