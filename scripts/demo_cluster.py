"""Show several servers that are one service: PostgreSQL, HAProxy and three replicas, of which one is killed.

Everything listens on loopback, and ends with the demo. The exit code is 1 when anything is not as promised.
"""

import argparse
import json
import os
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from install_toolchains import install_packages_of_tests

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support.postgres import HaProxy, Postgres, find_free_port  # noqa: E402 - it is not installed

PADDOCK = Path(sys.executable).with_name("paddock")
NAMES = ("a", "b", "c")
HOST = "paddock.example.com"
"""The host name that clients use; the replicas have other ports than the load balancer."""
PATIENCE_S = 120.0
PROGRAMS = 12
"""Number of programs that are sent while one replica is dead."""
TRANSFER = {
    "language": "shell",
    "code": "echo started >> transfers.log; sleep 600",
    "access": "workspace-write",
    "timeout_ms": 600_000,
}
"""A program with an effect: it must not start twice."""

Body = dict[str, Any]


class Cluster:
    """The directory of the demo, and what all replicas share."""

    def __init__(self, root: Path, database: str) -> None:
        self.root = root
        self.workspace = root / "workspace"
        self.token = secrets.token_urlsafe(32)
        self._write_settings(database)

    def _write_settings(self, database: str) -> None:
        self.workspace.mkdir()
        keys = self.root / "keys"
        keys.mkdir(mode=0o700)
        key = Ed25519PrivateKey.generate()
        for name, content in {
            "forwarding": f"{secrets.token_hex(32)}\n".encode(),
            "checkpoint.pem": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        }.items():
            (keys / name).touch(0o600)
            (keys / name).write_bytes(content)
        settings = self.root / "config" / "paddock" / "paddock.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[cluster]\nurl = "{database}"\nkey_file = "{keys}/forwarding"\n'
            f'checkpoint_key_file = "{keys}/checkpoint.pem"\n\n'
            f'[artifacts]\ndirectory = "{self.root}/artifacts"\n\n'
            '[runtimes]\naccess = "workspace-write"\ntimeout_ms = "10min"\n\n'
            '[servers]\nsemantic_search = "off"\n'
        )

    def make_environment(self, name: str, **variables: str) -> dict[str, str]:
        """Return the variables of a replica, or of a command with the same settings."""
        own = {key: value for key, value in os.environ.items() if not key.startswith("PADDOCK_")}
        return {
            **own,
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / name),
            "PADDOCK_CLUSTER_NODE": name,
            **variables,
        }

    def paddock(self, *arguments: str, quiet: bool = False) -> "subprocess.CompletedProcess[str]":
        """Run a command with the settings of the replicas. Print it, unless `quiet`."""
        if not quiet:
            print(f"$ paddock {shlex.join(arguments)}", flush=True)
        return subprocess.run(
            [PADDOCK, *arguments],
            cwd=self.workspace,
            env=self.make_environment("administrator"),
            capture_output=True,
            text=True,
            check=False,
        )

    def client(self, port: int) -> httpx2.Client:
        """Return a client of the server at a port of loopback."""
        headers = {"Authorization": f"Bearer {self.token}", "Host": HOST}
        return httpx2.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=PATIENCE_S)


class Replica:
    """One `paddock serve http`."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.port = find_free_port()
        self._cluster = cluster
        self._log = cluster.root / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start it, and wait until it is ready."""
        url = f"http://127.0.0.1:{self.port}"
        variables = {"PADDOCK_CLUSTER_NODE_URL": url, "PADDOCK_TOKEN": self._cluster.token}
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [PADDOCK, "serve", "http", "--http", f"127.0.0.1:{self.port}", "--allowed-host", HOST],
                cwd=self._cluster.workspace,
                env=self._cluster.make_environment(self.name, **variables),
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        try:
            wait_until(self._is_ready, f"replica {self.name} is ready")
        except BaseException:
            self.kill()
            print("\n".join(self.read_log()), file=sys.stderr)
            raise
        print(f"replica {self.name}: {url}", flush=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it as a supervisor does, and kill it if it does not end."""
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """Kill it, as when its machine dies."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def read_log(self) -> list[str]:
        """Return the lines that it has logged, after its name."""
        return [f"{self.name}: {line}" for line in self._log.read_text().splitlines()]

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"replica {self.name} ended")
        try:
            return httpx2.get(f"http://127.0.0.1:{self.port}/readyz").status_code == 200
        except httpx2.TransportError:
            return False


def main() -> int:
    """Run the demo and return its exit code."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    install_packages_of_tests()
    with ExitStack() as ends:
        root = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="paddock-cluster-")))
        heading("A database with the tables of Paddock")
        database = ends.enter_context(Postgres())
        cluster = Cluster(root, database.make_database("paddock"))
        made = cluster.paddock("cluster", "migrate")
        print(made.stdout, end="")
        if made.returncode != 0:
            print(made.stderr, end="")
            return 1
        heading("Three replicas and a load balancer")
        replicas = [ends.enter_context(Replica(cluster, name)) for name in NAMES]
        balancer = ends.enter_context(HaProxy([each.port for each in replicas]))
        print(f"HAProxy: {balancer.url}")
        broken = run_one_on_each(cluster, replicas)
        broken += repeat_on_each(cluster, replicas)
        broken += continue_on_each(cluster, replicas)
        broken += kill_one(cluster, replicas, balancer)
        broken += verify_record(cluster)
        heading("Done" if not broken else "Not as promised")
        for text in broken:
            print(f"  {text}")
        for line in (line for each in replicas for line in each.read_log() if broken):
            print(line)
    return 1 if broken else 0


def run_one_on_each(cluster: Cluster, replicas: list[Replica]) -> list[str]:
    """Run a program on each replica, and return what is wrong."""
    heading("One program on each replica")
    broken: list[str] = []
    for replica in replicas:
        with cluster.client(replica.port) as client:
            outcome = post(client, {"language": "javascript", "code": "return 6 * 7"})
        print(f"replica {replica.name}: {outcome['status']}, {outcome.get('value')}")
        if outcome.get("value") != 42:
            broken.append(f"replica {replica.name} did not answer 42")
    return broken


def repeat_on_each(cluster: Cluster, replicas: list[Replica]) -> list[str]:
    """Send one request with the same key to each replica, and return what is wrong."""
    heading("The same request, with the same key, on each replica: it runs once")
    values: set[str] = set()
    for replica in replicas:
        with cluster.client(replica.port) as client:
            outcome = post(client, {"language": "javascript", "code": "return Math.random()"}, key="random-1")
        print(f"replica {replica.name}: {outcome['status']}, {outcome.get('value')}")
        values.add(repr(outcome.get("value")))
    return [] if len(values) == 1 else [f"a request with one key has {len(values)} values"]


def continue_on_each(cluster: Cluster, replicas: list[Replica]) -> list[str]:
    """Open an interpreter on one replica, use it through each, and return what is wrong."""
    heading(f"An interpreter of replica {replicas[0].name}, used through each replica")
    with cluster.client(replicas[0].port) as client:
        opened = client.post("/v1/sessions", json={"language": "python"}).json()
    if "id" not in opened:
        return [f"no interpreter was opened: {opened}"]
    session = opened["id"]
    counts: list[str] = []
    for replica in replicas:
        with cluster.client(replica.port) as client:
            code = "n = globals().get('n', 0) + 1; print(n)"
            outcome = client.post(f"/v1/sessions/{session}/executions", json={"code": code}).json()
        counts.append(outcome.get("program", outcome).get("stdout", {}).get("head", "nothing").strip())
        print(f"replica {replica.name}: {counts[-1]}")
    with cluster.client(replicas[-1].port) as client:
        closed = client.delete(f"/v1/sessions/{session}").is_success
    expected = [str(n) for n in range(1, len(replicas) + 1)]
    return [] if counts == expected and closed else [f"the interpreter counted {counts}, and not {expected}"]


def kill_one(cluster: Cluster, replicas: list[Replica], balancer: HaProxy) -> list[str]:
    """Kill the replica that runs a program with an effect, and return what is wrong afterwards."""
    heading("A replica is killed while it runs a program with an effect")
    transfers = cluster.workspace / "transfers.log"
    answers: list[str] = []

    def send() -> None:
        with cluster.client(balancer.port) as client:
            answers.append(describe(client, TRANSFER, "transfer-1"))

    caller = threading.Thread(target=send)
    caller.start()
    wait_until(lambda: transfers.exists() or bool(answers), "the program has started")
    if answers:
        return [f"the program with an effect was not run: {answers[0]}"]
    killed = find_running(cluster, replicas)
    killed.kill()
    caller.join()
    print(f"replica {killed.name} is dead; the caller hears: {answers[0]}", flush=True)

    statuses: Counter[str] = Counter()
    with cluster.client(balancer.port) as client:
        for n in range(PROGRAMS):
            outcome = post(client, {"language": "javascript", "code": f"return {n} * 2"}, key=f"double-{n}")
            statuses["right" if outcome.get("value") == n * 2 else str(outcome)] += 1
        print(f"other programs through HAProxy: {statuses['right']} of {PROGRAMS} are right", flush=True)
        begin = time.monotonic()
        again = describe(client, TRANSFER, "transfer-1")
    starts = len(transfers.read_text().splitlines())
    print(f"the same request again, with the same key: {again}, after {time.monotonic() - begin:.0f} s")
    print(f"starts of the program: {starts}")
    broken = [] if statuses["right"] == PROGRAMS else [f"of {PROGRAMS} programs: {dict(statuses)}"]
    broken += [] if starts == 1 else [f"the program with an effect started {starts} times"]
    return broken + ([] if "lost" in again else [f"the lost program is not reported as lost: {again}"])


def find_running(cluster: Cluster, replicas: list[Replica]) -> Replica:
    """Return the replica that runs the only running request."""
    nodes = json.loads(cluster.paddock("cluster", "status", "--json", quiet=True).stdout)["nodes"]
    [name] = [each["id"] for each in nodes if each["running"]]
    [found] = [each for each in replicas if each.name == name]
    return found


def verify_record(cluster: Cluster) -> list[str]:
    """Verify the record of all replicas, and return what is wrong."""
    heading("The record of all replicas")
    for arguments in (("cluster", "status"), ("audit", "verify", "--cluster")):
        done = cluster.paddock(*arguments)
        print(done.stdout or done.stderr, end="")
    return [] if done.returncode == 0 else ["the record does not verify"]


def post(client: httpx2.Client, body: Body, key: str = "") -> Body:
    """Return the outcome of an execution, or the problem."""
    headers = {"Idempotency-Key": key} if key else {}
    return client.post("/v1/executions", json=body, headers=headers).json()


def describe(client: httpx2.Client, body: Body, key: str) -> str:
    """Send a request and return what its caller hears, as text."""
    try:
        answer = client.post("/v1/executions", json=body, headers={"Idempotency-Key": key})
    except httpx2.TransportError as error:
        return f"the connection was closed ({type(error).__name__})"
    if answer.headers.get("content-type", "").startswith("application/problem+json"):
        return answer.json()["type"].rpartition(":")[2]
    return answer.json()["status"] if answer.status_code == 200 else f"HTTP {answer.status_code}"


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Wait until a function returns true. Raises TimeoutError, which says what was waited for."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"it took longer than {PATIENCE_S:.0f} s until {what}")
        time.sleep(0.1)


def heading(text: str) -> None:
    """Print the title of a part."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
