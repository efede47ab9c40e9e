"""The installed command as a server of the HTTP API, and clients of it."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
from tests.support.command import PADDOCK, make_environment, run_paddock
from tests.support.processes import PATIENCE_S
from tests.support.servers import make_entry, write_servers

TOKEN = "correct-horse-battery-staple"
"""The token of the owner of the server."""
OWNER = "http"
JSON = {"Content-Type": "application/json"}
POLL_S = 0.01
"""Pause before a GET is repeated, in seconds. Without it, a test that polls takes the processors from what it waits for."""


class ApiPlace:
    """A workspace with the servers `odd` and `even`, a home and an environment."""

    def __init__(self, root: Path) -> None:
        self.workspace = root / "ws"
        self.workspace.mkdir()
        self.home = root / "home"
        self.home.mkdir()
        self.inside: tuple[str, ...] = ()
        """Command that starts the server, for example in a namespace; its arguments are those of the server."""
        self.environment = make_environment(
            self.home,
            PADDOCK_SERVERS_SEMANTIC_SEARCH="off",
            XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache")),
        )
        write_servers(self.workspace, {"odd": make_entry("odd"), "even": make_entry("odd")})

    def settings(self, text: str) -> None:
        """Write the settings of the user."""
        file = self.home / ".config/paddock/paddock.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def make_token(self, name: str, *options: str) -> str:
        """Make a token for another user, and return it."""
        made = run_paddock(
            self.workspace, "serve", "token", "new", name, *options, environment=self.environment
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.split()[-1]

    def paddock(self, *arguments: str) -> Any:
        """Return what a command prints as JSON."""
        done = run_paddock(self.workspace, *arguments, environment=self.environment)
        return json.loads(done.stdout)

    @contextmanager
    def serve(
        self, *flags: str, address: str = "127.0.0.1:0", command: str = PADDOCK
    ) -> Iterator["ApiServer"]:
        """Start the server; `command` is Paddock, perhaps of another version."""
        process = subprocess.Popen(
            [*self.inside, command, "serve", "http", "--http", address, *flags],
            cwd=self.workspace,
            env={**self.environment, "PADDOCK_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("listening on "), line + process.stderr.read()
            yield ApiServer(process, line.removeprefix("listening on ").strip())
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()


class ApiServer:
    """A running server."""

    def __init__(self, process: "subprocess.Popen[str]", url: str) -> None:
        self.process = process
        self.url = url
        self.port = int(url.rpartition(":")[2])

    @contextmanager
    def client(self, token: str | None = TOKEN, **options: Any) -> Iterator["ApiClient"]:
        """Open a client with a token."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        with httpx2.Client(base_url=self.url, headers=headers, timeout=PATIENCE_S, **options) as http:
            yield ApiClient(http)

    def stop(self) -> None:
        """Ask the server to end, as a supervisor does."""
        self.process.send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """Return the exit code of the server."""
        return self.process.wait(PATIENCE_S)


class ApiClient:
    """A client of the API with one token."""

    def __init__(self, http: httpx2.Client) -> None:
        self.http = http
        self.post, self.put, self.delete = http.post, http.put, http.delete
        self._last = ""
        """Path of the last GET."""

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """Send a GET, after a pause if it is the same as the last one."""
        if path == self._last:
            time.sleep(POLL_S)
        self._last = path
        return self.http.get(path, **options)

    def run(self, path: str = "/v1/executions", headers: Mapping[str, str] | None = None, **body: Any) -> Any:
        """Return the outcome of an execution."""
        answer = self.post(path, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def begin(self, **body: Any) -> str:
        """Start an execution and return its id."""
        answer = self.post("/v1/executions", json=body, headers={"Prefer": "respond-async"})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def look_up(self, id_: str) -> Any:
        """Return the state of an execution."""
        answer = self.get(f"/v1/executions/{id_}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def wait_for(self, id_: str, holds: Callable[[Any], bool]) -> Any:
        """Return the state of an execution, once it is as wanted."""
        while not holds(state := self.look_up(id_)):
            pass
        return state

    def wait_for_end(self, id_: str) -> Any:
        """Return an execution that has ended."""
        return self.wait_for(id_, lambda state: state["state"] == "finished")

    @contextmanager
    def events(self, path: str = "/v1/executions", **body: Any) -> Iterator[Iterator[tuple[str, Any]]]:
        """Start an execution and yield its events, as names with data."""
        headers = {"Accept": "text/event-stream"}
        with self.http.stream("POST", path, json=body, headers=headers) as answer:
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            yield read_events(answer.iter_lines())

    def problem(self, method: str, path: str, **options: Any) -> tuple[int, str, str]:
        """Return status, type and detail of a problem."""
        return read_problem(self.http.request(method, path, **options))


def read_events(lines: Iterator[str]) -> Iterator[tuple[str, Any]]:
    """Yield server-sent events as names with their data, without those that only have an id."""
    name = ""
    for line in lines:
        field, _, value = line.partition(": ")
        if field == "event":
            name = value
        elif field == "data" and value:
            yield name, json.loads(value)


def read_problem(answer: httpx2.Response) -> tuple[int, str, str]:
    """Return status, type and detail of an answer that must be a problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["type"].startswith("urn:paddock:problem:")
    return answer.status_code, document["type"].removeprefix("urn:paddock:problem:"), document["detail"]


def make_head(server: ApiServer, *fields: str, line: str = "POST /v1/executions") -> bytes:
    """Return the head of a request as bytes, for clients that misbehave."""
    host = f"Host: 127.0.0.1:{server.port}"
    lines = [f"{line} HTTP/1.1", host, f"Authorization: Bearer {TOKEN}", "Content-Type: application/json"]
    return "\r\n".join([*lines, *fields, "", ""]).encode()


def read_pong(plain: socket.socket) -> bool:
    """Read the answer to `GET /v1/ping` from a connection, and return whether it is right."""
    data = b""
    while not data.endswith(b'"pong"'):
        piece = plain.recv(65536)
        if not piece:
            return False
        data += piece
    return data.startswith(b"HTTP/1.1 200 OK\r\n")


def wait_until_free(port: int) -> None:
    """Wait until a server can listen on a port of loopback again: a connection of another test may have got it."""
    while True:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return


class Background:
    """Calls a function in a thread, and has what it returned."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._result: Any = None
        self._error: BaseException | None = None

        def call() -> None:
            try:
                self._result = function()
            except BaseException as error:  # noqa: BLE001 - raised by `result`
                self._error = error

        self._thread = threading.Thread(target=call, daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Return what the function returned, once it has."""
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error
        return self._result
