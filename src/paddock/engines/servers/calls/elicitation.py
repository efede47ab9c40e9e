"""Questions that a server asks its user during a call, and their answers.

A program never answers. If the server is among `servers.questions` and a person can be asked, the person sees the
question and the one possible answer: the form's own default values (SEP-1034). The person agrees or declines. A form
that needs typed values, a request to open an address, and anything except a form fail the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from paddock.engines.servers.calls.call_errors import TRACE, Trace
from paddock.engines.servers.person import PERSON, Person, ServerForm, UnanswerableQuestion
from paddock.foundation.schema.check import Schema

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

MAX_ROUNDS = 5
"""Maximum number of rounds of questions in one call."""
_MAX_FORMS = 5
"""Maximum number of questions in one round."""
_MAX_SCHEMA_CHARS = 16 * 1024
_MAX_MESSAGE_CHARS = 4000


def read_form(params: Mapping[str, Any]) -> ServerForm:
    """Return the form in the parameters of `elicitation/create`. Raises UnanswerableQuestion."""
    message, schema = params.get("message"), params.get("requestedSchema")
    if params.get("mode", "form") != "form":
        raise UnanswerableQuestion(
            "it asks its user to open an address, which Paddock never does for a server"
        )
    if not isinstance(message, str) or len(message) > _MAX_MESSAGE_CHARS or not isinstance(schema, dict):
        raise UnanswerableQuestion("its question breaks the protocol")
    fields = cast("dict[str, Any]", schema).get("properties", {})
    if not isinstance(fields, dict) or len(str(cast("object", schema))) > _MAX_SCHEMA_CHARS:
        raise UnanswerableQuestion("its question breaks the protocol")
    values = {
        str(name): cast("dict[str, Any]", field)["default"]
        for name, field in cast("dict[str, object]", fields).items()
        if isinstance(field, dict) and "default" in field
    }
    try:
        fits = not Schema(cast("dict[str, Any]", schema)).list_problems(values)
    except ValueError:
        fits = False
    if not fits:
        raise UnanswerableQuestion(
            "it asks for values that a person would have to type, which is not possible here"
        )
    return ServerForm(message, values)


class ServerQuestions:
    """The questions of one connection."""

    def __init__(self) -> None:
        self._calls: list[tuple[Person | None, Trace | None]] = []

    @contextmanager
    def track_call(self) -> Generator[None]:
        """Register the current task's call during the context."""
        entry = (PERSON.get(), TRACE.get())
        self._calls.append(entry)
        try:
            yield
        finally:
            self._calls.remove(entry)

    async def settle_result(
        self, answer: object, again: Callable[[dict[str, Any]], Awaitable[object]]
    ) -> object:
        """Answer the questions of a call (SEP-2322) and return the call's result.

        `again` repeats the call with further parameters. Raises UnanswerableQuestion and MCPError.
        """
        for _ in range(MAX_ROUNDS):
            if not asks_back(answer):
                return answer
            asked = cast("dict[str, Any]", answer)
            more: dict[str, Any] = {"inputResponses": await self._answer_all(asked.get("inputRequests"))}
            if "requestState" in asked:
                more["requestState"] = asked["requestState"]
            answer = await again(more)
        raise UnanswerableQuestion(f"it asked more than {MAX_ROUNDS} times")

    async def _answer_all(self, requests: object) -> dict[str, Any]:
        if not isinstance(requests, dict) or not 0 < len(cast("dict[str, Any]", requests)) <= _MAX_FORMS:
            raise UnanswerableQuestion("its question breaks the protocol")
        answers: dict[str, Any] = {}
        for key, request in cast("dict[str, Any]", requests).items():
            match request:
                case {"method": "elicitation/create", "params": dict()}:
                    params = cast("dict[str, Any]", request["params"])
                    answers[key] = await _ask_person(params, PERSON.get(), TRACE.get())
                case _:
                    raise UnanswerableQuestion("it requests something other than an answer of its user")
        return answers

    async def on_elicitation(
        self,
        context: "ClientRequestContext",
        params: "ElicitRequestParams",
    ) -> "ElicitResult | ErrorData":
        """Answer a server of the older era. Its questions name no call; with two calls in flight they are cancelled."""
        from mcp_types import ElicitResult  # already loaded at the first question

        if len(self._calls) != 1:
            return ElicitResult(action="cancel")
        try:
            given = params.model_dump(by_alias=True, exclude_none=True)
            return ElicitResult.model_validate(await _ask_person(given, *self._calls[0]))
        except UnanswerableQuestion:
            return ElicitResult(action="cancel")


def asks_back(answer: object) -> bool:
    """Return whether an answer asks a question."""
    return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("resultType") == "input_required"


async def _ask_person(
    params: Mapping[str, Any], person: Person | None, trace: Trace | None
) -> dict[str, Any]:
    """Return the result of an elicitation. The call's timeout stops meanwhile. Raises UnanswerableQuestion."""
    question = read_form(params)
    if person is None:
        raise UnanswerableQuestion("there is no person to ask")
    with _pause_timeout(trace.limit if trace is not None else None):
        action = await person(question)
    return {"action": action, "content": dict(question.values)} if action == "accept" else {"action": action}


@contextmanager
def _pause_timeout(limit: asyncio.Timeout | None) -> Generator[None]:
    ends = limit.when() if limit is not None else None
    if limit is None or ends is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left = ends - loop.time()
    with suppress(RuntimeError):  # the call has ended in the meantime
        limit.reschedule(None)
    try:
        yield
    finally:
        with suppress(RuntimeError):
            limit.reschedule(loop.time() + left)
