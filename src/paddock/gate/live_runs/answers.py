"""Answer what another process of this user asks about the runs and sessions of this one."""

import asyncio
import base64
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from pydantic import ValidationError

from paddock.engines.sessions.programs import ProgramSession, ProgramSessions
from paddock.foundation.large_json import run_in_slices
from paddock.gate.live_runs.endpoint import STARTED, Entry
from paddock.model.errors import PaddockError
from paddock.model.live_runs import (
    MAX_ANSWER_BYTES,
    MAX_FILE_BYTES,
    MAX_RUNS,
    MAX_TAIL_CHARS,
    ContentNow,
    Done,
    FileNow,
    FilesNow,
    LiveQuestion,
    OutputNow,
    PaddockNow,
    ProcessNow,
    Refused,
    RunNow,
    SessionNow,
)
from paddock.model.printable import make_printable
from paddock.model.session import NEW, name_session

if TYPE_CHECKING:
    from paddock.engines.live_run import LiveRun
    from paddock.engines.sessions.table import OpenSession
    from paddock.model.base import Value
    from paddock.model.request import ExecutionRequest

_MAX_NAME_CHARS = 200
_MAX_OUTPUTS = 50
"""Maximum number of runs of one Paddock whose output is listed."""
_MAX_LINE_CHARS = 16 * 1024
"""Longer console lines are left out: to search them for secrets again at each look would take too long."""
_UNKNOWN = "there is no such run or session any more"
_log = logging.getLogger(__name__)


async def answer(line: bytes, entries: Sequence[Entry]) -> bytes:
    """Return the answer to a question about opened Paddocks, as a line of JSON."""
    try:
        question = LiveQuestion.model_validate_json(line)
        entries = [entry for entry in entries if question.user in {None, entry.user}]
        found: Value = await _answer(question, entries)
    except ValidationError:
        found = Refused(error="this version of Paddock does not know the question")
    except (PaddockError, OSError) as error:
        text = error.strerror if isinstance(error, OSError) else str(error)
        found = Refused(error=_shorten(text or "the file cannot be read", 1000))
    except Exception as error:  # noqa: BLE001 - the process that asks needs an answer
        _log.exception("a question about what runs now was not answered")
        found = Refused(error=f"Paddock failed ({type(error).__name__})")
    data = found.model_dump_json().encode("utf-8", "replace") + b"\n"
    return data if len(data) <= MAX_ANSWER_BYTES else _TOO_LARGE


_TOO_LARGE = Refused(error="the answer is too large").model_dump_json().encode() + b"\n"


async def _answer(question: LiveQuestion, entries: Sequence[Entry]) -> "Value":
    match question.ask:
        case "list":
            chars = question.output_chars
            paddocks = [await _describe_paddock(entry, chars) for entry in entries[:MAX_RUNS]]
            program = _shorten(os.path.basename(sys.argv[0]) or "python")
            return ProcessNow(pid=os.getpid(), program=program, since=STARTED, paddocks=tuple(paddocks))
        case "tail":
            entry, run = _find_run(question.id, entries)
            return _read_output(entry, run, MAX_TAIL_CHARS)
        case "stop":
            run = next((run for _, run in _list_runs(entries) if run.request.id == question.id), None)
            if run is not None:
                run.stopped_by = make_printable(question.by, _MAX_NAME_CHARS) or "another process"
                run.stop.set()
            return Done(found=run is not None)
        case "close":
            entry, table, session = _find_session(question.id, entries)
            return Done(found=await table.close_session(session.actor, session.id))
        case "files":
            entry, table, session = _find_session(question.id, entries)
            if not isinstance(session, ProgramSession):
                return FilesNow(files=())
            listed = await asyncio.to_thread(table.list_files_now, session.actor, session.id, MAX_RUNS + 1)
            hide = entry.opened.outgoing.text
            files = tuple(FileNow(path=hide(path)[:4096], size=size) for path, size in listed[:MAX_RUNS])
            return FilesNow(files=files, omitted=len(listed) > MAX_RUNS)
        case "file":
            entry, table, session = _find_session(question.id, entries)
            read = partial(table.read_file_now, session.actor, session.id, question.path, MAX_FILE_BYTES)
            return await _show_content(entry, await asyncio.to_thread(read))


def _list_runs(entries: Sequence[Entry]) -> "Iterator[tuple[Entry, LiveRun]]":
    """Yield what runs; for a user of a server only their own."""
    for entry in entries:
        for run in tuple(entry.opened.gate.runs.values()):
            if entry.user in {"", run.request.actor}:
                yield entry, run


def _find_run(id_: str, entries: Sequence[Entry]) -> "tuple[Entry, LiveRun]":
    found = next((pair for pair in _list_runs(entries) if pair[1].request.id == id_), None)
    if found is None:
        raise PaddockError(_UNKNOWN)
    return found


def _list_sessions(entry: Entry) -> "list[OpenSession]":
    table = entry.opened.programs.open_sessions
    sessions = [] if table is None else table.list_all()
    return [each for each in sessions if entry.user in {"", each.actor}]


def _find_session(name: str, entries: Sequence[Entry]) -> "tuple[Entry, ProgramSessions, OpenSession]":
    for entry in entries:
        table = entry.opened.programs.open_sessions
        for session in _list_sessions(entry):
            if table is not None and name_session(session.id) == name:
                return entry, table, session
    raise PaddockError(_UNKNOWN)


async def _describe_paddock(entry: Entry, output_chars: int) -> PaddockNow:
    opened = entry.opened
    engines = opened.gate.engines
    runs = [run for _, run in _list_runs([entry])][:MAX_RUNS]
    numbered = enumerate(runs)
    described = await asyncio.gather(
        *(_describe_run(entry, run, output_chars * (number < _MAX_OUTPUTS)) for number, run in numbered)
    )
    table = opened.programs.open_sessions
    sessions = (
        () if table is None else tuple(_describe_session(table, each) for each in _list_sessions(entry))
    )
    return PaddockNow(
        user=_shorten(entry.user),
        workspace=_shorten(str(entry.workspace), 1000),
        workers=engines.guests.workers,
        waiting=engines.guests.waiting + opened.programs.waiting,
        servers=opened.servers.running_count,
        tier=opened.processes.proved_tier or "",
        runs=tuple(described),
        sessions=sessions[:MAX_RUNS],
    )


async def _describe_run(entry: Entry, run: "LiveRun", output_chars: int) -> RunNow:
    request, hide = run.request, entry.opened.outgoing.text
    name, language = _name_work(request)
    use = None if run.measure is None else await run.measure()
    asks = entry.opened.gate.approvals.is_asking(request.id)
    session = getattr(request.work, "session", None)
    return RunNow(
        id=request.id,
        actor=_shorten(request.actor),
        surface=_shorten(request.surface),
        kind=request.work.kind,
        name=_shorten(hide(name)),
        language=_shorten(language),
        state="asking" if asks else "queued" if run.queued else "running",
        since=run.since,
        calls=run.calls,
        memory_bytes=None if use is None else use.memory_bytes,
        cpu_ms=None if use is None else use.cpu_ms,
        session=name_session(session) if session and session != NEW else "",
        output=_read_output(entry, run, output_chars) if output_chars else None,
    )


def _name_work(request: "ExecutionRequest") -> tuple[str, str]:
    """Return what a request runs, and its language, for people."""
    work = request.work
    match work.kind:
        case "guest":
            return work.name, "typescript" if work.language == "typescript" else "javascript"
        case "runtime":
            return work.file or ("program" if work.code is not None else " ".join(work.args)), work.runtime
        case "server":
            return f"{work.server}.{work.tool}", ""
        case "tool":
            return work.tool, ""
        case "sdk":
            return work.method, ""
        case "replay":
            return work.run or "recording", "javascript"
        case "changes":
            return f"{work.action} {work.id}", ""


def _describe_session(table: ProgramSessions, session: "OpenSession") -> SessionNow:
    info = table.describe(session)
    return SessionNow(
        name=name_session(info.id),
        actor=_shorten(session.actor),
        language=info.language,
        executions=info.executions,
        running=info.running,
        background=info.background,
        memory_bytes=info.memory_bytes,
        expires_in_s=info.expires_in_s,
        has_files=isinstance(session, ProgramSession),
    )


def _read_output(entry: Entry, run: "LiveRun", max_chars: int) -> OutputNow:
    if run.read_streams is not None:
        streams = run.read_streams()
        texts = [each.tail if each.omitted_bytes else each.head for each in streams]
        stdout, stderr = (text[-max_chars:] for text in texts)
        omitted = len(stdout) + len(stderr) < sum(map(len, texts)) or any(
            each.omitted_bytes for each in streams
        )
        return OutputNow(stdout=stdout, stderr=stderr, omitted=omitted)
    texts: list[str] = []
    room, omitted = max_chars, len(run.lines) == run.lines.maxlen
    for line in reversed(tuple(run.lines)):
        if len(line.text) > _MAX_LINE_CHARS:
            text = f"[a line of {len(line.text)} characters]"
        else:
            text = entry.opened.outgoing.line(line).text
        texts.append(text)
        room -= len(text) + 1
        if room < 0:
            omitted = True
            break
    return OutputNow(stdout="\n".join(reversed(texts))[-max_chars:], omitted=omitted)


async def _show_content(entry: Entry, data: bytes) -> ContentNow:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return ContentNow(text=None, data=base64.b64encode(data).decode())
    hidden = await run_in_slices(entry.opened.outgoing.json_in_slices(text))
    return ContentNow(text=hidden[:MAX_FILE_BYTES])


def _shorten(text: str, max_chars: int = _MAX_NAME_CHARS) -> str:
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"
