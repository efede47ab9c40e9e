"""What tests do with a Ray cluster: started with Ray's Python, in a PID namespace of its own.

Reads a function's name and arguments from each line of standard input, and writes what it returns.
"""

import asyncio
import contextlib
import fcntl
import functools
import io
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import ray

from paddock import BlockingPaddock, Case, Paddock, PaddockError, Program, RayExecutor
from paddock.engines.programs import outcome_mapping
from paddock.surfaces.client.ray import driver
from paddock.surfaces.client.ray.worker import run_share

FOLDER = Path(sys.argv[1])
DASHBOARD = "dashboard" in sys.argv[2:]
DASHBOARD_PORT = 8265
PATIENCE_S = 300
SQUARE = "read n; echo $((n * n))"
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
OBJECT_STORE_BYTES = 100 * 1024 * 1024


def kill(pid):
    """Kill a process, and return whether it was still there."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Node:
    """A node of the cluster: a raylet, its workers, and on the head the control service."""

    def __init__(self, *arguments, resources):
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        command += [
            "--num-cpus=1",
            f"--object-store-memory={OBJECT_STORE_BYTES}",
        ]
        # Two nodes of one machine share its ports: with these, each worker takes a free one.
        command += ["--min-worker-port=0", "--max-worker-port=0", f"--resources={json.dumps(resources)}"]
        self.process = subprocess.Popen([*command, *arguments], stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def kill(self):
        """Kill everything of this node at once, as a machine dies."""
        ending = [self.process.pid, *descendants(self.process.pid)]
        for pid in ending:
            kill(pid)
        self.process.wait()


class Nodes:
    """The nodes of the cluster, and the connection to it."""

    def __init__(self, temporary):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        port = self.address.partition(":")[2]
        of_head = ["--head", f"--port={port}", f"--temp-dir={temporary}", f"--include-dashboard={DASHBOARD}"]
        if not DASHBOARD:  # nothing grows, and nobody reads logs: these processes take a second each
            of_head += ["--no-monitor", "--include-log-monitor=False"]
        self.head = Node(*of_head, resources=languages())
        self.second = None
        self.temporary = Path(temporary)

    def connect(self, **options):
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **options)
            except ConnectionError:
                assert time.monotonic() < deadline
            else:
                return

    def add(self):
        """Start the second node, and wait until the cluster has it."""
        others = [f"--address={self.address}", "--include-log-monitor=False"]
        self.second = Node(*others, resources=languages())
        wait_until(lambda: ray.cluster_resources().get("CPU") == 2)

    def lose(self):
        """Kill the second node."""
        self.second.kill()
        self.second = None


@functools.cache
def languages():
    """Return the resources that a node is started with."""
    command = [sys.executable, "-m", "paddock", "runtimes", "--ray-resources"]
    known = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=FOLDER).stdout)
    assert known["paddock:python"] == 1
    return {name: amount for name, amount in known.items() if name != "paddock:perl"}


def parents():
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                stat = (folder / "stat").read_text()
            except OSError:
                continue
            found[int(folder.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def descendants(pid):
    found, known = [pid], parents()
    for above in found:
        found += [each for each, parent in known.items() if parent == above]
    return found[1:]


def command_lines():
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
    return found


def find_workers():
    """Return the workers of Ray that run a task: Ray names their processes after it."""
    return [pid for pid, line in command_lines().items() if line.startswith("ray::paddock")]


def wait_until(happened):
    deadline = time.monotonic() + PATIENCE_S
    while not (found := happened()):
        assert time.monotonic() < deadline, happened
        time.sleep(0.02)
    return found


def squares(number):
    return (Program(id=str(n), language="shell", code=SQUARE, stdin=f"{n}\n") for n in range(number))


def describe(result):
    error = result.outcome.error
    return [result.id, result.outcome.status.value, result.outcome.text, error.message if error else None]


@contextlib.contextmanager
def replace_attributes(owner, **changes):
    """Have other values for a while."""
    before = {name: getattr(owner, name) for name in changes}
    for name, value in changes.items():
        setattr(owner, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


def run_undisturbed(data):
    """Run a share on a worker. Whatever else runs on the machine decides no verdict, as in tests/conftest.py."""
    outcome_mapping.count_processors = lambda: 0.0
    return run_share(data)


def run(programs, **options):
    """Return the results of programs, sorted by id."""
    with (
        replace_attributes(driver, run_share=run_undisturbed),
        BlockingPaddock(
            FOLDER, overrides={"runtimes.network": "full", "runtimes.access": "workspace-write"}
        ) as p,
    ):
        return sorted(
            describe(result)
            for result in p.map([Program(**each) for each in programs], engine="ray", **options)
        )


def refuse(programs, *, lazily=False):
    """Return the error of a map, and how many programs had ended before it."""
    made = [Program(**each) for each in programs]
    with BlockingPaddock(
        FOLDER, overrides={"runtimes.network": "full", "runtimes.access": "workspace-write"}
    ) as p:
        ended = 0
        try:
            for _ in p.map(iter(made) if lazily else made, engine="ray"):
                ended += 1
        except PaddockError as error:
            return [type(error).__name__, str(error), ended]
    return None


def judge(programs):
    """Return the verdicts of programs with tests."""
    made = [Program(**{**each, "tests": [Case(**case) for case in each["tests"]]}) for each in programs]
    with BlockingPaddock(FOLDER) as p:
        return sorted(
            [result.id, result.verdict, [case.verdict for case in result.tests]]
            for result in p.map(made, engine="ray")
        )


def survive(programs, worker_kills, node_kills):
    """Return the wrong results of many programs whose workers and nodes die, and how many died."""
    kill_worker, kill_node = programs // (worker_kills + 1), programs // (node_kills + 1)
    killed, lost, wrong, seen = 0, 0, [], set()
    nodes.add()
    with BlockingPaddock(FOLDER) as p:
        for count, result in enumerate(p.map(squares(programs), engine="ray"), 1):
            number = int(result.id)
            seen.add(number)
            if (result.outcome.status.value, result.outcome.text) != ("ok", f"{number**2}\n"):
                wrong.append(describe(result))
            if count % kill_node == 0 and lost < node_kills:
                nodes.lose()
                nodes.add()
                lost += 1
            elif count // kill_worker > killed < worker_kills and (workers := find_workers()):
                killed += kill(workers[count % len(workers)])
    nodes.lose()
    return {"answered": len(seen), "wrong": wrong, "worker kills": killed, "node kills": lost}


def judge_while_workers_die(programs, worker_kills):
    """Return the wrong verdicts of many programs whose workers die, and how many died.

    The kills depend on results, not on the time: on a slow machine no task would ever end otherwise.
    """

    def make_program(number):
        test = Case(stdin=f"{number}\n", expect=f"{number**2 + number % 2}\n")
        return Program(id=str(number), language="shell", code=f"sleep 0.05; {SQUARE}", tests=[test])

    kill_worker, wrong, seen, killed = programs // (worker_kills + 1), [], set(), 0
    nodes.add()
    try:
        with BlockingPaddock(FOLDER) as p:
            for count, result in enumerate(p.map(map(make_program, range(programs)), engine="ray"), 1):
                number = int(result.id)
                seen.add(number)
                if result.verdict != ("wrong_answer" if number % 2 else "accepted"):
                    wrong.append([*describe(result), result.verdict])
                if count // kill_worker > killed < worker_kills and (workers := find_workers()):
                    killed += kill(workers[killed % len(workers)])
    finally:
        nodes.lose()
    return {"answered": len(seen), "wrong": wrong, "kills": killed}


def find_ports():
    """Return the TCP ports of this network namespace on which somebody listens."""
    ports = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == "0A":  # it listens
                ports.add(int(local.rpartition(":")[2], 16))
    return ports


def find_cluster():
    """Return how processes of this machine reach the cluster: ports, sockets, files, and marks of its processes."""
    names = {
        line.split()[7]
        for line in Path("/proc/net/unix").read_text().splitlines()[1:]
        if len(line.split()) > 7
    }
    token = Path.home() / ".ray" / "auth_token"
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("a token")
    Path("/dev/shm/of-a-worker").touch()
    logs = [str(path) for path in nodes.temporary.glob("session_*/logs/*.log")]
    return {
        "ports": sorted(find_ports()),
        "sockets": sorted(names),
        "files": [str(token), *logs, *(str(path) for path in Path("/dev/shm").iterdir() if path.is_file())],
        "processes": ["raylet", "gcs_server", "dashboard.py"],
    }


def reach(probe, tier):
    """Return what there is of the cluster, what a probe reaches of it without confinement, and what as a program."""
    wait_until(lambda: DASHBOARD_PORT in find_ports())  # it starts beside the others
    facts = find_cluster()
    assert int(nodes.address.rpartition(":")[2]) in facts["ports"]
    given = {"stdin": json.dumps(facts), "code": probe, "language": "python", "access": "read-only"}
    free = subprocess.run(
        [sys.executable, "-c", probe], input=given["stdin"], stdout=subprocess.PIPE, text=True, check=True
    )
    hidden = "/usr/bin/bwrap" if tier == "landlock" else None
    if hidden:  # in this mount namespace alone
        subprocess.run(["mount", "--bind", "/dev/null", hidden], check=True)
    ray.shutdown()
    nodes.connect(runtime_env={"env_vars": {"TEST_TIER": tier}})  # with workers of their own
    try:
        programs = [Program(id=network, network=network, **given) for network in ("none", "loopback")]
        with BlockingPaddock(FOLDER) as p:
            results = [*p.map(programs, engine="ray")]
    finally:
        if hidden:
            subprocess.run(["umount", hidden], check=True)
    return {
        "facts": facts,
        "free": json.loads(free.stdout),
        "confined": sorted([*describe(result), result.outcome.sandbox.tier] for result in results),
    }


def leave(marker):
    """Return what still runs after a map was left, and the result of the next one."""
    endless = "import sys, time; print(sys.argv, flush=True); time.sleep(3600)"

    def programs():
        yield Program(language="python", code="print(1)")
        while True:
            yield Program(language="python", code=endless, args=(marker,))

    def running():
        return [line for line in command_lines().values() if marker in line]

    with BlockingPaddock(FOLDER) as p:
        results = p.map(programs(), engine="ray")
        first = next(results).outcome.text
        wait_until(running)
        results.close()
        left = running()
        [after] = p.map([Program(language="python", code="print(2)")], engine="ray")
        return [first, left, after.outcome.text]


def outlive_worker(marker):
    """Return whether a program ends with its worker, while the map is left."""
    code = "import time; time.sleep(3600)"
    with BlockingPaddock(FOLDER) as p:
        results = p.submit(
            lambda paddock: anext(
                paddock.map([Program(language="python", code=code, args=(marker,))], engine="ray")
            )
        )

        def running():
            return {pid for pid, line in command_lines().items() if marker in line}

        first = wait_until(running)
        for pid in find_workers():
            kill(pid)
        wait_until(lambda: not first & running() and running())
        results.cancel()
    return True


def be_lied_to(answers):
    """Return the results if the worker sends something else."""
    found = []
    with BlockingPaddock(FOLDER) as p:
        for name in answers:
            with replace_attributes(driver, run_share=LIES[name]):
                [result] = p.map([Program(id="x", language="python", code="print(1)")], engine="ray")
                found.append(describe(result))
    return found


def die_with_poison(_data):
    if b"poison" in _data:
        os._exit(1)
    return run_share(_data)


def no_bytes(_data):
    return {"results": []}


def no_json(_data):
    return b"\xff{"


def nothing(_data):
    return b"{}"


def others(_data):
    return b'{"results": [{"id": "7", "outcome": {"id": "x", "status": "ok"}}]}'


def twice(_data):
    one = '{"id": "0", "outcome": {"id": "x", "status": "ok"}}'
    return f'{{"results": [{one}, {one}]}}'.encode()


def a_verdict(_data):
    return b'{"results": [{"id": "0", "outcome": {"id": "x", "status": "ok"}, "verdict": "accepted"}]}'


def deep(_data):
    return b"[" * 100_000


class Unpicklable(Exception):
    def __reduce__(self):
        return eval, ("1 / 0",)


def a_pickle(_data):
    raise Unpicklable("no answer")


def raises(_data):
    raise ValueError("no answer")


LIES = {
    each.__name__: each
    for each in (no_bytes, no_json, nothing, others, twice, a_verdict, deep, a_pickle, raises)
}


def poison():
    """Return the results of programs of which one kills its worker."""
    codes = ["print(0)", "print(1)  # poison", "print(2)", "print(3)"]
    programs = [Program(id=str(number), language="python", code=code) for number, code in enumerate(codes)]
    with replace_attributes(driver, run_share=die_with_poison, MAX_RETRIES=1), BlockingPaddock(FOLDER) as p:
        return sorted(describe(result) for result in p.map(programs, engine="ray"))


def without_paddock():
    """Return the results where nodes have no Paddock, and where its settings are wrong."""
    found = []
    for variables in ({"PYTHONPATH": str(FOLDER)}, {"PADDOCK_NO_SUCH_KEY": "1"}):
        ray.shutdown()
        nodes.connect(runtime_env={"env_vars": variables})
        with BlockingPaddock(FOLDER) as p:
            found.append(
                [
                    describe(result)
                    for result in p.map([Program(id="x", language="python", code="print(1)")], engine="ray")
                ]
            )
    ray.shutdown()
    with BlockingPaddock(FOLDER) as p:
        try:
            next(p.map([], engine="ray"))
        except PaddockError as error:
            found.append(str(error))
    nodes.connect()
    return found


def use_executor(number):
    """Return what an executor gives for programs, in the order of the programs, and what it refuses."""
    with RayExecutor(FOLDER, overrides={"runtimes.access": "workspace-write"}) as executor:
        results = [describe(result) for result in executor.map(squares(number))]
        try:
            executor.submit(Program(language="python", code="1", access="workspace-write"))
        except PaddockError as error:
            refused = type(error).__name__
    try:
        executor.submit(Program(language="python", code="1"))
    except RuntimeError as error:
        return [results, refused, str(error)]
    return None


def run_block(block):
    """Return what a Python block of a page prints. It is connected already, and works in a directory.

    Ray prints to the same output, from its threads.
    """
    printed = io.StringIO()
    ray.data.DataContext.get_current().enable_progress_bars = False
    with replace_attributes(ray, init=lambda: None), contextlib.chdir(FOLDER):
        exec(block, {"print": functools.partial(print, file=printed)})
    return printed.getvalue()


def map_asynchronously(number):
    """Return the sum of what programs of an asynchronous iterator print."""

    async def programs():
        for program in squares(number):
            yield program

    async def go():
        async with Paddock(FOLDER) as p:
            return sum(
                [int(result.outcome.text) async for result in p.map(programs(), engine="ray", max_parallel=1)]
            )

    return asyncio.run(go())


def serve(answers):
    """Run what standard input asks for, until it ends."""
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"value": globals()[name](**arguments)}
        except BaseException:  # noqa: BLE001 - the test shows it
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def raise_loopback():
    """Bring up the only interface of this network namespace: see netdevice(7)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


if __name__ == "__main__":
    raise_loopback()
    if DASHBOARD:  # other processes of the machine have files in its own
        subprocess.run(["mount", "-t", "tmpfs", "none", "/dev/shm"], check=True)
    own_output = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Ray prints
    short = tempfile.mkdtemp(
        prefix="paddock-ray-", dir="/tmp"
    )  # of sockets, whose paths have at most 107 bytes
    try:
        nodes = Nodes(short)
        nodes.connect()
        serve(own_output)
    finally:
        shutil.rmtree(short, ignore_errors=True)
