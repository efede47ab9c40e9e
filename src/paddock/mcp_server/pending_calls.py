"""Calls whose client cannot ask its person: the person is asked by `paddock approve`, and the client comes back.

The call ends with the status `waiting`; the program stands still, goes on when there is an answer, and its own answer
is kept until it is fetched under the id of its run, once, with the tool that fetches stored output too.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from paddock.app.approvals import ClientAsker
from paddock.app.pending_approvals import PendingApprovals
from paddock.cancellation import cancel_all, wait_shielded
from paddock.javascript.job import OnConsole
from paddock.mcp_server.toolbox import Caller, ToolAnswer, build_refusal, text_block
from paddock.model import approval
from paddock.model.approval import Question
from paddock.model.base import Json
from paddock.model.errors import ApprovalError
from paddock.model.ids import find_mint_time
from paddock.model.outcome import ConsoleLine, Status

_log = logging.getLogger("paddock.mcp")

T = TypeVar("T")
Work = Callable[[Caller], Coroutine[Any, Any, T]]
"""What is to be done for a request, for whoever calls."""

FETCH_TOOLS = {
    "default": ("query_output", "artifact_handle"),
    "compat": ("sdl.runtime.queryOutput", "artifactHandle"),
}
"""The tools that fetch, by the names that are listed, and the argument that says what."""
QUESTIONS_UNUSABLE = (
    "asking failed: the directory of questions cannot be used; the log of the server says why"
)
_WAIT_S = 20.0
_MAX_ENDED_CALLS = 16
"""Answers that wait to be fetched."""


class PendingCall(Generic[T]):
    """Work for a request that goes on by itself, whoever waits for it; its questions wait in the inbox."""

    def __init__(self, actor: str, client: str, work: Work[T], inbox: PendingApprovals) -> None:
        self.actor = actor
        self.client = client
        self.question: Question | None = None
        self.asking = asyncio.Event()
        """Set as long as something is asked."""
        self.answered = asyncio.Event()
        self._inbox = inbox
        self._listener: OnConsole | None = None
        self.task = asyncio.create_task(work(self.make_caller()))

    def make_caller(self) -> Caller:
        """Return who calls, for the work."""
        return Caller(self.actor, self.on_console_line, ClientAsker(self.client, self._ask_person))

    def on_console_line(self, line: ConsoleLine) -> None:
        """Pass a console line on to whoever listens now."""
        if self._listener is not None:
            self._listener(line)

    async def wait_until_paused(self, listener: OnConsole | None, *, ends: bool = True) -> None:
        """Wait for its end or its next question. Cancelling ends it, if it `ends` with whoever waits."""
        self._listener = listener
        asking = asyncio.create_task(self.asking.wait())
        try:
            await asyncio.wait({self.task, asking}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            if ends:
                self.task.cancel()
                await wait_shielded(self.task)
            raise
        finally:
            self._listener = None
            asking.cancel()

    async def _ask_person(self, question: Question) -> approval.Answer:
        try:
            with self._inbox.keep_question(question):
                self.question = question
                self.answered.clear()
                self.asking.set()
                answer = await self._inbox.wait_for_answer(question)
        except (ApprovalError, OSError) as error:  # its text is for the person, not for the program
            _log.warning("nobody can be asked: %s", error)
            return approval.Answer(verdict="unasked", by="paddock", told=QUESTIONS_UNUSABLE)
        finally:
            self.question = None
            self.asking.clear()
            self.answered.set()
        return answer.model_copy(update={"by": f"{answer.by} (paddock approve)"})


class PendingCalls:
    """The calls of one server that wait for `paddock approve`, and the answers that nobody has fetched."""

    def __init__(
        self, inbox: PendingApprovals, fetching: tuple[str, str], patience_s: float = _WAIT_S
    ) -> None:
        """Keep questions in `inbox`; `fetching` is the tool that clients are told to come back with, and its argument.

        Who comes back while a person thinks waits with them for `patience_s`.
        """
        self.inbox = inbox
        self._fetching = fetching
        self._patience_s = patience_s
        self._calls: dict[str, PendingCall[ToolAnswer]] = {}
        self._clients: set[str] = set()
        self.running: set[asyncio.Task[ToolAnswer]] = set()

    def add_client(self, client: str) -> bool:
        """Know a client, and tell whether it was new: who asks says when it has gone, by `end_calls_of_client`."""
        known = client in self._clients
        self._clients.add(client)
        return not known

    def end_calls_of_client(self, client: str) -> None:
        """End the calls that a client has left behind: its session has ended."""
        self._clients.discard(client)
        for run, errand in [*self._calls.items()]:
            if errand.client == client and not errand.task.done():
                errand.task.cancel()
                del self._calls[run]

    async def run_call(
        self, actor: str, client: str, work: Work[ToolAnswer], listener: OnConsole | None
    ) -> ToolAnswer:
        """Return the answer of a tool, or that it waits for a person."""
        errand = PendingCall(actor, client, work, self.inbox)
        self.running.add(errand.task)
        errand.task.add_done_callback(self.running.discard)
        await errand.wait_until_paused(listener)
        return await self.settle_call(errand)

    async def settle_call(self, errand: PendingCall[ToolAnswer]) -> ToolAnswer:
        """Return the answer of a call that has ended, or that it waits for a person, and keep it."""
        if errand.task.done() or (question := errand.question) is None:
            return await errand.task
        self._keep_call(question.run, errand)
        return self._report_waiting(question)

    async def fetch_answer(self, run: str, actor: str) -> ToolAnswer:
        """Return the answer of a call that waited, which is forgotten then, or that it still waits."""
        errand = self._calls.get(run)
        if errand is None or errand.actor != actor:
            return _report_unknown_run(run)
        if errand.question is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(errand.answered.wait(), self._patience_s)
        if errand.question is None:
            await errand.wait_until_paused(None, ends=False)
        if (question := errand.question) is not None:
            return self._report_waiting(question)
        if errand.task.cancelled():
            return _report_unknown_run(run)
        answer = await asyncio.shield(errand.task)
        known = self._calls.pop(run, None) is not None
        return _convert_fetched_answer(answer) if known else _report_unknown_run(run)

    async def close(self) -> None:
        """End what still waits or runs."""
        await cancel_all(self.running)

    def _keep_call(self, run: str, errand: PendingCall[ToolAnswer]) -> None:
        self._calls[run] = errand
        ended = [each for each, kept in self._calls.items() if kept.task.done()]
        for each in ended[:-_MAX_ENDED_CALLS]:
            del self._calls[each]

    def _report_waiting(self, question: Question) -> ToolAnswer:
        """Return that a call waits: for what, and what its client and its person can do."""
        command = f"paddock approve {question.id}"
        tool, argument = self._fetching
        text = (
            f"A person has to allow this: {question.what} ({'; '.join(question.reasons)}). "
            f"Ask them to run in a terminal of this machine: {command}\n"
            f'Then fetch the answer, once: {tool} {{"{argument}":"{question.run}"}}'
        )
        data: dict[str, Json] = {
            "status": "waiting",
            "run": question.run,
            "command": command,
            "message": text,
        }
        return ToolAnswer([text_block(f"waiting · run {question.run}\n{text}")], data)


def find_run_to_fetch(name: str, arguments: Mapping[str, Json] | None) -> str | None:
    """Return the run whose answer a call of a tool fetches; None for any other call."""
    tools = {tool for tool, _ in FETCH_TOOLS.values()}
    if arguments is None or name not in tools:
        return None
    handles = [arguments.get(argument) for _, argument in FETCH_TOOLS.values()]
    return next(
        (each for each in handles if isinstance(each, str) and find_mint_time(each) is not None), None
    )


def _report_unknown_run(run: str) -> ToolAnswer:
    text = f"nothing of this client waits under {run}; an answer is fetched once, and what was done is in the record"
    return build_refusal(Status.INVALID, "UnknownRun", text)


def _convert_fetched_answer(answer: ToolAnswer) -> ToolAnswer:
    """Return an answer as that of the tool that fetches, whose data are of another shape."""
    data: dict[str, Json] = {"status": "failed" if answer.is_error else "ok"}
    if answer.structured is not None:
        data["result"] = answer.structured
    return ToolAnswer(answer.content, data, is_error=answer.is_error)
