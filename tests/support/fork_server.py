"""The process that `tests.support.forked` starts: it imports what `paddock` imports, and forks for each command.

    test process ── request, standard streams ──> fork server ── fork ──> in between ── fork ──> paddock
         └────────────────────── adopts the command when the process in between has ended ──────────┘

The test process is a subreaper (prctl(2)) for that moment, so that the command is its child, as after exec(2). Where a
process that is no ancestor asks (`tests.support.stand_in`), the process in between stays, and tells it how the command
ended.
"""

import atexit
import fcntl
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import resource
import select
import signal
import socket
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

LOADED = (
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "jsonschema_rs",
    "mcp",
    "paddock.confinement.network.http_transport",
    "paddock.confinement.network.outer_proxy",
    "paddock.confinement.sandbox.checked",
    "paddock.confinement.sandbox.sandbox",
    "paddock.confinement.sandbox.tiers",
    "paddock.engines.javascript.engine",
    "paddock.engines.programs.engine",
    "paddock.engines.secrets.stored_logins",
    "paddock.engines.servers.catalog.catalog",
    "paddock.engines.servers.catalog.inferred_types",
    "paddock.engines.servers.catalog.semantic_choice",
    "paddock.engines.servers.pins",
    "paddock.engines.sessions.table",
    "paddock.record.output.work_files",
    "paddock.record.telemetry.instrument",
    "paddock.record.telemetry.logs",
    "paddock.record.telemetry.metrics",
    "paddock.record.telemetry.observed_sink",
    "paddock.surfaces.mcp_server.http.app",
    "paddock.surfaces.mcp_server.service",
    "psycopg",
    "psycopg_pool",
    "pydantic.v1",
    "re2",
    "rich.console",
    "uvicorn.lifespan.on",
)
"""Modules that commands import, besides those of `ROOMS`."""
ROOMS = (
    "paddock.cluster",
    "paddock.engines.servers.auth",
    "paddock.engines.servers.calls",
    "paddock.gate",
    "paddock.surfaces.cli",
    "paddock.surfaces.http_api",
    "paddock.surfaces.tenants",
)
"""Packages of which commands import nearly every module."""
MARKS = (("paddock.model.numbers", "MARK"), ("paddock.engines.sessions.table", "_PROCESS_MARK"))
"""Random constants that differ between processes."""
STARVATION = ("paddock.engines.javascript.worker_client", "paddock.engines.programs.outcome_mapping")
"""Modules that decide whether a program that ran out of time was starved of processors."""
EXIT_CODES: list[object] = []
"""What the command left Python with, once it did."""


@atexit.register  # as the first one, so that it is called after all others
def skip_teardown() -> None:
    """End the process before the interpreter takes its modules apart, which would copy the pages that hold them.

    The interpreter itself ends what is not usual: a text as exit code, and output that cannot be written.
    """
    match EXIT_CODES:
        case [None]:
            code = 0
        case [int(code)]:
            pass
        case _:
            return
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(code)


def load() -> None:
    """Import modules and fill their caches; leave all of it out of garbage collections, which would copy their pages."""
    os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # as `paddock` does before it imports pydantic
    for name in LOADED:
        importlib.import_module(name)
    for name in ROOMS:
        for module in pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in STARVATION:  # whatever else runs on the machine decides no verdict, as in `tests.conftest`
        importlib.import_module(name).count_processors = lambda: 0.0  # type: ignore[attr-defined]
    fill_caches()
    sys.path.insert(0, str(Path(__file__).parent))
    importlib.import_module("proofs").prove_for_children()
    sys.path.pop(0)
    del os.environ["PYDANTIC_DISABLE_PLUGINS"]
    gc.collect()
    gc.freeze()


def fill_caches() -> None:
    """Build the validators of models, and read data of the package, which a command does at the first use."""
    from pydantic import BaseModel

    from paddock.engines.programs.recipe import recipes

    waiting = BaseModel.__subclasses__()
    while waiting:
        model = waiting.pop()
        model.model_rebuild()
        waiting += model.__subclasses__()
    recipes()


def find_uses(mark: str) -> list[tuple[dict[str, Any], str]]:
    """Return where modules of Paddock hold a mark, or a pattern with it, as a dictionary and a key."""
    holders = [vars(module) for name, module in sys.modules.items() if name.startswith("paddock.")]
    return [
        (holder, name)
        for holder in holders
        for name, value in holder.items()
        if value == mark or (isinstance(value, re.Pattern) and mark in str(value.pattern))
    ]


def renew(mark: str, uses: list[tuple[dict[str, Any], str]]) -> None:
    """Draw a mark again, for this process alone."""
    new = os.urandom(len(mark) // 2).hex()
    for holder, name in uses:
        match holder[name]:
            case re.Pattern(pattern=bytes(pattern), flags=flags):
                holder[name] = re.compile(pattern.replace(mark.encode(), new.encode()), flags)
            case re.Pattern(pattern=pattern, flags=flags):
                holder[name] = re.compile(pattern.replace(mark, new), flags)
            case _:
                holder[name] = new


def serve(requests: socket.socket, strangers: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Return the request in the process that is to be the command, None at the end."""
    tests = os.getppid()
    while True:
        if strangers in select.select([requests, strangers], [], [])[0]:
            found = serve_stranger(strangers.accept()[0])
            if found is not None:
                return found
            continue
        data, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not data:
            return None
        reader, writer = os.pipe()
        between = os.fork()
        if between == 0:
            command = os.fork()
            if command:
                os.write(writer, b"%d" % command)
                os._exit(0)
            while os.getppid() != tests:
                os.sched_yield()
            take_streams(streams)
            return json.loads(data)
        os.close(writer)
        os.waitpid(between, 0)
        requests.send(os.read(reader, 20))
        for stream in (reader, *streams):
            os.close(stream)


def serve_stranger(stranger: socket.socket) -> dict[str, Any] | None:
    """Fork for one request. Return the request in the process that is to be the command, None in the fork server."""
    data, streams, _, _ = socket.recv_fds(stranger, 1 << 20, 3)
    if os.fork():
        for stream in streams:
            os.close(stream)
        stranger.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return None
    command = os.fork()
    if command == 0:
        take_streams(streams)
        return json.loads(data)
    for stream in streams:
        os.close(stream)
    stranger.send(b"%d" % command)
    handle = os.pidfd_open(command)
    if handle not in select.select([stranger, handle], [], [])[0]:  # the stranger is gone
        os.kill(command, signal.SIGKILL)
    with suppress(OSError):
        stranger.send(b"%d" % os.waitpid(command, 0)[1])
    os._exit(0)


def take_streams(streams: list[int]) -> None:
    """Make descriptors the standard streams, and close all others."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def become_command(request: dict[str, Any]) -> None:
    """Set what distinguishes a new process: directory, limits, session, environment, arguments, streams and name."""
    os.chdir(request["cwd"])
    for number, limit in request["limits"].items():
        resource.setrlimit(int(number), tuple(limit))
    if request["session"]:
        os.setsid()
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Python adds it where the locale would be C (PEP 538).
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update({**coerced, **request["environment"]})
    time.tzset()
    sys.argv = request["arguments"]
    Path("/proc/self/comm").write_text(Path(sys.argv[0]).name)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        old = getattr(sys, name)
        unbuffered = number > 0 and old.write_through
        raw = io.FileIO(number, "w" if number else "r", closefd=False)
        buffer = raw if unbuffered else io.BufferedWriter(raw) if number else io.BufferedReader(raw)
        stream = io.TextIOWrapper(
            buffer,  # type: ignore[arg-type]
            encoding=old.encoding,
            errors=old.errors,
            newline="\n",
            line_buffering=raw.isatty() or name == "stderr",
            write_through=unbuffered,
        )
        stream.mode = raw.mode
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    sys.path[0] = str(Path(sys.executable).parent)  # as for the installed command, instead of tests/support
    load()
    marks = [getattr(sys.modules[module], name) for module, name in MARKS]
    uses = {mark: find_uses(mark) for mark in marks}
    found = serve(*(socket.socket(fileno=int(number)) for number in sys.argv[1:]))
    if found is not None:
        for mark, places in uses.items():
            renew(mark, places)
        become_command(found)
        from paddock.surfaces.cli import main

        try:
            main()
        except SystemExit as leaving:
            EXIT_CODES.append(leaving.code)
            raise
        EXIT_CODES.append(None)
