"""`paddock serve http` as a process, and a client of its endpoints for graders."""

import base64
import http.client
import json
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.command import PADDOCK, make_environment
from tests.support.processes import PATIENCE_S

TOKEN = "correct-horse-battery-staple-" + "0" * 14
BASIC = "Basic " + base64.b64encode(f"grader:{TOKEN}".encode()).decode()
_PATIENT_S = 60
"""Time limit of programs that end by themselves, in seconds, however busy the machine is."""


class Grader(NamedTuple):
    """A running server, and what a client knows of it."""

    port: int
    workspace: Path

    @property
    def url(self) -> str:
        """Its address with the token as password."""
        return f"http://grader:{TOKEN}@127.0.0.1:{self.port}"

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection to it."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def request(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return status code and JSON of the answer to a request."""
        connection = self.connect()
        given = {"Content-Type": "application/json", "Authorization": BASIC} if headers is None else headers
        try:
            connection.request(method, path, body, {**given})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Return status code and JSON of the answer to a JSON body."""
        return self.request("POST", path, json.dumps(body).encode())

    def run(self, code: str, language: str = "python", **fields: Any) -> Any:
        """Return what `/run_code` answers with the status code 200."""
        limits = {"run_timeout": _PATIENT_S, "compile_timeout": _PATIENT_S}
        status, answer = self.post("/run_code", {**limits, "code": code, "language": language, **fields})
        assert status == 200, answer
        return answer


@contextmanager
def open_grader(root: Path, settings: str, path: str | None = None) -> Generator[Grader]:
    """Run a server in a new workspace below `root`, with the settings of a user."""
    home, workspace = root / "home", root / "workspace"
    workspace.mkdir()
    file = home / ".config/paddock/paddock.toml"
    file.parent.mkdir(parents=True)
    file.write_text(settings)
    environment = make_environment(home, PADDOCK_TOKEN=TOKEN, **({} if path is None else {"PATH": path}))
    command = [PADDOCK, "serve", "http", "--http", "127.0.0.1:0"]
    with subprocess.Popen(
        command, cwd=workspace, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            assert line.startswith("listening on "), line + process.stderr.read()
            yield Grader(int(line.strip().rstrip("/").rpartition(":")[2]), workspace)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_S)
