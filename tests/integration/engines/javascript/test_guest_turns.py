"""The worker's loop, which calls V8 by itself: what it must not let pile up, and how it ends when something is wrong."""

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest
from tests.support.processes import PATIENCE_S

from paddock.engines.javascript import launch

MIB = 1 << 20

DRIVEN = """
import ctypes, os, sys, threading
from importlib.util import find_spec
from pathlib import Path
from paddock.engines.javascript import frames
from paddock.engines.javascript.child import bootstrap, fork_server, v8, worker

class Parent:
    '''Stands in for the channel to the parent: what a worker is to hear, and what it says.'''

    def __init__(self, messages):
        self.messages = messages
        self.said = []

    def is_readable(self, within_ms):
        return True

    def send(self, text):
        self.said.append(text.decode())

    def receive(self, timeout_ms=None):
        if timeout_ms is not None and timeout_ms < worker.MAX_WAIT_MS:
            return None
        for message in self.messages:
            return message
        print(*self.said, sep="\\n", file=sys.stderr, flush=True)  # V8 says what it cannot report on the other
        os._exit(0)

def guest(text=bootstrap.source()):
    library = v8.load(Path(find_spec("py_mini_racer").origin).parent, fork_server.PROFILES[sys.argv[1]])
    return worker.Guest(v8.Isolate(library), text)

def run(source):
    settings = dict(output=1000, lines=10, calls=10_000, frame=1 << 20, result=1000, sleep=0, seed=[1, 2, 3, 4],
                    raw=False, vars={}, commands=[], workspace="")
    return frames.encode_start(settings, f'"use strict";__paddock(async function(){{{source}}})', 1 << 40)[4:]

def serve(made, messages):
    made.hand_over(lambda: (Parent(iter(messages)), 0))
    threading.Event().wait()
"""


def driven(script, profile="guest"):
    """Return what a worker says that hears what `script` has it hear."""
    done = subprocess.run(
        [sys.executable, "-c", DRIVEN + script, profile],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stderr.splitlines()]


COUNTED = """
made, counts = guest(), []
count = made.native.bind("_ZN2v811HandleScope15NumberOfHandlesEPNS_7IsolateE", ctypes.c_void_p, result=ctypes.c_int)

def messages():
    yield run("for (let i = 0; i < 1000; i++) await sleep(0); for (let i = 0; i < 2000; i++) await servers.a.b({})")
    for number in range(1, 2001):
        counts.append(count(made.native.isolate))
        yield frames.encode_reply(number, ok=True, value={"a": ["b"]})[4:]
    made.channel.said = [str([len(counts), max(counts)])]

serve(made, messages())
"""


@pytest.mark.parametrize("profile", ["guest", "guest-jit"])
def test_no_handle_outlives_its_turn(profile):
    [[turns, most]] = driven(COUNTED, profile)
    assert turns == 2000
    assert most < 50


REHEARSED = """
made, said = guest(), []
send_text = made.send_text

def noted():
    said.append(bytes(made._out[: 2 * int(made._header[1])]).decode("utf-16-le"))
    send_text()

def messages():
    made.channel.said = said
    yield from ()

made.send_text = noted
serve(made, messages())
"""


def test_the_rehearsal_runs_to_its_end():
    kinds = [message[0] for message in driven(REHEARSED)]
    assert kinds[0] == "done"  # the rehearsed program
    assert "call" in kinds
    assert kinds[-1] == "done"  # the rehearsed computation
    assert "broken" not in kinds


@pytest.mark.parametrize(
    "source",
    [
        "for (let i = 0; i < 100_000; i++) await new Promise((done) => setTimeout(done, 0)); return 1",
        "for (let i = 0; i < 300; i++) await sleep(0, 'x'.repeat(1 << 20) + i); return 1",
        "for (let i = 0; i < 300; i++) { const kept = new Uint8Array(1 << 20); await sleep(0); kept[0] = 1 } return 1",
        "for (let i = 0; i < 300; i++) await servers.odd.call('echo', { text: i + 'x'.repeat(1 << 12) }); return 1",
    ],
    ids=["timers", "texts", "buffers", "calls"],
)
def test_turns_cost_no_memory(guest, source):
    once = guest.run(source.replace("100_000", "1").replace("300", "3"))
    outcome = guest.run(source, memory_bytes=256 * MIB)
    assert (outcome.status, outcome.value) == ("ok", 1)
    assert outcome.usage.peak_bytes < once.usage.peak_bytes + 32 * MIB


def test_a_stack_shows_what_called_and_no_more(guest):
    source = """
    const told = async (from) => (await new Promise(from)).replaceAll(/:\\d+/g, '').split('\\n').slice(1).map((l) => l.trim())
    return [
      await told((done) => setTimeout(() => done(new Error().stack), 0)),
      await told((done) => Promise.resolve().then(() => done(new Error().stack))),
      await told((done) => servers.odd.call('echo', { text: '' }).then(() => done(new Error().stack))),
    ]
    """
    own, ours = "at paddock:program", ["at fire (paddock:glue)", "at turn (paddock:glue)"]
    assert guest.value(source) == [[own, *ours], [own], [own]]


def test_promises_run_before_the_next_turn_and_never_inside_of_one(guest):
    source = """
    const said = []
    const say = (text) => said.push(text)
    await Promise.all([1, 2].map((n) => new Promise((done) => setTimeout(() => {
      Promise.resolve().then(() => say(`promise ${n}`)).then(() => say(`next ${n}`)).then(done)
      paddock.health.check()
      say(`timer ${n}`)
    }, 0))))
    return said
    """
    assert guest.value(source) == ["timer 1", "promise 1", "next 1", "timer 2", "promise 2", "next 2"]


def test_large_texts_leave_in_order(guest):
    source = """
    const calls = [10, 100_000, 10, 20_000].map((n, i) => servers.odd.call('echo', { text: i + 'x'.repeat(n) }))
    console.log('now')
    const sizes = (await Promise.all(calls)).map((text) => [text[0], text.length])
    return [sizes, 'y'.repeat(100_000).length]
    """
    outcome = guest.run(source)
    assert outcome.value == [[["0", 11], ["1", 100_001], ["2", 11], ["3", 20_001]], 100_000]
    assert [line.text for line in outcome.console] == ["now"]


THROWING = """
text = bootstrap.source().replace('if (message[0] === "wake")', 'if (message[0] === "wake") throw new NativeError("odd"); else if (false)')
"""
TWICE = (
    THROWING
    + """
text = text.replace('settle("broken"', 'throw thrown; settle("broken"')
"""
)


def test_a_turn_that_throws_breaks_the_program_and_says_what_was_thrown():
    said = driven(THROWING + """serve(guest(text), [b'["wake"]', b'["wake"]', b'["wake"]'])""")
    assert said == [["ready"], ["broken", "Error: odd"]]


def test_a_turn_that_does_not_return_breaks_the_program_and_hurts_no_later_one():
    said = driven(TWICE + """serve(guest(text), [b'["wake"]', b'["wake"]', run("return 1")])""")
    broken = ["broken", "the bootstrap script failed"]
    assert said == [["ready"], broken, broken, ["done", {"open": [], "value": 1}]]


STOPPED = """
made = guest()
stop = made.native.bind("_ZN2v87Isolate18TerminateExecutionEv", ctypes.c_void_p, result=None)
send = made.send_text
def sent():
    send()
    if made.channel.said[-1] == '["console","log","a"]':
        stop(made.native.isolate)

def messages():
    made.send_text = sent
    yield run("const say = () => { console.log('a'); console.log('b') }; %s")
    yield frames.encode_reply(1, ok=True, value=1)[4:]

serve(made, messages())
"""


@pytest.mark.parametrize(
    ("program", "end"),
    [
        ("await servers.a.b({}); say()", [["stuck", {}]]),
        (
            "setTimeout(say, 0); return await servers.a.b({})",
            [["broken", "the bootstrap script failed"], ["done", {"open": [], "value": 1}]],
        ),
    ],
    ids=["in a promise", "in a timer"],
)
def test_what_ends_a_turn_from_outside_ends_this_one_alone(program, end):
    said = driven(STOPPED % program)
    assert said == [["ready"], ["call", 1, "a", "b", {}, False], ["console", "log", "a"], *end]


HIDDEN = """
import socket, sys
from paddock.engines.javascript import launch
from paddock.engines.javascript.child import fork_server, v8_native, worker

class Hidden(v8_native.NativeIsolate):
    def bind(self, name, *arguments, **result):
        return super().bind(name.replace("Checkpoint", "Rest"), *arguments, **result)

worker.NativeIsolate = Hidden
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sys.argv[1:] = [str(theirs.detach()), "guest", launch.find_engine_directory()]
try:
    fork_server.main()
finally:
    print(ours.recv(4096).decode())
"""
REINSTALL = "reinstall Paddock with the version of mini-racer that it requires"


def test_a_library_that_hides_the_interface_of_v8_stops_the_zygote():
    done = subprocess.run(
        [sys.executable, "-c", HIDDEN], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    missing = "_ZN2v87Isolate26PerformMicrotaskRestEv"
    assert (done.returncode, done.stderr) == (1, "")
    assert json.loads(done.stdout) == {"failed": f"mini-racer's library has no {missing}: {REINSTALL}"}


@pytest.mark.parametrize("what", ["start_fork_server", "start_parse_worker"])
def test_another_library_is_told_to_whoever_installed_it(tmp_path, monkeypatch, what):
    (tmp_path / "libmini_racer.so").symlink_to(find_spec("orjson.orjson").origin)
    monkeypatch.setattr(launch, "find_engine_directory", lambda: str(tmp_path))
    process, connection = getattr(launch.Launcher(), what)(
        *(["guest"] if what == "start_fork_server" else [])
    )
    with process, connection:
        told = connection.recv(4096)
    assert json.loads(told[told.index(b"{") :]) == {
        "failed": f"mini-racer's library has no mr_init_v8: {REINSTALL}"
    }
