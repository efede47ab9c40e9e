"""Load a real `paddock serve mcp` for a while: `python -m benchmarks.soak --minutes 15 --surface stdio|http`.

Several clients make mixed calls, each of which must be answered rightly: programs with and without calls of a real upstream
server, programs of a language whose stored output is searched, computations, refusals, failures and timeouts. After the first
minute and at the end the load pauses, and what the server holds is counted: its anonymous memory, its descriptors, its
descendants and the files in its temporary directory.

The exit code is 1 when a call was not answered or answered wrongly, when memory grew by more than 3 MB between the two pauses,
or when descriptors, descendants or temporary files became more (by over 8), or are left when the server has ended.
"""

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scripts.install_servers import install

from benchmarks.measure import descendants

CLIENTS = 4
MOST_GROWTH_MB = 3.0
MOST_MORE = 8
"""More descriptors, descendants or temporary files than after the first minute that count as none: a peak of load makes
idle processes and their channels, which are kept. What a call leaves behind would be thousands."""
_WARM_S = 60.0
_CALL_S = 120.0
_SETTLED_S = 30.0
_SAMPLE_S = 10.0
_TOKEN = "s" * 32
_HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "soak", "version": "1"}}

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Calls a tool and returns its result as MCP has it."""


class Held(NamedTuple):
    """What the server holds at one moment."""

    anonymous_mb: float
    resident_mb: float
    descriptors: int
    children: int
    temporary: int

    def __str__(self) -> str:
        return (
            f"{self.anonymous_mb:7.1f} MB anonymous, {self.resident_mb:7.1f} MB resident, {self.descriptors} descriptors, "
            f"{self.children} descendants, {self.temporary} temporary files"
        )


@dataclass
class Tally:
    """What became of the calls."""

    answered: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def _program(call: Call, n: int) -> str:
    return _is(await call("execute_code", {"code": f"console.log('x'); return {n} * 2"}), str(n * 2))


async def _upstream(call: Call, n: int) -> str:
    code = f"""
        const texts = await Promise.all([0, 1, 2].map((i) => servers.everything.echo({{message: `${{i + {n}}}`}})));
        return texts.join("|");
    """
    return _is(await call("execute_code", {"code": code}), "|".join(f"Echo: {n + i}" for i in range(3)))


async def _tool(call: Call, n: int) -> str:
    arguments = {"server": "everything", "tool": "echo", "args": {"message": str(n)}}
    return _is(await call("call_tool", arguments), f"Echo: {n}")


async def _compute(call: Call, n: int) -> str:
    # A second of wall time, the default, may pass on a busy machine.
    asked = {"source": "emit(read_input() + '!')", "input": str(n), "limits": {"timeout_ms": 30_000}}
    return _is(await call("compute", asked), f"{n}!")


async def _language(call: Call, n: int) -> str:
    """Run a program whose output is stored, and search for a line of it."""
    code = f"for n in range(300): print('line', n, {n})"
    ran = await call("run_program", {"language": "python", "code": code, "persist_output": True})
    handle = re.search(r"runtime-[\w-]+", _text(ran))
    if handle is None:
        return f"no handle in {_text(ran)[:200]!r}"
    found = await call("query_output", {"artifact_handle": handle[0], "query_terms": [f"line 222 {n}"]})
    return _is(found, f"line 222 {n}")


async def _failing(call: Call, n: int) -> str:
    return _is(
        await call("execute_code", {"code": f"throw new Error('number {n}')"}), f"number {n}", error=True
    )


async def _refused(call: Call, n: int) -> str:
    asked = {"language": "shell", "code": f"echo {n}", "network": "full"}
    return _is(await call("run_program", asked), "denied", error=True)


async def _endless(call: Call, n: int) -> str:  # noqa: ARG001 - as the others are called
    return _is(await call("execute_code", {"code": "for (;;) {}", "timeout_ms": 100}), "timeout", error=True)


async def _endless_language(call: Call, n: int) -> str:  # noqa: ARG001
    asked = {"language": "shell", "code": "sleep 60 & sleep 60", "timeout_ms": 1000}
    return _is(await call("run_program", asked), "timeout", error=True)


_KINDS = {
    _program: 10,
    _upstream: 5,
    _tool: 5,
    _compute: 10,
    _language: 3,
    _failing: 3,
    _refused: 2,
    _endless: 1,
    _endless_language: 1,
}
"""The calls, and how often each comes."""


def main() -> int:
    arguments = _arguments()
    return asyncio.run(_soak(arguments.minutes * 60, arguments.surface))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description="Load a server for a while."
    )
    parser.add_argument(
        "--minutes", type=float, default=15, help="how long, of which the first is to warm up (15)"
    )
    parser.add_argument("--surface", choices=("stdio", "http"), default="stdio")
    return parser.parse_args()


async def _soak(seconds: float, surface: Literal["stdio", "http"]) -> int:
    with tempfile.TemporaryDirectory(prefix="paddock-soak-") as made:
        place = Place(Path(made))
        tally = Tally()
        async with place.served(surface) as (pid, clients):
            await _load(place, pid, clients, tally, min(_WARM_S, seconds / 2))
            first = await place.settled(pid)
            print(f"after the first minute: {first}", flush=True)
            await _load(place, pid, clients, tally, max(0.0, seconds - _WARM_S))
            last = await place.settled(pid)
            print(f"at the end:             {last}", flush=True)
            family = place.family(pid)
        left = [process for process, started in family.items() if started and _started(process) == started]
        temporary = place.temporary()
    faults = list(_faults(first, last, tally, left, temporary))
    print(f"calls: {sum(tally.answered.values())} answered rightly: {dict(tally.answered)}")
    for fault in faults:
        print(f"fault: {fault}")
    print("ok" if not faults else f"{len(faults)} faults")
    return int(bool(faults))


def _faults(first: Held, last: Held, tally: Tally, left: list[int], temporary: list[str]) -> "list[str]":
    found = tally.wrong[:20]
    if len(tally.wrong) > len(found):
        found.append(f"{len(tally.wrong)} wrong answers in all")
    if (grown := last.anonymous_mb - first.anonymous_mb) > MOST_GROWTH_MB:
        found.append(f"memory grew by {grown:.1f} MB")
    for name in ("descriptors", "children", "temporary"):
        before, after = getattr(first, name), getattr(last, name)
        if after > before + MOST_MORE:
            found.append(f"{name}: {after}, after the first minute {before}")
    for process in left:
        command = Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        found.append(f"process {process} outlives the server: {command[:200]}")
    if temporary:
        found.append(f"temporary files that outlive the server: {temporary[:5]}")
    return found


async def _load(place: "Place", pid: int, clients: list[Call], tally: Tally, seconds: float) -> None:
    """Have every client make calls, one after the other, until the time is over."""
    end = time.monotonic() + seconds
    sampling = asyncio.create_task(_sample(place, pid, end))
    try:
        async with asyncio.TaskGroup() as group:
            for number, call in enumerate(clients):
                group.create_task(_use(call, tally, end, random.Random(number)))
    finally:
        sampling.cancel()


async def _use(call: Call, tally: Tally, end: float, chance: random.Random) -> None:
    while time.monotonic() < end:
        [kind] = chance.choices(list(_KINDS), list(_KINDS.values()))
        name = kind.__name__.strip("_")
        try:
            async with asyncio.timeout(_CALL_S):
                wrong = await kind(call, chance.randrange(1000, 9999))
        except TimeoutError:
            wrong = f"not answered within {_CALL_S:.0f} s"
        except Exception as error:  # noqa: BLE001 - each kind of it is a fault that is told
            wrong = f"{type(error).__name__}: {error}"
        if wrong:
            tally.wrong.append(f"{name}: {wrong}")
        else:
            tally.answered[name] += 1


async def _sample(place: "Place", pid: int, end: float) -> None:
    while time.monotonic() < end:
        await asyncio.sleep(_SAMPLE_S)
        print(f"  under load: {place.held(pid)}", flush=True)


def _text(result: dict[str, Any]) -> str:
    return "\n".join(part.get("text", "") for part in result.get("content", ()))


def _is(result: dict[str, Any], wanted: str, *, error: bool = False) -> str:
    """Return what is wrong with an answer that must hold a text, or nothing."""
    text = _text(result)
    if wanted in text and bool(result.get("isError")) is error:
        return ""
    return f"{wanted!r} was expected{' as an error' if error else ''}, got {text[:300]!r}"


class Place:
    """A workspace with a server, and everything that it writes to."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.chmod(0o711)  # as root, programs run as another user
        self._temporary = root / "tmp"
        for name in ("tmp", "home", "work"):
            (root / name).mkdir()
        command, *arguments = install().everything
        servers = {"everything": {"command": command, "args": arguments}}
        (root / "work" / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))

    @asynccontextmanager
    async def served(self, surface: Literal["stdio", "http"]) -> AsyncGenerator[tuple[int, list[Call]]]:
        """Start the server, give its process id and clients, and stop it in the way of its surface."""
        paddock = str(Path(sys.executable).with_name("paddock"))
        port = _free_port()
        (self._root / "token").touch(0o600)
        (self._root / "token").write_text(_TOKEN)
        web = ("--http", f"127.0.0.1:{port}", "--token-file", str(self._root / "token"))
        command = [paddock, "serve", "mcp", *(web if surface == "http" else ())]
        environment = {
            "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
            "HOME": str(self._root / "home"),
            "TMPDIR": str(self._temporary),
            "LANG": "C.UTF-8",
        }
        pipe = asyncio.subprocess.PIPE
        server = await asyncio.create_subprocess_exec(
            *command,
            cwd=self._root / "work",
            env=environment,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=64 * 1024 * 1024,
        )
        assert server.stdin is not None
        assert server.stderr is not None
        said = asyncio.create_task(_passed_on(server.stderr))
        try:
            async with AsyncExitStack() as stack:
                if surface == "stdio":
                    client = await stack.enter_async_context(_over_stdio(server))
                    yield server.pid, [client] * CLIENTS
                else:
                    clients = [await stack.enter_async_context(_over_http(port)) for _ in range(CLIENTS)]
                    yield server.pid, clients
        finally:
            if surface == "http":
                server.send_signal(signal.SIGTERM)
            server.stdin.close()
            async with asyncio.timeout(60):
                await server.wait()
            await said

    async def settled(self, pid: int) -> Held:
        """Return what the server holds once that has not changed for three seconds, or after half a minute."""
        deadline = time.monotonic() + _SETTLED_S
        held, since = self.held(pid), time.monotonic()
        while time.monotonic() < min(deadline, since + 3):
            await asyncio.sleep(0.25)
            now = self.held(pid)
            if now[2:] != held[2:]:
                since = time.monotonic()
            held = now
        return held

    def held(self, pid: int) -> Held:
        """Return what the server holds now."""
        status = Path(f"/proc/{pid}/status").read_text()
        anonymous, resident = (
            int(re.search(rf"^{name}:\s+([0-9]+) kB", status, re.MULTILINE)[1]) / 1024  # pyright: ignore[reportOptionalSubscript]
            for name in ("RssAnon", "VmRSS")
        )
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return Held(anonymous, resident, descriptors, len(self.family(pid)) - 1, len(self.temporary()))

    def family(self, pid: int) -> dict[int, str]:
        """Return a process and its descendants, and when each started."""
        parents: dict[int, int] = {}
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
        return {each: _started(each) for each in descendants(parents, pid)}

    def temporary(self) -> list[str]:
        """Return what is in the server's temporary directory."""
        return sorted(str(path.relative_to(self._temporary)) for path in self._temporary.rglob("*"))


@asynccontextmanager
async def _over_stdio(server: asyncio.subprocess.Process) -> AsyncGenerator[Call]:
    """Give a client that has many calls under way at once."""
    stdin, stdout = server.stdin, server.stdout
    assert stdin is not None
    assert stdout is not None
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}

    async def read() -> None:
        async for line in stdout:
            message = json.loads(line)
            if (future := waiting.pop(message.get("id"), None)) is not None and not future.done():
                future.set_result(message)
        for future in waiting.values():
            future.set_exception(ConnectionError("the server closed its output"))

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = ask.number = ask.number + 1
        waiting[number] = asyncio.get_running_loop().create_future()
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        stdin.write(json.dumps(message).encode() + b"\n")
        await stdin.drain()
        answer = await waiting[number]
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    ask.number = 0
    reading = asyncio.create_task(read())
    try:
        await ask("initialize", _HELLO)
        stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        yield lambda name, arguments: ask("tools/call", {"name": name, "arguments": arguments})
    finally:
        reading.cancel()


@asynccontextmanager
async def _over_http(port: int) -> AsyncGenerator[Call]:
    """Give a client of its own session."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    url = f"http://127.0.0.1:{port}/mcp"
    async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {_TOKEN}"}, timeout=_CALL_S) as http:
        deadline = time.monotonic() + 60
        while True:
            try:
                await http.get(url)
                break
            except httpx2.TransportError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)
        async with Client(streamable_http_client(url, http_client=http)) as client:

            async def call(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
                result = await client.call_tool(name, arguments)
                return result.model_dump(mode="json", by_alias=True)

            yield call


async def _passed_on(stderr: asyncio.StreamReader) -> None:
    async for line in stderr:
        print(f"  server: {line.decode(errors='replace').rstrip()}", flush=True)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _started(pid: int) -> str:
    """Return when a process started, which tells it from a later one of the same number; empty once it has ended."""
    try:
        facts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if facts[0] == "Z" else facts[19]


if __name__ == "__main__":
    sys.exit(main())
