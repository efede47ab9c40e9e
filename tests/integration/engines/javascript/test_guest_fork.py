"""Workers come from one isolate that was forked: what they must not share, and what the rehearsal must not leave."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S

from paddock.engines.javascript import frames, launch
from paddock.engines.javascript.worker_client import Worker

NUMBERS = "return [Math.random(), Math.random(), Math.random()]"


def test_no_two_programs_draw_the_same_numbers(guest):
    drawn = [tuple(guest.run(NUMBERS).value) for _ in range(8)]
    assert len({number for numbers in drawn for number in numbers}) == 24
    assert all(0 <= number < 1 for numbers in drawn for number in numbers)


def test_math_random_uses_all_its_bits_evenly(guest):
    source = """
    const counts = new Array(16).fill(0);
    let low = 0;
    for (let i = 0; i < 16000; i++) {
      const number = Math.random();
      counts[Math.floor(number * 16)]++;
      low += (number * 2 ** 53) % 2;
    }
    return [Math.min(...counts) > 800, Math.max(...counts) < 1200, low > 7500 && low < 8500];
    """
    assert guest.run(source).value == [True, True, True]


def test_math_random_is_a_property_like_the_original(guest):
    source = "return [Object.getOwnPropertyDescriptor(Math, 'random'), Math.random.name, Math.random.length]"
    assert guest.run(source).value == [
        {"writable": True, "enumerable": False, "configurable": True},
        "random",
        0,
    ]


def test_the_rehearsal_leaves_nothing_behind(guest):
    source = """
    return [typeof input, paddock.vars, paddock.workspace.path, "input" in paddock, setTimeout(() => {}, 0),
      typeof __paddock, servers.rehearsal === servers.rehearsal];
    """
    outcome = guest.run(source)
    assert outcome.value == ["undefined", {}, str(guest.workspace), False, 1, "undefined", True]
    assert outcome.console == ()
    assert outcome.usage.host_calls == 0


def test_call_numbers_and_limits_start_anew(guest):
    outcome = guest.run("return (await servers.odd.call('echo', {text: 'x'}), input)", given={"a": 1})
    assert outcome.value == {"a": 1}
    assert outcome.usage.host_calls == 1


def test_the_zone_and_the_clock_are_the_present_ones(guest):
    source = "const a = Date.now(); await sleep(5); return [Date.now() > a, a > 1.7e12]"
    assert guest.value(source) == [True, True]


@pytest.fixture
def sent(monkeypatch):
    """What workers are sent, from now on: the word that wakes one as `wake`, a program as `run`."""
    words = []
    send = Worker.send

    def told(worker, frame):
        words.append("wake" if frame == frames.WAKE else "run" if frame[4:5] == b"R" else frame)
        send(worker, frame)

    monkeypatch.setattr(Worker, "send", told)
    return words


async def expect(guest, times):
    """Announce programs, as the gate does, once a worker waits."""
    engine = guest.session.gate.engines.guest
    await engine.warm_up(jit=False)
    for _ in range(times):
        engine.expect(jit=False)


def test_a_worker_is_woken_while_its_program_is_recorded(guest, sent):
    guest.runner.run(expect(guest, 0))
    assert guest.value("return 1") == 1
    assert sent == ["wake", "run"]


def test_a_worker_that_many_expect_is_woken_once_and_runs_the_first_program(guest, sent):
    guest.runner.run(expect(guest, 500))
    outcome = guest.run("console.log(typeof wake); return [typeof input, setTimeout(() => {}, 0)]")
    assert outcome.value == ["undefined", 1]
    assert [line.text for line in outcome.console] == ["undefined"]
    assert sent == ["wake", "run"]


def test_what_is_denied_wakes_nobody(guest, sent):
    guest.runner.run(expect(guest, 0))
    assert guest.run("return 1", timeout_ms=10**9).status == "denied"
    assert sent == []


LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from paddock.engines.javascript.child import fork_server, v8
engine = Path(sys.argv[2])
isolate = v8.Isolate(v8.load(engine, fork_server.PROFILES["guest"]))
words = isolate.evaluate("new Intl.DateTimeFormat('de', { month: 'long', timeZone: 'UTC' }).format(0)").decode()
size = (engine / "icudtl.dat").stat().st_size
with open("/proc/self/maps") as maps:
    ranges = [(line, *(int(end, 16) for end in line.split()[0].split("-"))) for line in maps]
copies = [line for line, start, end in ranges if end - start >= size and line.split()[4] == "0" and "w" in line.split()[1]]
mapped = [line.split()[1] for line, *_ in ranges if line.rstrip().endswith("icudtl.dat")]
print(words, mapped, copies, "threading" in sys.modules, flush=True)
import os
os._exit(0)
"""


def test_workers_share_the_data_of_intl_and_run_no_handler_of_threads():
    package = str(Path(launch.__file__).parents[3])
    command = [sys.executable, "-I", "-S", "-c", LOADED, package, launch.find_engine_directory()]
    said = subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S, text=True).stdout
    assert said.strip() == "Januar ['rw-p'] [] False"
