"""Starts the installed command by fork instead of exec: what it imports is imported once for all tests.

Most of the time of a short command goes into imports, one second for an MCP server, and the tests start thousands.
A forked command is a child of the test process like any other: it has a separate pid, streams and exit status, and
receives signals. The rooms of `tests.conftest.FORKED` start commands like this; `TEST_EXECUTED=1` has all
of them executed.
"""

import atexit
import ctypes
import fcntl
import inspect
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.command import PADDOCK
from tests.support.stand_in import write_stand_in

_PR_SET_CHILD_SUBREAPER = 36
_MAX_SERVERS = 3
"""Each holds some 100 MB; the environments of nearly all tests start two."""
_MAX_REQUEST_BYTES = 100_000
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "GLIBC_", "OPENSSL_")
"""Beginnings of variables that are read when a process starts."""
_AT_IMPORT = ("OTEL_", "PYDANTIC_")
"""Beginnings of variables that other packages read when they are imported."""

_LIMITS = sorted({getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")})

_start = subprocess.Popen._execute_child
_parameters = inspect.signature(_start)
_libc = ctypes.CDLL(None, use_errno=True)
_lock = threading.Lock()
_servers: dict[tuple[tuple[str, str], ...], "_Server"] = {}


class _Server(NamedTuple):
    """A fork server."""

    requests: socket.socket
    process: subprocess.Popen[bytes]
    folder: Path
    """Of its address for others."""


@contextmanager
def forking() -> Iterator[None]:
    """Have this process start the installed command by fork meanwhile."""
    if os.environ.get("TEST_EXECUTED") != "1":
        subprocess.Popen._execute_child = _execute_child
    try:
        yield
    finally:
        subprocess.Popen._execute_child = _start


def find_stand_in(environment: Mapping[str, str]) -> str:
    """Return the path of the command for processes that start it in an environment like this one.

    It starts by fork where this process forks (`forking`); it takes no notice of PYTHONPATH.
    """
    if subprocess.Popen._execute_child is _start:
        return PADDOCK
    server = _find_server({name: value for name, value in environment.items() if name != "PYTHONPATH"})
    return str(server.folder / "paddock") if server else PADDOCK


def take_terminal() -> None:
    """Have the terminal at standard input control the session of this process, as `preexec_fn`."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def _execute_child(self: Any, *arguments: Any) -> None:
    """Start a process as `subprocess.Popen` does."""
    given = _parameters.bind(self, *arguments).arguments
    request = _make_request(given)
    server = request and _find_server(request["environment"])
    if not server:
        _start(self, *arguments)
        return
    pipes = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
    streams = [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)]
    with _lock:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(server.requests, [json.dumps(request).encode()], streams)
            answer = server.requests.recv(20)
            assert answer, "the fork server has ended: its standard error says why"
            self.pid = int(answer)
        finally:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    self._child_created = True
    names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
    self._close_pipe_fds(*(given[name] for name in names))


def _make_request(given: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the fork server needs to know of a process, or None if it must be executed."""
    words = given["args"]
    if given["shell"] or isinstance(words, str | bytes | os.PathLike) or os.fspath(words[0]) != PADDOCK:
        return None
    plain = {
        "close_fds": True,
        "pass_fds": (),
        "restore_signals": True,
        "gid": None,
        "gids": None,
        "uid": None,
        "umask": -1,
        "process_group": -1,
    }
    if any(given[name] != value for name, value in plain.items()):
        return None
    if given["preexec_fn"] not in {None, take_terminal}:
        return None
    directory = os.fsdecode(given["cwd"] or ".")
    environment: Mapping[Any, Any] = os.environ if given["env"] is None else given["env"]
    request = {
        "arguments": [os.fsdecode(word) for word in words],
        "cwd": str(Path(directory).absolute()),
        "environment": {os.fsdecode(name): os.fsdecode(value) for name, value in environment.items()},
        "session": bool(given["start_new_session"]),
        "limits": {number: resource.getrlimit(number) for number in _LIMITS},
        "terminal": given["preexec_fn"] is take_terminal,
    }
    if any(name.startswith(_AT_IMPORT) for name in request["environment"]):
        return None
    fits = len(json.dumps(request)) <= _MAX_REQUEST_BYTES
    return request if fits and Path(directory).is_dir() and os.access(directory, os.X_OK) else None


def _find_server(environment: Mapping[str, str]) -> _Server | None:
    """Return the fork server for commands with an environment; None if there are too many different ones."""
    with _lock:
        key = tuple(
            sorted((name, value) for name, value in environment.items() if name.startswith(_AT_START))
        )
        if key not in _servers and len(_servers) < _MAX_SERVERS:
            _servers[key] = _start_server(dict(key))
        return _servers.get(key)


def _start_server(environment: dict[str, str]) -> _Server:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    program = Path(__file__).with_name("fork_server.py")
    folder = Path(tempfile.mkdtemp(prefix="paddock-tests-"))
    strangers = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    strangers.bind(address := str(folder / "socket"))
    strangers.listen()
    with theirs, strangers:
        passed = [theirs.fileno(), strangers.fileno()]
        process = subprocess.Popen(
            [sys.executable, str(program), *map(str, passed)],
            cwd="/",
            env={"PATH": os.defpath, **environment},
            pass_fds=passed,
        )
    write_stand_in(folder, PADDOCK, address)
    return _Server(ours, process, folder)


@atexit.register
def _end_servers() -> None:
    for server in _servers.values():
        server.requests.close()
        server.process.wait()
        shutil.rmtree(server.folder)
