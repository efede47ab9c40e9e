"""Help authors of tools: create a working directory, and list the faults of an existing one."""

import errno
import json
import os
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

from paddock.engines.script_tools import manifest as manifests
from paddock.engines.script_tools.library import MANIFEST_NAME, ScriptToolError, inside, load, read_inside
from paddock.engines.script_tools.manifest import ManifestError

SUFFIXES = {"python": ".py", "node": ".mjs", "shell": ".sh"}
"""Runtimes for a new tool, and the suffix of its script."""
OWN_TOOLS = frozenset(
    (
        *("execute_code", "call_tool", "search_tools", "describe_tools", "provision_server"),
        *("run_program", "query_output", "compute"),
    )
)
"""Tools of Paddock itself (docs/mcp-tools.md); they take precedence over script tools with the same name."""

_MANIFEST = """\
id: {id}
name: {id}
description: Counts the words of a text.
runtime: {runtime}
script: script{suffix}
timeout: 10000
execution:
  trigger: schema_match
  confirm: false
"""
_SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string", "description": "The text whose words are counted."}},
    "required": ["text"],
}
_SCRIPTS = {
    "python": """\
import json, sys

inputs = json.load(sys.stdin)
print(json.dumps({"words": len(inputs["text"].split())}))
""",
    "node": """\
import { readFileSync } from "node:fs";

const inputs = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ words: inputs.text.split(/\\s+/).filter(Boolean).length }));
""",
    "shell": """\
# The inputs are one line of JSON. A shell reads them with a tool such as jq; this one counts words all the same.
words=$(tr -s '[:space:]' '\\n' | grep -c .)
echo "{\\"words\\": $words}"
""",
}


class ToolFinding(NamedTuple):
    """A fault of a tool."""

    severity: Literal["error", "warning"]
    text: str


def create(folder: Path, name: str, runtime: str) -> Path:
    """Create a working tool, and return its directory.

    Raises ValueError for an invalid id, FileExistsError for an existing one (case is ignored), and OSError if it cannot
    be written completely: then nothing of it remains.
    """
    suffix = SUFFIXES[runtime]
    text = _MANIFEST.format(id=name, runtime=runtime, suffix=suffix)
    try:
        read = manifests.read(text).id
    except ManifestError as problem:
        raise ValueError(f"{name!r} is not the id of a tool ({problem})") from None
    if read != name:  # YAML removes quotes, tags, spaces and comments
        raise ValueError(f"{name!r} is not the id of a tool (as YAML it is {read!r})")
    folder.mkdir(parents=True, exist_ok=True)
    for other in folder.iterdir():
        if other.name.lower() == name.lower():  # ids ignore case: one of the two would never run
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(other))
    directory = folder / name
    directory.mkdir()
    try:
        (directory / MANIFEST_NAME).write_text(text, encoding="utf-8")
        (directory / "schema.json").write_text(json.dumps(_SCHEMA, indent=2) + "\n", encoding="utf-8")
        (directory / "description.md").write_text("Counts the words of a text.\n", encoding="utf-8")
        (directory / f"script{suffix}").write_text(_SCRIPTS[runtime], encoding="utf-8")
    except OSError:
        shutil.rmtree(directory, ignore_errors=True)
        raise
    return directory


def findings(directory: Path, runtimes: Collection[str]) -> list[ToolFinding]:
    """Return the faults of a tool's directory; its runtime must be one of `runtimes`. Nothing is run."""
    try:
        tool = load(directory)
    except ScriptToolError as problem:
        return [ToolFinding("error", str(problem))]
    manifest = tool.manifest
    found: list[ToolFinding] = []
    try:
        # `Path` would raise for a name that is too long.
        if not os.path.isfile(inside(directory, manifest.script)):
            found.append(ToolFinding("error", f"Script not found: {manifest.script}"))
        folder = manifest.working_dir
        if folder is not None and not os.path.isdir(inside(directory, folder)):
            found.append(ToolFinding("error", f"Working directory not found: {folder}"))
    except ScriptToolError as problem:
        found.append(ToolFinding("error", str(problem)))
    if manifest.runtime != "auto" and manifest.runtime not in runtimes:
        message = (
            f"{MANIFEST_NAME}: there is no runtime {manifest.runtime}; there are auto, {', '.join(runtimes)}"
        )
        found.append(ToolFinding("error", message))
    unknown = manifests.unknown_fields(read_inside(directory, MANIFEST_NAME))
    found += [ToolFinding("warning", f"{MANIFEST_NAME}: unknown field `{name}`") for name in unknown]
    if manifest.id.lower() != directory.name.lower():
        found.append(
            ToolFinding("warning", f"{MANIFEST_NAME}: id {manifest.id} is not the name of the directory")
        )
    if manifest.id.lower() in OWN_TOOLS:
        message = f"{manifest.id} is a tool of Paddock itself, so `paddock serve mcp` does not offer this one"
        found.append(ToolFinding("warning", f"{MANIFEST_NAME}: {message}"))
    return found
