"""The requests of one open Paddock: checks of the caller, errors of listeners, and cancellation."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, Unpack

from paddock.foundation.cancellation import cancel_all
from paddock.model import languages
from paddock.model.errors import PaddockError, RequestError
from paddock.model.outcome import CallRecord, ConsoleLine, Outcome
from paddock.model.request import ExecutionRequest
from paddock.surfaces.client.arguments import check_listeners, check_type, make_value

if TYPE_CHECKING:
    from paddock.foundation.fair_slots import Slot
    from paddock.gate.approvals import Asker
    from paddock.gate.open_paddock import OpenPaddock
    from paddock.gate.watchers import Listeners
    from paddock.model.limits import Calls, LimitOverrides
    from paddock.model.request import RequestKey, Work
    from paddock.policy.settings.schema import RuntimeSettings
    from paddock.record.output.artifacts import Artifacts

P = ParamSpec("P")

FORKED = (
    "this Paddock was opened before a fork and works only in the parent process: open another "
    "one after the fork"
)
_OTHER_LOOP = "this Paddock was opened on another event loop: open one on each loop, or use BlockingPaddock"
_CLOSED = "this Paddock was closed during the request, which was cancelled"


class LibraryCaller(NamedTuple):
    """Who sends the requests of a Paddock, and how."""

    actor: str
    """Name of the caller in the record."""
    surface: str = "library"
    asker: "Asker | None" = None
    """Asks a person about these requests; None for the asker of the opened Paddock."""
    request_id: str | None = None
    """Id of the only request that is sent, where it is chosen in advance; None for a new one for each request."""
    stop: asyncio.Event | None = None
    """Ends each request as `cancelled` when it is set."""
    key: "RequestKey | None" = None
    """The key of the only request that is sent."""
    slot: "Slot | None" = None
    """The slot that was taken for the only request that is sent."""

    def make_request(
        self, workspace: Path, work: "Work", limits: "LimitOverrides", *, calls: "Calls", jit: bool
    ) -> ExecutionRequest:
        """Return a request of this caller. Raises RequestError."""
        fields = {
            "actor": self.actor,
            "surface": self.surface,
            "workspace": workspace,
            "work": work,
            "limits": limits,
            "jit": jit,
            "calls": calls,
            "key": self.key,
        }
        chosen = {} if self.request_id is None else {"id": self.request_id}
        return make_value(ExecutionRequest, {**fields, **chosen})


class LoopOrigin:
    """The process and the event loop on which a Paddock was opened."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._loop = asyncio.get_running_loop()

    def check_caller(self) -> None:
        """Raise RuntimeError in another process or on another event loop."""
        if os.getpid() != self._pid:
            raise RuntimeError(FORKED)
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError(_OTHER_LOOP)


class RunningPaddock(LoopOrigin):
    """An opened Paddock, in the process and on the event loop that opened it."""

    def __init__(self, opened: "OpenPaddock") -> None:
        super().__init__()
        self.opened = opened

    async def execute_request(
        self,
        request: ExecutionRequest,
        *,
        asker: "Asker | None" = None,
        **listeners: "Unpack[Listeners]",
    ) -> Outcome:
        """Run a request and return its outcome. An exception of a listener ends it and is raised here.

        Raises PaddockError if the Paddock is closed meanwhile.
        """
        for name in ("on_console", "on_output", "on_call"):
            check_listeners(**{name: listeners.get(name)})
        check_type(listeners.get("stop"), (asyncio.Event, type(None)), "stop", "an asyncio.Event")
        faults: list[BaseException] = []

        def guard_listener(listener: Callable[P, None] | None) -> Callable[P, None] | None:
            return None if listener is None else partial(call_listener, listener)

        def call_listener(listener: Callable[P, None], *args: P.args, **named: P.kwargs) -> None:
            if faults:
                return
            try:
                listener(*args, **named)
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits, `sys.exit` too
                faults.append(error)
                task.cancel()

        self.check_caller()
        listeners["on_console"] = guard_listener(listeners.get("on_console"))
        listeners["on_output"] = guard_listener(listeners.get("on_output"))
        listeners["on_call"] = guard_listener(listeners.get("on_call"))
        task = asyncio.create_task(self.opened.gate.execute(request, asker=asker, **listeners))
        try:
            outcome = await task
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if faults:
                raise faults[0] from None
            if waiting is not None and waiting.cancelling():
                raise
            raise PaddockError(_CLOSED) from None
        if faults:
            raise faults[0]
        return outcome


async def yield_events(
    run: Callable[..., Coroutine[Any, Any, Outcome]],
) -> AsyncGenerator[ConsoleLine | CallRecord | Outcome]:
    """Yield the console lines and calls of `run`, a call of `Paddock.execute`, and finally its outcome.

    Closing the generator ends the program.
    """
    happened: asyncio.Queue[ConsoleLine | CallRecord | None] = asyncio.Queue()
    running = asyncio.create_task(run(on_console=happened.put_nowait, on_call=happened.put_nowait))
    running.add_done_callback(lambda _: happened.put_nowait(None))
    try:
        while (event := await happened.get()) is not None:
            yield event
        yield await running
    finally:
        await cancel_all([running])


def choose_language(language: str | None, alias: str | None) -> str:
    """Return the language of a program, given under either name. Raises RequestError for none, and for both."""
    if (language is None) is (alias is None):
        raise RequestError('give `language`, for example "python"; `runtime` is an alias of it')
    return languages.read_language(str(language or alias))


def read_language(known: "RuntimeSettings", language: str | None, alias: str | None) -> str:
    """Return the language of a program, given under either name. Raises RequestError for none and an unknown one."""
    name = choose_language(language, alias)
    if name in known.languages:
        return name
    from paddock.engines.programs.recipe import no_runtime

    raise RequestError(no_runtime(name, known.recipes))


def attach_readers(outcome: Outcome, open_store: "Callable[[], Artifacts]", workspace: Path) -> Outcome:
    """Let each file of an outcome that was kept read its content from the store; return the outcome."""
    for file in outcome.files:
        if file.handle is not None:
            file.attach_reader(partial(open_store().read, file.handle, workspace))
    return outcome
