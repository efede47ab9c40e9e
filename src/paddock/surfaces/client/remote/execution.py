"""One execution on a server: its work as JSON, its events for the listeners, its outcome, and its cancellation."""

import asyncio
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import uuid4

from paddock.foundation.cancellation import call_when_set, run_shielded
from paddock.model.base import Json
from paddock.model.errors import PaddockError, RequestError
from paddock.model.limits import Calls, LimitOverrides
from paddock.model.outcome import CallRecord, ConsoleLine, Outcome
from paddock.model.request import GuestRun, RuntimeRun, ServerCall, Work
from paddock.model.work_files import InputFile
from paddock.surfaces.client.remote.answers import make_answer, read_json
from paddock.surfaces.client.remote.connection import ApiConnection, TryAgain, encode_json, repeat

if TYPE_CHECKING:
    from paddock.model.artifact import Stream
    from paddock.model.outcome import OnConsole
    from paddock.policy.redaction.outgoing import OnCall
    from paddock.record.output.recording import OnOutput

CANCEL_S = 15.0
"""Maximum time for a cancellation, in seconds: the server gives an execution 10 seconds to end."""
START_S = 5.0
"""Maximum time that a cancellation waits for the id of its execution, in seconds."""
_PATH = "/v1/executions"
_ID_PATTERN = re.compile(r"[0-9A-Za-z_-]{1,64}", re.ASCII)
_STREAMS: Mapping[str, "Stream"] = {"stdout": "stdout", "stderr": "stderr"}
_WRITTEN_OTHERWISE = {"kind", "runtime", "stdin", "access", "network", "hosts", "files", "output"}
"""Fields of a program that the API has under another name, or in another form."""


def make_body(work: Work, limits: LimitOverrides, calls: Calls, *, jit: bool) -> dict[str, Json]:
    """Return the body of an execution. Raises RequestError for work that the API does not offer."""
    match work:
        case GuestRun() if work.computes:
            body = {
                "kind": "compute",
                "code": work.source,
                "input": work.input,
                "deterministic": work.deterministic,
                "partial": work.partial,
                "jit": jit,
            }
        case GuestRun(profile="execute"):
            body = {"kind": "run", "code": work.source, "input": work.input, "session": work.session}
            body |= {"mode": calls, "jit": jit, "check": work.check, "record": work.record or None}
        case RuntimeRun():
            body = {  # what differs from the API's defaults
                **work.model_dump(exclude_defaults=True, exclude=_WRITTEN_OTHERWISE),
                "kind": "exec",
                "language": work.runtime,
                "stdin_base64": None if work.stdin is None else b64encode(work.stdin).decode(),
                "access": work.access if "access" in work.model_fields_set else None,
                "network": list(work.hosts) if work.hosts is not None else work.network,
                "files": [_describe_file(file) for file in work.files] or None,
                "combined": work.output.combined or None,
                "keep": None if work.output.persist else False,
            }
        case ServerCall():
            body = {"kind": "call", "server": work.server, "tool": work.tool, "arguments": work.arguments}
        case _:
            raise RequestError("the HTTP API does not offer this kind of work")
    body |= {name: value for name, value in limits if value is not None}
    return {name: value for name, value in body.items() if value is not None}


def _describe_file(file: InputFile) -> dict[str, Json]:
    if file.data is not None:
        return {"path": file.path, "base64": b64encode(file.data).decode()}
    if file.workspace is not None:
        return {"path": file.path, "workspace": file.workspace}
    return {"path": file.path, "artifact": file.artifact}


class Listeners(NamedTuple):
    """The callbacks of one execution."""

    on_console: "OnConsole | None" = None
    on_output: "OnOutput | None" = None
    on_call: "OnCall | None" = None


class _ListenerFailed(Exception):
    """A listener raised, which ends the execution."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class RemoteExecution:
    """One execution. The server starts it at most once, however often the request is sent."""

    def __init__(self, connection: ApiConnection, body: Mapping[str, Json], listeners: Listeners) -> None:
        self._connection = connection
        self._content = encode_json(dict(body))
        self._listeners = listeners
        self._key = str(uuid4())
        self._id = ""
        self._started = asyncio.Event()
        """Set when the server has said its id."""

    async def run(self, stop: asyncio.Event | None = None) -> Outcome:
        """Return the outcome. The execution is cancelled with the caller, by `stop`, and by an error of a listener.

        Raises PaddockError, and what a listener raised.
        """
        reading = asyncio.ensure_future(repeat(self._attempt, safe=True))
        cancelling: list[asyncio.Task[None]] = []
        with call_when_set(stop, lambda: cancelling.append(asyncio.ensure_future(self.cancel()))):
            try:
                await asyncio.wait({reading})
            except asyncio.CancelledError:
                await run_shielded(self._abandon(reading))
                raise
            finally:
                for task in cancelling:
                    task.cancel()
        try:
            return reading.result()
        except _ListenerFailed as failed:
            await run_shielded(self.cancel())
            raise failed.error from None

    async def cancel(self) -> None:
        """Cancel it on the server, if the server has started it. Does nothing if the server cannot be reached."""
        with suppress(PaddockError, TimeoutError):
            async with asyncio.timeout(START_S):
                await self._started.wait()
            async with asyncio.timeout(CANCEL_S):
                await self._connection.send("DELETE", f"{_PATH}/{self._id}")

    async def _abandon(self, reading: "asyncio.Task[Outcome]") -> None:
        """Cancel it, and then stop reading: only what it said names it."""
        cancelling = asyncio.ensure_future(self.cancel())
        await asyncio.wait({reading, cancelling}, return_when=asyncio.FIRST_COMPLETED)
        cancelling.cancel()
        reading.cancel()
        await asyncio.wait({reading, cancelling})

    async def _attempt(self) -> Outcome:
        async with self._connection.stream(_PATH, self._content, self._key) as events:
            async for name, data in events:
                if (outcome := await self._take(name, data)) is not None:
                    return outcome
        known = f" The record of the server knows it as {self._id}." if self._id else ""
        text = f"the answer of {self._connection.server} ended before the outcome.{known}"
        raise TryAgain(PaddockError(text), reached=True)

    async def _take(self, name: str, data: bytes) -> Outcome | None:
        """Pass an event on; return the outcome if it is the last one."""
        match name:
            case "started":
                self._take_id(await read_json(data))
            case "console" if self._listeners.on_console is not None:
                line = make_answer(ConsoleLine, await read_json(data))
                self._call(self._listeners.on_console, line)
            case "call" if self._listeners.on_call is not None:
                self._call(self._listeners.on_call, make_answer(CallRecord, await read_json(data)))
            case "output" if self._listeners.on_output is not None:
                value = await read_json(data)
                fields = cast("dict[str, Json]", value) if isinstance(value, dict) else {}
                stream, text = _STREAMS.get(str(fields.get("stream"))), fields.get("text")
                if stream is None or not isinstance(text, str):
                    raise PaddockError("The server's event `output` has no stream or no text.")
                self._call(self._listeners.on_output, stream, text.encode("utf-8", "replace"))
            case "outcome":
                return make_answer(Outcome, await read_json(data))
            case "problem":
                self._connection.raise_problem(await read_json(data))
            case _:  # questions are for people; later versions may have further events
                pass
        return None

    def _take_id(self, value: Json) -> None:
        id_ = cast("dict[str, Json]", value).get("id") if isinstance(value, dict) else None
        if not isinstance(id_, str) or not _ID_PATTERN.fullmatch(id_):
            raise PaddockError("The server's event `started` has no valid id.")
        self._id = id_
        self._started.set()

    def _call(self, listener: Callable[..., None], *values: object) -> None:
        try:
            listener(*values)
        except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits
            raise _ListenerFailed(error) from None
