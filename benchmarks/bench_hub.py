"""A hundred calls of a real server over stdio: by the bare MCP client, by the hub alone, and by a program."""

import asyncio
import json
import os
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from scripts.install_servers import install

from benchmarks.measure import Line, Scale, at_most, ratio
from benchmarks.subject import Paddock, paddock

TITLE = "100 calls of `echo` of server-everything, over stdio"

_CALLS = 100
_SEQUENCE = """
let done = 0;
for (let i = 0; i < 100; i++) done += (await servers.everything.call("echo", { message: `${i}` })) === `Echo: ${i}`;
return done;
"""
_PARALLEL = """
const numbers = Array.from({ length: 100 }, (_, i) => i);
const texts = await Promise.all(numbers.map((i) => servers.everything.call("echo", { message: `${i}` })));
return texts.filter((text, i) => text === `Echo: ${i}`).length;
"""


def measure(scale: Scale) -> list[Line]:
    command, *arguments = install().everything
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        servers = Path(made) / "servers.json"
        servers.write_text(
            json.dumps({"mcpServers": {"everything": {"command": command, "args": arguments}}})
        )
        subject = stack.enter_context(paddock(servers=servers))
        figures = subject.run(_rounds(subject, command, arguments, scale.of(10, 2)))
    bare, program = figures["bare"], figures["program"]
    over = median(ours - 1.3 * floor for ours, floor in zip(program, bare, strict=True))
    return [
        Line("peer: bare mcp.Client, one after another", median(bare), "ms"),
        Line("peer: bare mcp.Client, at once", median(figures["bare at once"]), "ms"),
        Line("hub, one after another", median(figures["hub"]), "ms"),
        Line("hub, at once", median(figures["hub at once"]), "ms"),
        Line("program, one after another, audited", median(program), "ms"),
        Line("  beyond 1.3 x the bare client", over, "ms", at_most(20)),
        Line("program, at once (Promise.all), audited", median(figures["program at once"]), "ms"),
        Line("  against one after another", ratio(figures["program at once"], program), "x", at_most(1)),
    ]


async def _rounds(
    subject: Paddock, command: str, arguments: list[str], rounds: int
) -> dict[str, list[float]]:
    """Return milliseconds by contender and round. The bare client has another server; both are running."""
    from mcp import Client, StdioServerParameters  # imported while nothing is measured

    hub = subject.session.servers
    async with Client(StdioServerParameters(command=command, args=arguments, env=dict(os.environ))) as client:

        async def bare(number: int) -> bool:
            result = await client.call_tool("echo", {"message": str(number)})
            return getattr(result.content[0], "text", "") == f"Echo: {number}"

        async def through_hub(number: int) -> bool:
            result = await hub.call_tool("everything", "echo", {"message": str(number)}, limit_ms=60_000)
            return result.raw["content"][0]["text"] == f"Echo: {number}"

        contenders: dict[str, Callable[[], Awaitable[int]]] = {
            "bare": lambda: _one_after_another(bare),
            "bare at once": lambda: _at_once(bare),
            "hub": lambda: _one_after_another(through_hub),
            "hub at once": lambda: _at_once(through_hub),
            "program": lambda: subject.value(_SEQUENCE),
            "program at once": lambda: subject.value(_PARALLEL),
        }
        figures: dict[str, list[float]] = {name: [] for name in contenders}
        for number in range(-1, rounds):  # the first round warms up
            names = list(contenders)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                await subject.settled()
                started = time.perf_counter()
                assert await contenders[name]() == _CALLS
                if number >= 0:
                    figures[name].append((time.perf_counter() - started) * 1000)
    return figures


async def _one_after_another(call: Callable[[int], Awaitable[bool]]) -> int:
    return sum([await call(number) for number in range(_CALLS)])


async def _at_once(call: Callable[[int], Awaitable[bool]]) -> int:
    return sum(await asyncio.gather(*(call(number) for number in range(_CALLS))))
