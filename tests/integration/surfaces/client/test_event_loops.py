"""The library runs on the event loop that its user has; services of the web mostly have uvloop's."""

import asyncio

import pytest
import uvloop
from tests.support.servers import make_entry, write_servers

from paddock import ConsoleLine, Paddock, Settings, Status
from paddock.policy.settings.profiles import ComputeLimits, LimitSettings
from paddock.policy.settings.schema import AuditSettings

PROGRAM = """
console.log("before");
const said = await Promise.all(["a", "b"].map((text) => servers.odd.echo({ text })));
const end = await servers.odd.crash({}).catch((error) => error.name);
return { said, again: await servers.odd.echo({ text: "c" }), end, sum: await paddock.compute("emit(20 + 1)") };
"""


@pytest.fixture
def opened(tmp_path):
    odd = make_entry("odd")
    write_servers(tmp_path, {"odd": odd})
    limits = LimitSettings(compute=ComputeLimits(timeout_ms=60_000))
    settings = Settings(audit=AuditSettings(directory=tmp_path / "audit"), limits=limits)
    return lambda: Paddock(tmp_path, settings=settings)


@pytest.fixture
def run():
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        yield runner.run


def test_programs_servers_and_computations_work_on_uvloop(run, opened):
    async def ends():
        async with opened() as paddock:
            good = await paddock.execute(PROGRAM)
            late = await paddock.execute("for (;;) {}", timeout_ms=50)
            waiting = await paddock.execute("await servers.odd.hang({})", timeout_ms=2_000)
        return good, late, waiting

    good, late, waiting = run(ends())
    assert (good.status, good.value) == (
        Status.OK,
        {"said": ["a", "b"], "again": "c", "end": "ToolError", "sum": "21"},
    )
    assert good.console == (ConsoleLine(level="log", text="before"),)
    assert [(call.server, call.tool, call.status) for call in good.calls] == [
        ("odd", "echo", Status.OK),
        ("odd", "echo", Status.OK),
        ("odd", "crash", Status.LOST),
        ("odd", "echo", Status.OK),
        ("paddock", "compute", Status.OK),
    ]
    assert (late.status, late.error.message) == (Status.TIMEOUT, "Script execution timed out after 50ms")
    assert (waiting.status, waiting.error.message) == (Status.TIMEOUT, "Execution timeout")


def test_programs_of_other_languages_work_on_uvloop(run, opened):
    heard = []

    async def ends():
        stop = asyncio.Event()

        def on_output(stream, data):
            heard.append((stream, data))
            stop.set()

        async with opened() as paddock:
            good = await paddock.exec("shell", "cat; head -c 300000 /dev/zero; exit 7", stdin="x" * 100_000)
            stopped = await paddock.exec("shell", "echo begun; sleep 60", on_output=on_output, stop=stop)
        return good, stopped

    good, stopped = run(ends())
    assert (good.status, good.program.exit_code, good.program.stdout.total_bytes) == (
        Status.FAILED,
        7,
        400_000,
    )
    assert (stopped.status, stopped.program.stdout.head, heard) == (
        Status.CANCELLED,
        "begun\n",
        [("stdout", b"begun\n")],
    )
