"""Ask every process of this user what it runs now, and stop it there."""

import asyncio
import contextlib
import os
import socket
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import ValidationError

from paddock.gate.live_runs.endpoint import (
    SUFFIX,
    find_directory,
    find_problem,
    has_own_user,
    open_directory,
    receive_line,
)
from paddock.model.errors import PaddockError
from paddock.model.live_runs import (
    MAX_ANSWER_BYTES,
    ContentNow,
    Done,
    FilesNow,
    LiveQuestion,
    OutputNow,
    PaddockNow,
    ProcessNow,
    Refused,
    RunNow,
    SessionNow,
)

MAX_PROCESSES = 256
"""Maximum number of processes that are asked."""
_MAX_FILES = 1000
"""Maximum number of sockets that are looked at, with those of processes that have ended."""
_ANSWERS_WITHIN_S = 2.0
A = TypeVar("A", ProcessNow, OutputNow, Done, FilesNow, ContentNow)


class LiveState(NamedTuple):
    """What all processes of this user run now."""

    processes: tuple[ProcessNow, ...]
    """Oldest first."""
    problems: tuple[str, ...] = ()
    """Why some processes are missing."""

    @property
    def paddocks(self) -> list[PaddockNow]:
        """Everything that is open."""
        return [paddock for process in self.processes for paddock in process.paddocks]

    @property
    def runs(self) -> list[RunNow]:
        """All runs, the oldest first."""
        runs = [run for paddock in self.paddocks for run in paddock.runs]
        return sorted(runs, key=lambda run: (run.since, run.id))

    @property
    def sessions(self) -> list[SessionNow]:
        """All open sessions."""
        return [session for paddock in self.paddocks for session in paddock.sessions]


class LiveRuns:
    """The runs and sessions of all processes of this user; for a user of a server, those of that user."""

    def __init__(self, user: str | None = None, *, by: str = "", directory: Path | None = None) -> None:
        """`user` is a user of a server; None for the owner. `by` names who ends runs. `directory` has the sockets."""
        self._user = user
        self._by = by[:200]
        self._directory = directory or find_directory()

    async def list_all(self, output_chars: int = 0) -> LiveState:
        """Return what all processes run now, with so many characters of the output of each run."""
        question = LiveQuestion(ask="list", output_chars=output_chars, user=self._user)
        answers = await self._ask_all(question, ProcessNow)
        found = sorted(
            (each for each in answers if isinstance(each, ProcessNow)), key=lambda process: process.since
        )
        problems = [each for each in (*answers, find_problem()) if isinstance(each, str) and each]
        return LiveState(tuple(filter(self._shows, found)), tuple(problems))

    def _shows(self, process: ProcessNow) -> bool:
        """Return whether a process is shown: the owner sees all, a user only those that have something of theirs."""
        return self._user is None or bool(process.paddocks)

    async def read_output(self, run: str) -> OutputNow:
        """Return the output of a run so far. Raises PaddockError for a run that has ended."""
        return await self._find(LiveQuestion(ask="tail", id=run, user=self._user), OutputNow)

    async def stop_run(self, run: str) -> bool:
        """End a run in order, as `cancelled`. Return whether there was one."""
        return await self._do(LiveQuestion(ask="stop", id=run, by=self._by, user=self._user))

    async def close_session(self, name: str) -> bool:
        """Close a session by its name. Return whether there was one."""
        return await self._do(LiveQuestion(ask="close", id=name, user=self._user))

    async def list_files(self, session: str) -> FilesNow:
        """Return the files of a session. Raises PaddockError for one that has ended."""
        return await self._find(LiveQuestion(ask="files", id=session, user=self._user), FilesNow)

    async def read_file(self, session: str, path: str) -> ContentNow:
        """Return the content of a file of a session. Raises PaddockError for one that cannot be shown."""
        question = LiveQuestion(ask="file", id=session, path=path[:8000], user=self._user)
        return await self._find(question, ContentNow)

    async def _do(self, question: LiveQuestion) -> bool:
        answers = await self._ask_all(question, Done)
        return any(isinstance(each, Done) and each.found for each in answers)

    async def _find(self, question: LiveQuestion, kind: type[A]) -> A:
        answers = await self._ask_all(question, kind)
        for each in answers:
            if isinstance(each, kind):
                return each
        reasons = [each for each in answers if isinstance(each, str) and each != _UNKNOWN]
        raise PaddockError(reasons[0] if reasons else _UNKNOWN)

    async def _ask_all(self, question: LiveQuestion, kind: type[A]) -> list[A | str]:
        """Return the answers of all processes, or why one did not answer."""
        try:
            folder = open_directory(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            return [f"{self._directory}: {error.strerror}"]
        try:
            names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
            found = [each for name in names[:_MAX_FILES] if (each := _connect(folder, name)) is not None]
        finally:
            os.close(folder)
        asking = [_ask(each, question, kind) for each in found[:MAX_PROCESSES]]
        for each in found[MAX_PROCESSES:]:
            each.peer.close()
        return [*await asyncio.gather(*asking)]


_UNKNOWN = "there is no such run or session any more"


class _Connection(NamedTuple):
    """The connection to another process, or why there is none."""

    pid: str
    peer: socket.socket
    problem: str = ""


def _connect(folder: int, name: str) -> _Connection | None:
    """Connect to the socket of a process; None for one that has ended, whose socket is removed."""
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    connection, problem = _Connection(name.partition("-")[0][:20], peer), ""
    try:
        # A Unix socket connects at once, or the queue of the other process is full (unix(7)).
        peer.connect(f"/proc/self/fd/{folder}/{name}")
        if not has_own_user(peer):
            problem = "it belongs to another user"
    except BlockingIOError:
        problem = "it is busy"
    except (ConnectionRefusedError, FileNotFoundError):
        peer.close()
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        return None
    except OSError as error:
        problem = error.strerror or str(error)
    return connection._replace(problem=problem)


async def _ask(connection: _Connection, question: LiveQuestion, kind: type[A]) -> A | str:
    """Return the answer of one process, or why there is none."""
    pid, peer, problem = connection
    failed = f"process {pid} did not answer"
    with peer:
        if problem:
            return f"{failed}: {problem}"
        try:
            async with asyncio.timeout(_ANSWERS_WITHIN_S):
                await asyncio.get_running_loop().sock_sendall(
                    peer, question.model_dump_json().encode() + b"\n"
                )
                line = await receive_line(peer, MAX_ANSWER_BYTES)
        except TimeoutError:
            return f"{failed} within {_ANSWERS_WITHIN_S:.0f} s"
        except OSError as error:
            return f"{failed}: {error.strerror or error}"
    try:
        return kind.model_validate_json(line)
    except ValidationError:
        pass
    try:
        return Refused.model_validate_json(line).error
    except ValidationError:
        return f"{failed} as Paddock does"
