"""One program over six real servers, four of npm and two of PyPI."""

import asyncio
import subprocess
from typing import Any

from tests.support.mcp_server import Place

PROGRAM = """
const [echo, when, log] = await Promise.all([
  servers.everything.echo({message: "six"}),
  servers.time.convert_time({source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo"}),
  servers.git.git_log({repo_path: input.repository, max_count: 1}),
]);
await servers.filesystem.write_file({path: `${input.folder}/note.txt`, content: echo});
const {content} = await servers.filesystem.read_text_file({path: `${input.folder}/note.txt`});
await servers.memory.create_entities({
  entities: [{name: "note", entityType: "text", observations: [content]}],
});
const {entities} = await servers.memory.read_graph({});
const thought = await servers.thinking.sequentialthinking({
  thought: "done", nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1,
});
return {
  noted: entities[0].observations[0],
  difference: when.time_difference,
  commit: JSON.stringify(log).includes("first commit"),
  thoughts: thought.thoughtHistoryLength,
};
"""


def test_one_program_uses_six_servers(place: Place, real_servers: Any, tmp_path: Any) -> None:
    repository, folder = tmp_path / "repository", tmp_path / "folder"
    folder.mkdir()
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run(
        ["git", *identity, "-C", str(repository), "commit", "-q", "--allow-empty", "-m", "first commit"],
        check=True,
    )
    commands: dict[str, list[str]] = {
        "everything": [*real_servers.everything],
        "filesystem": [*real_servers.filesystem, str(folder)],
        "memory": [*real_servers.memory],
        "thinking": [*real_servers.thinking],
        "git": [*real_servers.git],
        "time": [*real_servers.time],
    }
    servers: dict[str, Any] = {
        name: {"command": command, "args": arguments} for name, (command, *arguments) in commands.items()
    }
    servers["memory"]["env"] = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
    place.servers(servers)

    async def main() -> Any:
        async with place.client(mode="auto") as client:
            given = {"repository": str(repository), "folder": str(folder)}
            return await client.call_tool("execute_code", {"code": PROGRAM, "input": given})

    data = asyncio.run(main()).structured_content
    assert data.get("value") == {
        "noted": "Echo: six",
        "difference": "+9.0h",
        "commit": True,
        "thoughts": 1,
    }, data
    assert data["calls"] == {
        "everything": 1,
        "time": 1,
        "git": 1,
        "filesystem": 2,
        "memory": 2,
        "thinking": 1,
    }
