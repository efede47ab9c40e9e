"""The worker of a session that belongs to its attacker: what it sends at the wrong time ends it, and reaches no server."""

import asyncio
import os
import socket
from pathlib import Path

import pytest
from tests.escape.puppet import (
    CALL,
    DONE,
    FRAME_BYTES,
    PROGRAM,
    Echo,
    NoIntake,
    OneWorker,
    Puppet,
    frame,
    message,
)

from paddock.engines.javascript import held_worker
from paddock.engines.javascript.engine import GuestEngine
from paddock.engines.javascript.task import GuestTask
from paddock.model.limits import Grants, GuestLimits
from paddock.model.outcome import RawResult

IDLE = message("idle")
BROKEN = "its worker broke down"
UNSTOPPABLE = "its program did not end when it was interrupted"


async def receive(reader: asyncio.StreamReader) -> bytes:
    length = int.from_bytes(await reader.readexactly(4), "little")
    return await reader.readexactly(length)


async def play(
    *turns: bytes, host: Echo | None = None, timeout_ms: int = 60_000
) -> tuple[list[RawResult], str]:
    """Return the results of programs, to each of which the attacker answers so; and why the session is lost, or ""."""
    ours, theirs = socket.socketpair()
    errors, their_errors = os.pipe()
    os.close(their_errors)
    ours.setblocking(False)
    worker = Puppet(errors)
    await asyncio.get_running_loop().create_connection(lambda: worker, sock=ours)
    worker.ready.set_result(None)
    reader, writer = await asyncio.open_connection(sock=theirs)
    engine = GuestEngine(OneWorker(worker), NoIntake(), 1)
    limits = GuestLimits(timeout_ms=timeout_ms, frame_bytes=FRAME_BYTES)
    job = GuestTask(PROGRAM, limits, Grants(), Path("/"))
    held = await engine.hold(jit=False)

    async def attack() -> None:
        for turn in turns:
            while (await receive(reader))[:1] != b"S":
                pass
            writer.write(turn)
        while True:
            await receive(reader)

    attacking = asyncio.create_task(attack())
    try:
        results: list[RawResult] = []
        for number, _ in enumerate(turns, 1):
            if held.lost:
                break
            results.append(await engine.run_held(held, number, job, host=host or Echo()))
            for _ in range(3):  # what comes between two programs
                await asyncio.sleep(0)
        return results, held.loss if held.lost else ""
    finally:
        attacking.cancel()
        await asyncio.gather(attacking, return_exceptions=True)
        writer.transport.abort()
        await held.close()


@pytest.fixture(autouse=True)
def _impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_worker, "ROUND_S", 0.02)


TURNS: dict[str, tuple[tuple[bytes, ...], list[str], str]] = {
    "as it should be": ((DONE + IDLE, DONE + IDLE), ["ok", "ok"], ""),
    "idle before the end": ((IDLE,), ["lost"], BROKEN),
    "idle twice": ((DONE + IDLE + IDLE, DONE + IDLE), ["ok"], BROKEN),
    "an end without idle": ((DONE,), ["ok"], UNSTOPPABLE),
    "a call between two programs": ((DONE + IDLE + message(*CALL), DONE + IDLE), ["ok"], BROKEN),
    "an end between two programs": ((DONE + IDLE + DONE, DONE + IDLE), ["ok"], BROKEN),
    "no frame between two programs": ((DONE + IDLE + b"\xff" * 8, DONE + IDLE), ["ok"], BROKEN),
    "no frame before idle": ((DONE + b"\xff" * 8 + IDLE,), ["ok"], BROKEN),
    "half a frame before idle": ((DONE + frame(b"x" * 90)[:9] + IDLE,), ["ok"], UNSTOPPABLE),
    "a computation": ((message("emit", "x") + DONE + IDLE,), ["lost"], BROKEN),
}  # fmt: skip


@pytest.mark.parametrize("name", TURNS)
def test_a_message_at_the_wrong_time_ends_the_session(name: str) -> None:
    turns, statuses, loss = TURNS[name]
    results, why = asyncio.run(play(*turns))
    assert ([result.status.value for result in results], why) == (statuses, loss)


def test_a_call_after_the_end_reaches_no_server() -> None:
    host = Echo()
    results, why = asyncio.run(play(DONE + message(*CALL) * 50 + IDLE, DONE + IDLE, host=host))
    assert ([result.status.value for result in results], why, host.calls) == (["ok", "ok"], "", [])


def test_a_call_after_the_limit_reaches_no_server() -> None:
    host = Echo()
    results, why = asyncio.run(play(b"", host=host, timeout_ms=1))
    assert ([result.status.value for result in results], why, host.calls) == (["timeout"], UNSTOPPABLE, [])


def test_calls_are_counted_anew_and_only_for_their_program() -> None:
    host = Echo()
    calls = b"".join(message("call", number, "s", "t", {}, False) for number in (1, 2))
    results, why = asyncio.run(play(calls + DONE + IDLE, calls + DONE + IDLE, host=host))
    assert [result.usage.host_calls for result in results] == [2, 2]
    assert why == ""
