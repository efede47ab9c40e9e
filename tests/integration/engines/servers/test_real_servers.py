import asyncio
import os
import subprocess

import pytest
from tests.support.processes import PATIENCE_S

from paddock.engines.servers.config import HttpServer, StdioServer
from paddock.engines.servers.result import native_value
from paddock.model.errors import ServerUnavailable


def stdio(name, argv, *more, **options):
    return StdioServer(name, argv[0], (*argv[1:], *map(str, more)), **options)


def test_everything_echoes_lists_and_structures(hub, real_servers):
    async def main():
        async with hub(stdio("everything", real_servers.everything)) as h:
            assert native_value(await h.call_tool("everything", "echo", {"message": "hi"})) == "Echo: hi"
            weather = await h.call_tool("everything", "get-structured-content", {"location": "New York"})
            assert native_value(weather) == {"temperature": 33, "conditions": "Cloudy", "humidity": 82}
            tools = {tool.name: tool for tool in await h.list_tools("everything")}
            assert tools["echo"].input_schema["required"] == ["message"]
            assert tools["get-structured-content"].output_schema is not None
            assert h.list_status()["everything"].warnings == ()

    asyncio.run(main())


def test_filesystem_reads_what_it_is_shown(hub, real_servers, tmp_path):
    (tmp_path / "a.txt").write_text("content of a")

    async def main():
        async with hub(stdio("files", real_servers.filesystem, tmp_path)) as h:
            result = await h.call_tool("files", "read_text_file", {"path": str(tmp_path / "a.txt")})
            assert native_value(result) == {"content": "content of a"}
            refused = await h.call_tool("files", "read_text_file", {"path": "/etc/hostname"})
            assert refused.is_error

    asyncio.run(main())


def test_memory_remembers_between_calls(hub, real_servers, tmp_path):
    async def main():
        env = {"MEMORY_FILE_PATH": str(tmp_path / "memory.json")}
        async with hub(stdio("memory", real_servers.memory, env=env)) as h:
            entity = {"name": "Paddock", "entityType": "program", "observations": ["it fences"]}
            await h.call_tool("memory", "create_entities", {"entities": [entity]})
            graph = native_value(await h.call_tool("memory", "read_graph", {}))
            assert graph == {"entities": [entity], "relations": []}

    asyncio.run(main())


def test_git_and_time_answer_side_by_side(hub, real_servers, tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(tmp_path)], check=True)

    async def main():
        servers = (stdio("git", real_servers.git), stdio("time", real_servers.time))
        async with hub(*servers) as h:
            status, now = await asyncio.gather(
                h.call_tool("git", "git_status", {"repo_path": str(tmp_path)}),
                h.call_tool("time", "get_current_time", {"timezone": "UTC"}),
            )
            assert "On branch trunk" in status.raw["content"][0]["text"]
            assert native_value(now)["timezone"] == "UTC"
            assert {s.protocol for s in h.list_status().values()} <= {"2025-11-25", "2026-07-28"}

    asyncio.run(main())


def test_real_servers_leave_no_process_behind(hub, real_servers, tmp_path):
    async def main():
        servers = (stdio("everything", real_servers.everything), stdio("time", real_servers.time))
        async with hub(*servers) as h:
            await asyncio.gather(*(h.list_tools(server.name) for server in servers))
            return [status.pid for status in h.list_status().values()]

    for pid in asyncio.run(main()):
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)


def test_everything_over_streamable_http(hub, real_servers, unused_port):
    async def main():
        node, script = real_servers.everything
        process = await asyncio.create_subprocess_exec(
            node,
            script,
            "streamableHttp",
            env={"PORT": str(unused_port), "PATH": "/usr/bin:/bin"},
            stderr=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        try:
            await asyncio.wait_for(process.stderr.readuntil(b"listening on port"), PATIENCE_S)
            async with hub(HttpServer("web", f"http://127.0.0.1:{unused_port}/mcp")) as h:
                calls = (h.call_tool("web", "echo", {"message": str(i)}) for i in range(20))
                values = [native_value(result) for result in await asyncio.gather(*calls)]
                assert values == [f"Echo: {i}" for i in range(20)]
                assert len(await h.list_tools("web")) >= 10
                process.kill()
                await process.wait()
                with pytest.raises(ServerUnavailable, match="no connection to server web"):
                    await h.call_tool("web", "echo", {"message": "x"})
        finally:
            if process.returncode is None:
                process.kill()
            await process.communicate()

    asyncio.run(main())
