"""What a server asks its user for in the midst of a call, and who answers.

A program never does. Of a server among `servers.questions`, a person who can be asked about the call is shown the
question together with the one answer that can be given: what the form holds by itself (SEP-1034). They agree or not.
A form that wants more than that, an address to be opened, or anything but a form fails the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from paddock.hub.call_errors import TRACE, Trace
from paddock.hub.person import PERSON, Person, ServerForm, UnanswerableQuestion
from paddock.schema.check import Schema

if TYPE_CHECKING:
    from mcp.client.session import ClientRequestContext
    from mcp_types import ElicitRequestParams, ElicitResult, ErrorData

MAX_ROUNDS = 5
"""Times that one call may come back with questions."""
_MAX_FORMS = 5
"""Questions of one round."""
_MAX_SCHEMA_CHARS = 16 * 1024
_MAX_MESSAGE_CHARS = 4000


def read_form(params: Mapping[str, Any]) -> ServerForm:
    """Return what the parameters of `elicitation/create` ask. Raises UnanswerableQuestion."""
    message, schema = params.get("message"), params.get("requestedSchema")
    if params.get("mode", "form") != "form":
        raise UnanswerableQuestion("it wants its user to open an address, which Paddock opens for no server")
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
            "it asks for values that somebody would have to type, which is not possible here"
        )
    return ServerForm(message, values)


class Questions:
    """The questions that come over one connection."""

    def __init__(self) -> None:
        self._calls: list[tuple[Person | None, Trace | None]] = []

    @contextmanager
    def track_call(self) -> Generator[None]:
        """Know a call of the current task while it lasts."""
        entry = (PERSON.get(), TRACE.get())
        self._calls.append(entry)
        try:
            yield
        finally:
            self._calls.remove(entry)

    async def settle_result(
        self, answer: object, again: Callable[[dict[str, Any]], Awaitable[object]]
    ) -> object:
        """Return the result of a call that came back with questions (SEP-2322).

        `again` makes the call once more with further parameters. Raises UnanswerableQuestion and MCPError.
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
                    raise UnanswerableQuestion("it wants something else than an answer of its user")
        return answers

    async def on_elicitation(
        self,
        context: "ClientRequestContext",
        params: "ElicitRequestParams",
    ) -> "ElicitResult | ErrorData":
        """Answer a server of the older era, which asks past the call. Where two calls run, nobody knows whose it is."""
        from mcp_types import ElicitResult  # loaded before the first question

        if len(self._calls) != 1:
            return ElicitResult(action="cancel")
        try:
            given = params.model_dump(by_alias=True, exclude_none=True)
            return ElicitResult.model_validate(await _ask_person(given, *self._calls[0]))
        except UnanswerableQuestion:
            return ElicitResult(action="cancel")


def asks_back(answer: object) -> bool:
    """Return whether an answer is a question."""
    return isinstance(answer, dict) and cast("dict[str, Any]", answer).get("resultType") == "input_required"


async def _ask_person(
    params: Mapping[str, Any], person: Person | None, trace: Trace | None
) -> dict[str, Any]:
    """Return the result of an elicitation; the time of the call stands still meanwhile. Raises UnanswerableQuestion."""
    question = read_form(params)
    if person is None:
        raise UnanswerableQuestion("nobody is there who could be asked")
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
    with suppress(RuntimeError):  # the call has ended meanwhile
        limit.reschedule(None)
    try:
        yield
    finally:
        with suppress(RuntimeError):
            limit.reschedule(loop.time() + left)
