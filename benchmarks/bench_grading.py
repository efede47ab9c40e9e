"""A grader's day: many small programs by `/run_code`, against as many bare processes at the same parallelism.

Each program takes 50 ms of CPU time, its start included, and prints a number that depends on its input; every fifth one
fails. Every answer is checked. `PADDOCK_GRADING_PROGRAMS=20000` measures more than the 2,000 programs. Restarts: the server is killed and started again while a client sends programs and
tries again, and no verdict may be wrong.
"""

import base64
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import Line, Scale, at_least, at_most, cpu_seconds
from paddock.surfaces.http_api.sandboxfusion.models import RUN_CODE_PATH

TITLE = "A grader's day: programs of 50 ms by /run_code"

PARALLEL = 2
"""Programs at a time: of the server, and of what it is compared with."""
_CLIENTS = 16
"""Requests at a time."""
_FORMS = 10
_TOKEN = "benchmark-" + "0" * 33
_RESTARTS = 3
_PROGRAM = """\
import sys, time
number = int(sys.stdin.readline())
while time.process_time() < 0.05:
    pass
{ending}
print(number * 7 + {variant})
"""
_ENDINGS = ("", "", "", "", "sys.exit(3)")


@dataclass(frozen=True)
class Task:
    """One program with its right answer."""

    code: str
    stdin: str
    expected: tuple[str, int, str]
    """Top-level status, exit code and standard output."""


def make_tasks(count: int) -> list[Task]:
    """Return programs; all have inputs of their own, and one of a few texts."""
    return [_make_task(number) for number in range(count)]


def _make_task(number: int) -> Task:
    ending = _ENDINGS[number % len(_ENDINGS)]
    code = _PROGRAM.format(ending=ending, variant=number % _FORMS)
    expected = ("Failed", 3, "") if ending else ("Success", 0, f"{number * 7 + number % _FORMS}\n")
    return Task(code, f"{number}\n", expected)


class Server:
    """`paddock serve http` in a new directory, which can be killed and started again at the same port."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-m", "paddock", "serve", "http", "--http", f"127.0.0.1:{self._port}"]
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(self._root),
            "LANG": "C.UTF-8",
            "PADDOCK_TOKEN": _TOKEN,
        }
        process = subprocess.Popen(
            command,
            cwd=self._root,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        listening = next((line for line in lines if line.startswith("listening on ")), "")
        if not listening:
            raise RuntimeError(f"the server did not start (exit code {process.wait()})")
        self._port = int(listening.strip().rstrip("/").rpartition(":")[2])
        threading.Thread(target=process.stderr.read, daemon=True).start()
        self._process = process

    def kill(self) -> None:
        """Kill it at once."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it in order."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    @property
    def memory(self) -> float:
        """Private memory of the server, in MB."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(status.partition("RssAnon:")[2].split()[0]) / 1000

    def connect(self) -> "Connection":
        """Return a connection that is kept open."""
        return Connection(self._port)


class Connection:
    """A client's connection, as a session of `requests` keeps one."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        credentials = base64.b64encode(f"grader:{_TOKEN}".encode()).decode()
        self._headers = {"Content-Type": "application/json", "Authorization": f"Basic {credentials}"}

    def post(self, task: Task) -> tuple[int, dict[str, Any]]:
        """Return status code and body of the answer. Raises OSError or HTTPException."""
        body = {
            "compile_timeout": 10,
            "run_timeout": 10,
            "code": task.code,
            "stdin": task.stdin,
            "memory_limit_MB": 256,
            "language": "python",
            "files": {},
            "fetch_files": [],
        }
        try:
            self._http.request("POST", RUN_CODE_PATH, json.dumps(body), self._headers)
            answer = self._http.getresponse()
            return answer.status, json.loads(answer.read())
        except BaseException:
            self._http.close()
            raise


def is_right(task: Task, answer: dict[str, Any]) -> bool:
    """Return whether an answer has the verdict of its program."""
    run = answer.get("run_result") or {}
    return (answer.get("status"), run.get("return_code"), run.get("stdout")) == task.expected


@dataclass
class Tally:
    """What became of programs."""

    right: int = 0
    wrong: int = 0
    denied: int = 0
    repeated: int = 0
    """Requests that were sent again because the server was away."""

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.right + other.right,
            self.wrong + other.wrong,
            self.denied + other.denied,
            self.repeated + other.repeated,
        )


def grade(connect: Callable[[], Connection], tasks: Iterable[Task], *, patient: bool = False) -> Tally:
    """Send programs one after the other on one connection. A `patient` client tries again while the server is away."""
    tally, connection = Tally(), connect()
    for task in tasks:
        while True:
            try:
                code, answer = connection.post(task)
            except (OSError, http.client.HTTPException, ValueError):
                if not patient:
                    raise
                tally.repeated += 1
                time.sleep(0.05)
                connection = connect()
                continue
            if code == 504 and patient:
                tally.repeated += 1
                continue
            break
        if code != 200:
            tally.denied += 1
        elif is_right(task, answer):
            tally.right += 1
        else:
            tally.wrong += 1
    return tally


def grade_together(server: Server, tasks: list[Task], *, patient: bool = False) -> Tally:
    """Send programs on several connections at a time."""
    parts = [tasks[first::_CLIENTS] for first in range(_CLIENTS)]
    with ThreadPoolExecutor(_CLIENTS) as clients:
        return sum(clients.map(lambda part: grade(server.connect, part, patient=patient), parts), Tally())


def run_bare(tasks: list[Task]) -> None:
    """Run the programs as bare processes, `PARALLEL` at a time."""

    def run(task: Task) -> None:
        done = subprocess.run(
            ["python3", "-c", task.code],
            input=task.stdin,
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": "/usr/bin:/bin"},
        )
        assert (done.returncode, done.stdout) == task.expected[1:], done

    with ThreadPoolExecutor(PARALLEL) as runners:
        list(runners.map(run, tasks))


@contextmanager
def serve_api() -> Generator[Server]:
    """Run a server in a new directory."""
    with tempfile.TemporaryDirectory(prefix="paddock-bench-") as made:
        server = Server(Path(made))
        server.start()
        try:
            yield server
        finally:
            with suppress(ProcessLookupError):
                server.stop()


def measure(scale: Scale) -> list[Line]:
    """Measure the rate in rounds that take turns with bare processes, and then the restarts."""
    count = int(os.environ.get("PADDOCK_GRADING_PROGRAMS", scale.of(2_000, 40)))
    rounds = scale.of(10, 2)
    tasks, total = make_tasks(count), Tally()
    taken, used = {"paddock": 0.0, "bare": 0.0}, {"paddock": 0.0, "bare": 0.0}
    with serve_api() as server:
        grade_together(server, tasks[:_CLIENTS])  # toolchain and sandboxes are there
        memory: list[float] = []
        for first in range(rounds):
            part = tasks[first::rounds]
            for name in ("paddock", "bare") if first % 2 else ("bare", "paddock"):
                started, before = time.perf_counter(), cpu_seconds()
                if name == "bare":
                    run_bare(part)
                else:
                    total += grade_together(server, part)
                taken[name] += time.perf_counter() - started
                used[name] += cpu_seconds() - before
            memory.append(server.memory)
    rate = taken["bare"] / taken["paddock"]
    grown = memory[-1] - memory[0]
    note = (
        f"{count / taken['paddock']:.1f} programs/s, bare {count / taken['bare']:.1f}; {PARALLEL} at a time"
    )
    lines = [
        Line(f"rate of {count} programs over bare processes", rate, "x", at_least(0.6), note),
        Line(
            "rate by CPU time, the client's included, over bare processes",
            used["bare"] / used["paddock"],
            "x",
            note=f"{used['paddock'] / count * 1000:.0f} ms of CPU time a program, bare {used['bare'] / count * 1000:.0f}; "
            "what two processors without other work would do",
        ),
        Line("programs without the right verdict", total.wrong, "", at_most(0)),
        Line("programs that were refused", total.denied, "", at_most(0)),
        Line(
            "growth of the server's private memory",
            grown,
            "MB",
            at_most(16),
            f"{memory[-1]:.0f} MB at the end",
        ),
    ]
    return lines + _measure_restarts(tasks[: scale.of(400, 40)])


def _measure_restarts(tasks: list[Task]) -> list[Line]:
    """Kill the server three times while programs are sent, and count verdicts."""
    with serve_api() as server, ThreadPoolExecutor(1) as aside:
        grading = aside.submit(grade_together, server, tasks, patient=True)
        for _ in range(_RESTARTS):
            time.sleep(1)
            server.kill()
            server.start()
        tally = grading.result()
    answered = tally.right + tally.wrong
    note = f"{answered} of {len(tasks)} answered, {tally.repeated} requests sent again"
    return [
        Line(f"wrong verdicts over {_RESTARTS} kills of the server", tally.wrong, "", at_most(0), note),
        Line("programs without an answer over them", len(tasks) - answered, "", at_most(0)),
    ]
