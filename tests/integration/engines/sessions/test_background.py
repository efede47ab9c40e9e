"""Sessions that run between two executions, where that is granted: within their limits, and until they are closed."""

import os
import time
from contextlib import suppress
from pathlib import Path

import pytest
from tests.support.processes import PATIENCE_S, all_end, children, descendants, list_started, watched

from paddock import BlockingPaddock, BlockingSession, Status

GRANTED = {"runtimes": {"timeout_ms": 120_000}, "sessions": {"background": True}}
WRITE = "open('beat', 'a').write('x')"
BEAT = f"""
import threading, time
def beat():
    while True:
        {WRITE}
        time.sleep(0.001)
threading.Thread(target=beat, daemon=True).start()
"""


def wait_for_bytes(s: BlockingSession, count: int) -> None:
    """Return once a file of a session is that long, while it runs by itself."""
    until = time.monotonic() + PATIENCE_S
    while sum(file.size for file in s.files.list()) < count:
        assert time.monotonic() < until


def test_it_is_refused_without_the_grant(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides={"runtimes": GRANTED["runtimes"]}) as p:
        outcome = p.exec("python", "1", session="new", background=True)
    assert outcome.error is not None
    assert (outcome.status, outcome.decision.rule, outcome.error.message) == (
        Status.DENIED,
        "sessions.background",
        "a session that runs between two programs is not granted; set `background = true` under [sessions] in the "
        "paddock.toml of the user or the system",
    )


def test_a_thread_goes_on_between_two_executions(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=GRANTED) as p, p.session("python", background=True) as s:
        s.run(BEAT)
        wait_for_bytes(s, 20)
        assert [(each.id, each.background, each.memory_bytes) for each in p.sessions()] == [
            (s.id, True, p.settings.runtimes.memory_bytes)
        ]
        facts = [record.fields for record in p.find_records(event="started")]
        assert [fact.get("background") for fact in facts] == [True, True]


def test_without_it_nothing_goes_on(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=GRANTED) as p, p.session("python") as s:
        s.run(BEAT)
        sizes = {sum(file.size for file in s.files.list()) for _ in range(50)}
        assert len(sizes) == 1
        assert [each.background for each in p.sessions()] == [False]
        other = p.exec("python", "1", session=s.id, background=True)
        assert other.error is not None
        assert other.error.message == "the session was opened without `background`"


def test_output_of_the_background_comes_with_the_next_execution(workspace: Path) -> None:
    program = f"import threading\nthreading.Timer(0.01, lambda: (print('later'), {WRITE})).start()"
    with BlockingPaddock(workspace, overrides=GRANTED) as p, p.session("python", background=True) as s:
        early = s.run(program).text  # it may come before this execution has ended
        wait_for_bytes(s, 1)
        assert early + s.run("1").text == "later\n1\n"
        assert s.run("2").text == "2\n"


def find_spinning(ticks: int) -> list[str]:
    """Return the states of the descendants that have used so much processor time, in ticks of 10 ms (proc(5))."""
    states: list[str] = []
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            states += [fields[0]] * (int(fields[11]) + int(fields[12]) >= ticks)
    return states


def test_it_is_paused_once_it_has_used_its_processor_time(workspace: Path) -> None:
    program = "import os\nif os.fork() == 0:\n  while True: pass"
    with BlockingPaddock(workspace, overrides=GRANTED) as p:
        opened = p.exec("python", "1", session="new", background=True, cpu_ms=300)
        assert opened.session is not None
        with p.session(id=opened.session.id) as s:
            s.run(program, cpu_ms=60_000)  # the child takes time already before this execution has ended
            until = time.monotonic() + PATIENCE_S
            while "t" not in find_spinning(25):
                assert time.monotonic() < until
            assert s.run("1 + 1").text == "2\n"


def test_a_flood_of_output_is_paused_and_cut(workspace: Path) -> None:
    program = "import threading\ndef f():\n  while True: print('x' * 10_000)\nthreading.Thread(target=f, daemon=True).start()"
    overrides = {**GRANTED, "sessions": {"background": True}}
    with BlockingPaddock(workspace, overrides=overrides) as p, p.session("python", background=True) as s:
        s.run(program)
        until = time.monotonic() + PATIENCE_S
        while not (text := s.run("pass").text):
            assert time.monotonic() < until
        while "t" not in find_spinning(1):
            assert time.monotonic() < until
        s.run("import os; os.kill(os.getpid(), 9)")
    assert len(text) < (1 << 20) + 100  # what is kept, and the line that says how much is not


FORGE = """
import os, struct, threading, time
def forge():
    for fd in range(200, 210):
        try:
            if os.readlink(f'/proc/self/fd/{fd}').startswith('socket'): break
        except OSError: pass
    body = b'{"done": {"exit_code": 0}}'
    while True: os.write(fd, struct.pack('<I', len(body)) + body)
threading.Thread(target=forge, daemon=True).start()
"""


def test_forged_ends_in_the_background_harm_the_session_alone(workspace: Path) -> None:
    with BlockingPaddock(workspace, overrides=GRANTED) as p:
        with p.session("python", background=True) as s:
            s.run(FORGE)
            outcomes = [s.run("x = 1") for _ in range(5)]
        with p.session("python") as other:
            assert other.run("1 + 1").text == "2\n"
    assert {outcome.status for outcome in outcomes} <= {Status.OK, Status.LOST, Status.TIMEOUT}


def test_other_limits_end_it(workspace: Path) -> None:
    grow = "kept = []\ndef grow():\n  while True: kept.append(bytearray(b'1' * (1 << 20)))\n"
    start = "import threading; threading.Thread(target=grow).start()"
    with (
        BlockingPaddock(workspace, overrides=GRANTED) as p,
        p.session("python", background=True, memory_bytes=200 << 20) as s,
    ):
        s.run(f"import time\n{grow.replace('while True:', 'while time.sleep(0.005) is None:')}\n{start}")
        until = time.monotonic() + PATIENCE_S
        while p.sessions():
            assert time.monotonic() < until
        outcome = s.run("1")
    assert outcome.error is not None
    assert (outcome.status, outcome.error.message) == (
        Status.LOST,
        "The session is lost: its interpreter has ended, with all variables and files. Nothing ran.",
    )


@pytest.mark.parametrize("language", ["python", "shell"])
def test_closing_ends_what_runs(workspace: Path, language: str) -> None:
    program = {"python": BEAT, "shell": "while :; do printf x >> beat; sleep 0.001; done &"}[language]
    before = children(os.getpid())
    with BlockingPaddock(workspace, overrides=GRANTED) as p, p.session(language, background=True) as s:
        s.run(program)
        wait_for_bytes(s, 5)
        running = watched(list_started(before))
        assert running
    assert all_end(running)
