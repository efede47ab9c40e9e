"""A worker that belongs to its attacker: a socket on which a test says what it likes, and the engine at the other end."""

import asyncio
import json
import os
import signal
import socket
import struct
from pathlib import Path

from paddock.engines.javascript.engine import GuestEngine
from paddock.engines.javascript.parse import ParsedProgram
from paddock.engines.javascript.source_map import SourceMap
from paddock.engines.javascript.task import GuestTask, HostReply, OnReply
from paddock.engines.javascript.worker_client import Worker, WorkerExit, WorkerUsage
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import Status
from paddock.model.request import GuestRun

FRAME_BYTES = 1 << 16
PROGRAM = GuestRun(source="1")


class Puppet(Worker):
    """The parent's side of a worker whose process is this test."""

    killed = False

    def kill(self) -> None:
        self.killed = True
        self.on_exit(WorkerExit(-signal.SIGKILL, WorkerUsage(0.0, 0)))


class OneWorker:
    """A pool that has exactly this worker."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    async def take(self, profile: str) -> Worker:
        return self.worker

    def landlock_abi(self, profile: str) -> int:
        return 7


class NoIntake:
    async def parse(self, source: str, language: str, *, session: bool = False) -> ParsedProgram:
        return ParsedProgram(source=source, code=source, language="javascript", positions=SourceMap(prefix=0))


class Echo:
    """A host that answers every call, and counts them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, object],
        on_reply: OnReply,
        *,
        raw: bool,
        encoded: object = (),
        is_method: bool = False,
    ) -> None:
        self.calls.append((server, tool))
        if tool == "hang":
            await asyncio.Event().wait()
        if tool == "broken":
            raise KeyError("a fault of the host")
        on_reply(HostReply(Status.OK, value=arguments))


async def play(script, host=None, work=PROGRAM, sink=None, **limits):
    """Return result and worker after `script`, a coroutine function of the attacker's socket."""
    ours, theirs = socket.socketpair()
    errors, their_errors = os.pipe()
    os.close(their_errors)
    ours.setblocking(False)
    worker = Puppet(errors)
    loop = asyncio.get_running_loop()
    await loop.create_connection(lambda: worker, sock=ours)
    worker.ready.set_result(None)
    job = GuestTask(
        work,
        GuestLimits(**{"timeout_ms": 60_000, "frame_bytes": FRAME_BYTES, **limits}),
        Grants(),
        Path("/"),
        sink=sink,
    )
    engine = GuestEngine(OneWorker(worker), NoIntake(), 1)
    reader, writer = await asyncio.open_connection(sock=theirs)
    attack = asyncio.create_task(script(reader, writer))
    try:
        return await engine.run(job, host or Echo()), worker
    finally:
        attack.cancel()
        await asyncio.gather(attack, return_exceptions=True)
        writer.transport.abort()
        await asyncio.sleep(0)


def frame(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def message(*items: object) -> bytes:
    return frame(json.dumps(items).encode())


def saying(*parts: bytes, end: bool = False):
    async def script(reader, writer):
        for part in parts:
            writer.write(part)
        if end:
            writer.close()

    return script


DONE = message("done", {"open": [], "value": 7})
CALL = ("call", 1, "s", "t", {}, False)
