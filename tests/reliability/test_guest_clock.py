"""Timers of programs count monotonic time: whoever sets the clock of the machine holds up nobody."""

import asyncio

import pytest

from paddock.confinement.sandbox import interpreter
from paddock.gate.open_paddock import open_paddock
from paddock.model.limits import LimitOverrides
from paddock.model.request import ExecutionRequest, GuestRun
from paddock.policy.settings.schema import AuditSettings, Settings

JUMPING = """
import paddock.engines.javascript.child.bootstrap as glue, time
source = glue.source
jumps = "{ const real = Date.now; let hours = 0; Date.now = () => real() + DIRECTION * 3600e3 * hours++; }"
glue.source = lambda: jumps.replace("DIRECTION", "@") + source()
real, hours = time.time, [0]
def jumped():
    hours[0] += 1
    return real() + @ * 3600 * hours[0]
time.time = jumped
"""
PROGRAM = """
const order = [];
setTimeout(() => order.push("third"), 300);
setTimeout(() => order.push("first"), 100);
setTimeout(() => order.push("second"), 200);
await sleep(600);
const before = Date.now();
await sleep(1);
return [order, Math.sign(Date.now() - before)];
"""


@pytest.mark.parametrize("direction", [-1, 1])
def test_timers_do_not_follow_the_wall_clock(monkeypatch, tmp_path, direction):
    jumping = JUMPING.replace("@", str(direction)).replace("{", "{{").replace("}", "}}")
    monkeypatch.setattr(
        interpreter,
        "CHILD_PROGRAM",
        interpreter.CHILD_PROGRAM.replace("from {module}", f"exec({jumping!r}); from {{module}}"),
    )
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"))

    async def run():
        async with open_paddock(settings, tmp_path) as session:
            request = ExecutionRequest(
                workspace=tmp_path, work=GuestRun(source=PROGRAM), limits=LimitOverrides(timeout_ms=20_000)
            )
            return await session.gate.execute(request)

    outcome = asyncio.run(run())
    assert outcome.error is None
    assert outcome.value == [["first", "second", "third"], direction]
    assert outcome.usage.wall_ms >= 60
