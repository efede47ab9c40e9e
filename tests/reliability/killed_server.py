"""Kills an MCP server again and again while it works, in a pid namespace of its own; prints what was left as JSON.

unshare --pid --fork --mount-proc --kill-child python killed_server.py PLACE RUNS SEED

Everything lies below PLACE. The first process of a pid namespace inherits every orphan: when it has no child left,
nothing is left.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from paddock.model.errors import UnknownArtifact
from paddock.policy.redaction.scanner import Scanner
from paddock.policy.settings.schema import ArtifactSettings, RedactionSettings
from paddock.record.ledger.verify import verify
from paddock.record.output.artifacts import Artifacts
from paddock.record.output.query import OpenArtifact

ODD = Path(__file__).resolve().parents[1] / "servers/odd.py"
FORKS = "fork() for 1 .. 2; print 'x' x 90_000; sleep 1"
CALLS = (
    ("run_program", {"runtime": "perl", "code": "print 'x' x 90_000"}),
    ("run_program", {"runtime": "perl", "code": FORKS}),
    ("execute_code", {"code": "return 'x'.repeat(200_000)"}),
    ("execute_code", {"code": "return await servers.odd.call('echo', { text: 'hello' })"}),
    ("execute_code", {"code": "for (let n = 0; n < 50; n++) { console.log(n); await sleep(5) }"}),
    ("compute", {"source": "emit('x'.repeat(1000))"}),
)
HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "killer", "version": "1"},
}
PATIENCE_S = 60


class Server:
    """A server with a client that has sent it work."""

    def __init__(self, place: Path, calls: tuple) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(place / "home"),
            "TMPDIR": str(place / "tmp"),
            "LANG": "C.UTF-8",
        }
        self.process = subprocess.Popen(
            [Path(sys.executable).with_name("paddock"), "serve", "mcp"],
            cwd=place / "workspace",
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.waiting = set(range(1, len(calls) + 1))
        self.failed: list[str] = []
        self._text = b""
        self._send("initialize", HELLO, 0)
        self._send("notifications/initialized", {})
        for number, (name, arguments) in enumerate(calls, 1):
            self._send("tools/call", {"name": name, "arguments": arguments}, number)
        self.process.stdin.flush()

    def _send(self, method: str, params: dict, number: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        self.process.stdin.write(
            json.dumps(message if number is None else {**message, "id": number}).encode() + b"\n"
        )

    def listen(self, until: float) -> None:
        """Take answers until all are there, or until a moment."""
        while self.waiting and (left := until - time.monotonic()) > 0:
            if select.select([self.process.stdout], [], [], left)[0]:
                data = os.read(self.process.stdout.fileno(), 1 << 20)
                assert data, "the server ended"
                *lines, self._text = (self._text + data).split(b"\n")
                answers = list(map(json.loads, lines))
                self.waiting -= {answer.get("id") for answer in answers}
                self.failed += [
                    str(answer)[:500]
                    for answer in answers
                    if "error" in answer or answer.get("result", {}).get("isError")
                ]

    def close(self) -> None:
        """Close the pipes."""
        self.process.stdin.close()
        self.process.stdout.close()


def reaped() -> int:
    """Wait until no process is left; return how many were killed for taking too long."""
    deadline, killed = time.monotonic() + PATIENCE_S, 0
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return killed
        if pid == 0:
            if time.monotonic() > deadline:
                for folder in Path("/proc").glob("[0-9]*"):
                    if int(folder.name) != os.getpid():
                        killed += 1
                        os.kill(int(folder.name), signal.SIGKILL)
                deadline += PATIENCE_S
            time.sleep(0.002)


def halves(place: Path) -> list[str]:
    """Return what is wrong with stored output that can be found."""
    settings = ArtifactSettings(directory=place / "home/.local/state/paddock/artifacts")
    artifacts = Artifacts(settings, Scanner(RedactionSettings()))
    wrong = []
    for handle in artifacts.list():
        try:
            reading = OpenArtifact(artifacts, str(handle), None)
            assert reading.found.manifest is not None
            for stream in ("stdout", "stderr"):
                list(reading.pieces(stream))  # raises when it is not what the manifest says
        except UnknownArtifact:
            continue
        except Exception as error:  # noqa: BLE001 - all that goes wrong is told
            wrong.append(f"{handle}: {error!r}")
    return wrong


def below(directory: Path) -> list[str]:
    """Return every path below a directory."""
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def temporary(state: Path) -> list[str]:
    """Return files that were written to be renamed, and are still there; those of output expire with it."""
    return [name for name in below(state) if Path(name).name.startswith(".") and "artifacts/" not in name]


def main(place: Path, runs: int, seed: int) -> None:
    """Kill `runs` servers; print one JSON object."""
    for name in ("workspace", "home", "tmp"):
        (place / name).mkdir(parents=True, exist_ok=True)
    entry = {"command": sys.executable, "args": ["-I", "-S", str(ODD)]}
    (place / "workspace/.mcp.json").write_text(json.dumps({"mcpServers": {"odd": entry}}))
    state, luck = place / "home/.local/state/paddock", random.Random(seed)
    ledger = state / "audit"
    problems: list[str] = []

    def whole() -> float:
        """Have a server do its work and end; return how long the work took."""
        started = time.monotonic()
        server = Server(place, CALLS)
        server.listen(started + PATIENCE_S)
        took = time.monotonic() - started
        server.process.stdin.close()
        ended = server.process.wait(PATIENCE_S)
        if server.waiting or ended or server.failed:
            left = sorted(server.waiting)
            problems.append(f"an undisturbed server left {left}, ended {ended}, and failed: {server.failed}")
        server.close()
        return took

    took, answered, left = whole(), 0, 0
    for run in range(runs):
        moment = luck.uniform(0, took)
        server = Server(place, CALLS)
        server.listen(time.monotonic() + moment)
        server.process.kill()
        server.process.wait()
        server.close()
        answered += len(CALLS) - len(server.waiting)
        if late := reaped():
            problems.append(f"run {run}: {late} processes lived on")
        if ledger.exists():
            problems += [f"run {run}: {finding}" for finding in verify(ledger).problems]
        problems += [f"run {run}: {wrong}" for wrong in halves(place)]
        left += bool(below(place / "tmp"))
    whole()
    if late := reaped():
        problems.append(f"the end: {late} processes lived on")
    command = [Path(sys.executable).with_name("paddock"), "audit", "verify"]
    done = subprocess.run(
        command,
        env={"HOME": str(place / "home"), "PATH": os.environ["PATH"]},
        capture_output=True,
        check=False,
    )
    if done.returncode:
        problems.append(f"audit verify: {done.stdout.decode()[:500]} {done.stderr.decode()[:500]}")
    problems += [f"left in the temporary directory: {name}" for name in below(place / "tmp")]
    problems += [f"left in the state directory: {name}" for name in temporary(state)]
    report = {"problems": problems, "answered": answered, "left": left, "took_s": round(took, 2)}
    print(json.dumps(report))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
