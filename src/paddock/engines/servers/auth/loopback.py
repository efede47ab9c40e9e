"""Receive the authorization server's answer from the browser: a listener on 127.0.0.1 for one answer.

Every program on this machine and every page in the browser can send requests here. A request without the `state` of
this login is rejected and changes nothing. Therefore no other party can inject a code or end the login.
"""

import asyncio
import secrets
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from mcp.shared.auth import AuthorizationCodeResult

from paddock.engines.servers.auth.tokens import LoginFailed

CALLBACK_PATH = "/callback"
_MAX_HEAD_BYTES = 16 * 1024
_HEAD_S = 10.0
_MAX_FIELDS = 20
_HEADERS = (
    "Content-Type: text/html; charset=utf-8\r\nCache-Control: no-store\r\nReferrer-Policy: no-referrer\r\n"
    "Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n"
)
_DONE_PAGE = "<!doctype html><title>Paddock</title><p>You are logged in. You can close this page."
_REJECTED_PAGE = "<!doctype html><title>Paddock</title><p>This request does not belong to the current login."


class LoopbackListener:
    """Listens during a login."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._state = ""
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._answer: asyncio.Future[AuthorizationCodeResult] = asyncio.get_running_loop().create_future()

    @property
    def uri(self) -> str:
        """The redirect address for browsers."""
        return f"http://127.0.0.1:{self._port}{CALLBACK_PATH}"

    async def __aenter__(self) -> Self:
        """Start listening. Raises LoginFailed when the port is in use."""
        try:
            self._server = await asyncio.start_server(
                self._serve_connection, "127.0.0.1", self._port, limit=_MAX_HEAD_BYTES
            )
        except OSError as error:
            raise LoginFailed(f"port {self._port} of 127.0.0.1 cannot be used: {error.strerror}") from None
        self._port = int(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and close every connection: one that is being read when the event loop ends would print a traceback."""
        self._answer.cancel()
        self._server.close()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*self._open, return_exceptions=True)

    def expect_state(self, url: str) -> None:
        """Accept only answers with the `state` of `url` from now on."""
        self._state = parse_qs(urlsplit(url).query).get("state", [""])[0]
        if self._answer.done():
            self._answer = asyncio.get_running_loop().create_future()

    async def wait_for_answer(self) -> AuthorizationCodeResult:
        """Return the answer. Raises LoginFailed when it is a refusal."""
        return await self._answer

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status, page = "400 Bad Request", _REJECTED_PAGE
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        task.add_done_callback(self._open.pop)
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
            if self._take_request(head.decode("latin-1")):
                status, page = "200 OK", _DONE_PAGE
            body = page.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\n{_HEADERS}Content-Length: {len(body)}\r\n\r\n".encode() + body
            )
            await writer.drain()
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass
        finally:
            writer.close()

    def _take_request(self, head: str) -> bool:
        """Accept a request if it is the answer; return whether it was."""
        method, _, rest = head.partition("\r\n")[0].partition(" ")
        target = rest.partition(" ")[0]
        hosts = [
            value.strip()
            for name, _, value in (line.partition(":") for line in head.split("\r\n")[1:])
            if name.lower() == "host"
        ]
        if method != "GET" or hosts not in ([f"127.0.0.1:{self._port}"], [f"localhost:{self._port}"]):
            return False
        try:
            url = urlsplit(target)
            fields = parse_qs(url.query, max_num_fields=_MAX_FIELDS)
        except ValueError:
            return False
        if (
            url.path != CALLBACK_PATH
            or self._answer.done()
            or any(len(values) > 1 for values in fields.values())
        ):
            return False
        return self._accept_answer({name: values[0] for name, values in fields.items()})

    def _accept_answer(self, fields: Mapping[str, str]) -> bool:
        state = fields.get("state", "")
        if not self._state or not secrets.compare_digest(state.encode(), self._state.encode()):
            return False
        if "error" in fields:
            code = fields["error"] if fields["error"] in _REFUSAL_CODES else "an error"
            self._answer.set_exception(LoginFailed(f"the authorization server answered {code}"))
        elif fields.get("code"):
            result = AuthorizationCodeResult(code=fields["code"], state=state, iss=fields.get("iss"))
            self._answer.set_result(result)
        else:  # for example a token, which must not be in an address
            return False
        return True


_REFUSAL_CODES = frozenset(
    (
        *("access_denied", "invalid_request", "invalid_scope", "invalid_target", "unauthorized_client"),
        *("server_error", "temporarily_unavailable", "unsupported_response_type", "interaction_required"),
        *("login_required", "consent_required"),
    )
)
