"""Calls as tasks at the real gate, and a lost connection of a real server."""

import asyncio
from typing import Any

import httpx2
from tests.support.mcp_server import AUTHORIZED, Lines, Place
from tests.support.processes import PATIENCE_S, all_end, watched

from paddock.surfaces.mcp_server.tasks import EXTENSION

from .test_killed_clients import ASLEEP, MARK, sleepers

SETTINGS = """
[mcp]
task_after_ms = 0
[runtimes]
timeout_ms = 600000
[[policy.rule]]
effect = "ask"
tool = "odd/echo"
reason = "echoes carry far"
"""
META = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}}}


async def ask(lines: Lines, method: str, **params: Any) -> Any:
    return (await lines.ask(method, {**params, "_meta": META}))["result"]


async def poll(lines: Lines, task: str) -> Any:
    """Return a task once it has ended."""
    while (found := await ask(lines, "tasks/get", taskId=task))["status"] == "working":
        pass
    return found


def test_a_task_is_cancelled_with_all_its_processes_and_another_waits_for_a_person(place: Place) -> None:
    place.settings(SETTINGS)

    async def main() -> None:
        async with place.lines() as lines:
            program = {"runtime": "shell", "code": ASLEEP, "args": [MARK]}
            made = await ask(lines, "tools/call", name="run_program", arguments=program)
            task = made["taskId"]
            while len(found := sleepers(lines.process.pid)) < 2:
                assert (await ask(lines, "tasks/get", taskId=task))["status"] == "working"
            handles = watched(found)
            await ask(lines, "tasks/cancel", taskId=task)
            assert (await poll(lines, task))["status"] == "cancelled"
            assert await asyncio.to_thread(all_end, handles)
            code = {"code": "return await servers.odd.echo({text: 'hi'})"}
            made = await ask(lines, "tools/call", name="execute_code", arguments=code)
            ended = await poll(lines, made["taskId"])
            data = ended["result"]["structuredContent"]
            assert (ended["status"], data["status"], data["command"].split()[:2]) == (
                "completed",
                "waiting",
                ["paddock", "approve"],
            )

    asyncio.run(main())


def test_a_connection_that_is_lost_during_a_call_is_resumed(place: Place) -> None:
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    code = "await new Promise((done) => setTimeout(done, 200)); return 'kept'"
    accept = {**AUTHORIZED, "Accept": "application/json, text/event-stream"}

    async def main() -> None:
        async with place.web() as web, httpx2.AsyncClient(headers=accept, timeout=PATIENCE_S) as http:
            begun = await http.post(web.url, json=message("initialize", hello))
            session = {
                "Mcp-Session-Id": begun.headers["mcp-session-id"],
                "Mcp-Protocol-Version": "2025-11-25",
            }
            done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await http.post(web.url, json=done, headers=session)).status_code == 202
            call = message("tools/call", {"name": "execute_code", "arguments": {"code": code}})
            async with http.stream("POST", web.url, json=call, headers=session) as lost:
                first = await anext(lost.aiter_lines())
            event = first.removeprefix("id: ")
            resumed = await http.get(web.url, headers={**session, "Last-Event-ID": event})
            assert (resumed.status_code, '"value":"kept"' in resumed.text) == (200, True)

    asyncio.run(main())


def message(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
