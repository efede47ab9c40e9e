"""What every server over HTTP has before its application: in which order it checks, and how what ends early is answered."""

import asyncio
import base64
import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from paddock.surfaces.http_server.asgi import App, Receive, Scope, Send, send_text
from paddock.surfaces.http_server.entry import PIECE_BYTES, HttpEntry, OneToken
from paddock.surfaces.http_server.hosts import HostNames
from paddock.surfaces.tenants.refusals import Refusals
from paddock.testing.fakes import MemoryAudit

TOKEN = "correct-horse-battery-staple"
HOST = (b"host", b"127.0.0.1:80")
AUTHORIZED = (b"authorization", f"Bearer {TOKEN}".encode())


async def answer_all(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_text(send, 200, b"inside")


async def answer_in_public(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send_text(send, 200, b"public")


class Exchange:
    """One request, and what came back for it."""

    def __init__(self) -> None:
        self.messages: list[MutableMapping[str, Any]] = []
        self.audit = MemoryAudit()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return self.messages[0]["status"]

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(each["body"] for each in self.messages[1:])

    @property
    def problem(self) -> str:
        return json.loads(self.body)["type"].removeprefix("urn:paddock:problem:")

    @property
    def refused(self) -> list[Any]:
        return [each.fields["reason"] for each in self.audit.query(event="refused")]

    async def ask(self, app: App, *headers: tuple[bytes, bytes], path: str = "/mcp") -> None:
        """Send a request without a body; the client then disconnects."""
        names = HostNames.of(["127.0.0.1"], 80)
        refusals = Refusals(self.audit, None, "mcp")
        callers = OneToken(TOKEN, refusals)
        entry = HttpEntry(app, callers, names, public=answer_in_public, public_paths={"/livez"})
        scope = {"type": "http", "method": "GET", "path": path, "headers": [*headers]}

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.disconnect"}

        try:
            await entry(scope, receive, self.send)
        finally:
            refusals.close()


def ask(app: App, *headers: tuple[bytes, bytes], path: str = "/mcp") -> Exchange:
    exchange = Exchange()
    asyncio.run(exchange.ask(app, *headers, path=path))
    return exchange


def test_a_caller_with_the_token_gets_in() -> None:
    password = base64.b64encode(f"anybody:{TOKEN}".encode())
    for authorization in (AUTHORIZED, (b"authorization", b"Basic " + password)):
        assert ask(answer_all, HOST, authorization).body == b"inside"


@pytest.mark.parametrize(
    ("headers", "status", "problem"),
    [
        ([HOST], 401, "unauthorized"),
        ([HOST, AUTHORIZED, AUTHORIZED], 401, "unauthorized"),
        ([HOST, (b"authorization", f"Bearer {TOKEN}\xe9".encode("latin-1"))], 401, "unauthorized"),
        ([AUTHORIZED], 421, "wrong-host"),
        ([(b"host", b"evil.test")], 421, "wrong-host"),
        ([HOST, (b"origin", b"http://evil.test")], 403, "foreign-origin"),
    ],
)
def test_names_are_checked_before_the_token(
    headers: list[tuple[bytes, bytes]], status: int, problem: str
) -> None:
    found = ask(answer_all, *headers)
    assert (found.status, found.problem, found.refused) == (status, problem, [problem])
    assert found.headers[b"content-type"] == b"application/problem+json"
    assert (b"www-authenticate" in found.headers) == (status == 401)


def test_public_paths_are_answered_to_everybody() -> None:
    assert ask(answer_all, path="/livez").body == b"public"


def test_a_request_that_the_end_cancels_is_answered_unless_its_answer_has_begun() -> None:
    async def cancel(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise asyncio.CancelledError

    async def begin(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise asyncio.CancelledError

    found = ask(cancel, HOST, AUTHORIZED)
    assert (found.status, found.problem) == (500, "internal-error")
    with pytest.raises(asyncio.CancelledError):
        ask(begin, HOST, AUTHORIZED)


def test_an_error_of_an_application_counts_unless_its_client_has_gone() -> None:
    async def fail(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise OSError("broken")

    async def read(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await fail(scope, receive, send)

    assert ask(read, HOST, AUTHORIZED).messages == []
    with pytest.raises(OSError, match="broken"):
        ask(fail, HOST, AUTHORIZED)


def test_a_large_answer_is_sent_in_pieces() -> None:
    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send_text(send, 200, b"x" * (PIECE_BYTES * 2 + 1))

    found = ask(answer, HOST, AUTHORIZED)
    assert [len(each["body"]) for each in found.messages[1:]] == [PIECE_BYTES, PIECE_BYTES, 1]
    assert [each["more_body"] for each in found.messages[1:]] == [True, True, False]
