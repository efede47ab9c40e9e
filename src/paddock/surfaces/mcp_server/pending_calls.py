"""Calls whose client cannot ask its person: a person answers elsewhere, and the client comes back.

The call ends with the status `waiting`, and its program, if any, pauses. After the person's answer it continues. Its
result is kept until the client fetches it under the id of the run, once. It does so with `query_output`, and the id in
place of an artifact handle. `ElicitationRounds.call_tool` (`client_questions`) passes such a call here, so that it
never reaches the tool of that name.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import Any, Generic, TypeVar

from paddock.foundation.cancellation import wait_shielded
from paddock.gate.approvals import ClientAsker
from paddock.gate.questions import Questions
from paddock.model import approval
from paddock.model.approval import Question
from paddock.model.base import Json
from paddock.model.compat import QUERY_TOOL
from paddock.model.errors import ApprovalError
from paddock.model.ids import is_id
from paddock.model.outcome import ConsoleLine, OnConsole, Status
from paddock.surfaces.mcp_server.toolbox import McpCaller, ToolAnswer, build_refusal, text_block

_log = logging.getLogger("paddock.mcp")

T = TypeVar("T")
CallWork = Callable[[McpCaller], Coroutine[Any, Any, T]]
"""The work of a request, for a caller."""

FETCH_TOOLS = {
    "default": ("query_output", "artifact_handle"),
    "compat": (QUERY_TOOL, "artifactHandle"),
}
"""By profile: the tool that fetches results, and the argument that has the run's id instead of a handle."""
QUESTIONS_UNUSABLE = "asking failed: questions cannot be kept; see the log of the server"
_WAIT_S = 20.0
_MAX_ENDED_CALLS = 16
"""Maximum number of results that wait to be fetched."""


async def run_alone(work: CallWork[T], caller: McpCaller) -> T:
    """Return what the work of a request returns. Cancelling ends the work early, and continues when it has ended.

    The work has a separate task: the protocol library cancels its own task again at every await, which would
    interrupt the end of a program's processes.
    """
    task = asyncio.create_task(work(caller))
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        caller.ending.end(task)
        await wait_shielded(task)
        raise
    return task.result()


class PendingCall(Generic[T]):
    """The work of a request that continues without its caller; its questions are kept in `questions`."""

    def __init__(self, actor: str, client: str, work: CallWork[T], questions: Questions) -> None:
        self.actor = actor
        self.client = client
        self.question: Question | None = None
        self.answered = asyncio.Event()
        self._questions = questions
        self._listener: OnConsole | None = None
        self._asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done while a question waits."""
        caller = self.make_caller()
        self._ending = caller.ending
        self.task = asyncio.create_task(work(caller))

    def make_caller(self) -> McpCaller:
        """Return the caller for the work."""
        return McpCaller(self.actor, self.on_console_line, ClientAsker(self.client, self._ask_person))

    def mark_asking(self) -> None:
        """End the wait of `wait_until_paused`: a question waits."""
        self.answered.clear()
        if not self._asked.done():
            self._asked.set_result(None)

    def mark_answered(self) -> None:
        """Note that no question waits."""
        if self._asked.done():
            self._asked = asyncio.get_running_loop().create_future()
        self.answered.set()

    def end(self) -> None:
        """End the work early. Does nothing after its end."""
        self._ending.end(self.task)

    def on_console_line(self, line: ConsoleLine) -> None:
        """Pass a console line to the current listener."""
        if self._listener is not None:
            self._listener(line)

    async def wait_until_paused(
        self, listener: OnConsole | None, *, ends: bool = True, seconds: float | None = None
    ) -> bool:
        """Wait for the end of the work or its next question; return whether it came within `seconds`.

        With `ends`, cancelling the wait ends the work.
        """
        self._listener = listener
        first = asyncio.FIRST_COMPLETED
        try:
            while not (self.task.done() or self._asked.done()):  # a question may be over when this continues
                done, _ = await asyncio.wait({self.task, self._asked}, timeout=seconds, return_when=first)
                if not done:
                    return False
        except asyncio.CancelledError:
            if ends:
                self.end()
                await wait_shielded(self.task)
            raise
        finally:
            self._listener = None
        return True

    async def _ask_person(self, question: Question) -> approval.Answer:
        try:
            async with self._questions.keep_question(question):
                self.question = question
                self.mark_asking()
                return await self._questions.wait_for_answer(question)
        except (ApprovalError, OSError) as error:  # the error text is for the person, not for the program
            _log.warning("no person can be asked: %s", error)
            return approval.Answer(verdict="unasked", by="paddock", told=QUESTIONS_UNUSABLE)
        finally:
            self.question = None
            self.mark_answered()


async def end_calls(calls: Iterable[PendingCall[Any]]) -> None:
    """End the work of calls early, and wait until it has ended."""
    ending = [*calls]
    for call in ending:
        call.end()
    if ending:
        await asyncio.wait({call.task for call in ending})


class PendingCalls:
    """The calls of one server that wait for a person, and the results that are not fetched yet."""

    def __init__(
        self,
        questions: Questions,
        fetching: tuple[str, str],
        patience_s: float = _WAIT_S,
        *,
        has_users: bool = False,
        note_fetch: Callable[[str, str], None] | None = None,
    ) -> None:
        """Keep questions in `questions`. `fetching` is the tool that clients should come back with, and its argument.

        A client that comes back while its person decides waits up to `patience_s`. `has_users`: the server knows its
        users by their tokens, and each can be answered by another one over the HTTP API. `note_fetch` is called with
        the conversation that gets a result, and the run.
        """
        self._note_fetch = note_fetch
        self.questions = questions
        self._fetching = fetching
        self._patience_s = patience_s
        self._has_users = has_users
        self._calls: dict[str, PendingCall[ToolAnswer]] = {}
        self._clients: set[str] = set()
        self.running: set[PendingCall[ToolAnswer]] = set()

    def add_client(self, client: str) -> bool:
        """Register a client; return whether it was new. The caller reports its end with `end_calls_of_client`."""
        known = client in self._clients
        self._clients.add(client)
        return not known

    def end_calls_of_client(self, client: str) -> None:
        """End the calls of a client whose session has ended."""
        self._clients.discard(client)
        for run, call in [*self._calls.items()]:
            if call.client == client and not call.task.done():
                call.end()
                del self._calls[run]

    async def run_call(
        self, actor: str, client: str, work: CallWork[ToolAnswer], listener: OnConsole | None
    ) -> ToolAnswer:
        """Return the result of a tool, or that the call waits for a person."""
        call = PendingCall(actor, client, work, self.questions)
        self.running.add(call)
        call.task.add_done_callback(lambda _: self.running.discard(call))
        await call.wait_until_paused(listener)
        return self.report_or_keep_call(call)

    def report_or_keep_call(self, call: PendingCall[ToolAnswer]) -> ToolAnswer:
        """Return the result of a call that has ended. If it waits for a person, keep it and return that."""
        if call.task.done() or (question := call.question) is None:
            return call.task.result()
        self._keep_call(question.run, call)
        return self._report_waiting(question)

    def holds_run(self, run: str, actor: str) -> bool:
        """Return whether a call of this actor waits, or its result was not fetched yet."""
        call = self._calls.get(run)
        return call is not None and call.actor == actor

    async def fetch_result(self, run: str, actor: str, conversation: str = "") -> ToolAnswer:
        """Return the result of a waiting call and forget it, or return that it still waits.

        `conversation` is what shares it, for flow rules.
        """
        call = self._calls.get(run)
        if call is None or call.actor != actor:
            return _report_unknown_run(run)
        if call.question is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._patience_s):
                    await call.answered.wait()
        if call.question is None:
            await call.wait_until_paused(None, ends=False)
        if (question := call.question) is not None:
            return self._report_waiting(question)
        if call.task.cancelled():
            return _report_unknown_run(run)
        answer = await asyncio.shield(call.task)
        if self._calls.pop(run, None) is None:  # another request fetched it in the meantime
            return _report_unknown_run(run)
        if self._note_fetch is not None:
            self._note_fetch(conversation, run)
        data: dict[str, Json] = {"status": "failed" if answer.is_error else "ok"}
        if answer.structured is not None:
            data["result"] = answer.structured
        return ToolAnswer(answer.content, data, is_error=answer.is_error)

    async def close(self) -> None:
        """End all work that waits or runs."""
        await end_calls(self.running)

    def _keep_call(self, run: str, call: PendingCall[ToolAnswer]) -> None:
        self._calls[run] = call
        ended = [each for each, kept in self._calls.items() if kept.task.done()]
        for each in ended[:-_MAX_ENDED_CALLS]:
            del self._calls[each]

    def _report_waiting(self, question: Question) -> ToolAnswer:
        """Return that a call waits, why, and what client and person can do."""
        command = f"paddock approve {question.id}"
        tool, argument = self._fetching
        who = f"Ask them to run in a terminal of this machine: {command}"
        if self._has_users:
            who = (
                "You cannot answer it yourself. Ask another user whose token has `approve` to send "
                f"POST /v1/approvals/{question.id}, or a person at a terminal of the server to run: {command}"
            )
        text = (
            f"A person must allow this: {question.what} ({'; '.join(question.reasons)}). {who}\n"
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
    """Return the run whose result a tool call fetches; None for any other call."""
    tools = {tool for tool, _ in FETCH_TOOLS.values()}
    if arguments is None or name not in tools:
        return None
    handles = [arguments.get(argument) for _, argument in FETCH_TOOLS.values()]
    return next((each for each in handles if isinstance(each, str) and is_id(each)), None)


def _report_unknown_run(run: str) -> ToolAnswer:
    text = f"this client has no answer to fetch for {run}; each answer is fetched once; the record shows what was done"
    return build_refusal(Status.INVALID, "UnknownRun", text)
